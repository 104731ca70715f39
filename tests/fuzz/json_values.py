"""
JSON changed by its meaning: values, keys and lists, before it is text, and the text.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any, Final

from tests.fuzz.mutations import changed, number

#: Never told to anybody who sent it in a place where it is wrong.
CANARY: Final = "canary-d41d8cd9"
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 0.5, -0.0, 1e308, 2**31, 2**53, 2**63, 2**64),
    *("", "x", CANARY, "\0", "\ud83d\ude00", "é", "x" * 300, " ", "auto", "text"),
    *([], {}, [[]], [None], {"": {}}, {CANARY: CANARY}, [CANARY] * 3, "true", "1"),
)
#: Text that JSON readers have tripped over.
TEXTS: Final = (
    *(b"\xef\xbb\xbf", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"NaN"),
    *(b"Infinity", b"1e999", b"-0", b"1" * 400, b"1." + b"0" * 400, b"\0", b"//"),
    *(b"[" * 9, b"]" * 9, b'{"a":' * 9, b"," * 3, b'"', b"'", b"\\", b"\xc2\xa0"),
    *(b'"model":"m",', b'"model":"m",', b"/**/", b"0x1", b"\x1f", b"tru", b"\\ud83d"),
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything in *value*."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            keys: Any = list(each)
        elif isinstance(each, list):
            keys = range(len(each))
        else:
            continue
        found += [(each, key) for key in keys]
        waiting += [each[key] for key in keys]
    return found


def other_value(rng: random.Random, value: Any, words: Sequence[Any] = ()) -> Any:
    """
    *value* with a few changes: other values, keys left out, added, renamed or moved.

    Args:
        words: Values and keys that mean something where this goes.
    """
    made = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        known = places(made)
        if not known:
            return rng.choice(VALUES)
        container, key = rng.choice(known)
        _change(rng, container, key, words)
    return made


def _change(rng: random.Random, container: Any, key: Any, words: Sequence[Any]) -> None:
    drawn = rng.random()
    old = container[key]
    strings = [word for word in words if isinstance(word, str)]
    if drawn < 0.25 and words:
        container[key] = copy.deepcopy(rng.choice(words))
    elif drawn < 0.45:
        container[key] = copy.deepcopy(rng.choice(VALUES))
    elif drawn < 0.55:
        container[key] = number(rng, rng.choice((1, 2, 4, 8))) * rng.choice((1, 1, -1))
    elif drawn < 0.7 and isinstance(old, str):
        text = changed(rng, old.encode("utf-8", "surrogatepass"))
        container[key] = text.decode("utf-8", "replace")
    elif drawn < 0.8:
        del container[key]
    elif isinstance(container, dict):
        name = rng.choice([*strings, CANARY, "", "x" * 200])
        container[name] = copy.deepcopy(old)
        if drawn < 0.9 and name != key:
            del container[key]
    else:
        container[key:key] = [copy.deepcopy(old)] * rng.choice((1, 1, 2, 70))


def text_of(value: Any) -> bytes:
    """*value* as bytes; half a surrogate pair is escaped."""
    return json.dumps(value).encode()


def draw(
    rng: random.Random,
    corpus: Sequence[bytes],
    samples: Sequence[Any],
    words: Sequence[Any] = (),
) -> bytes:
    """
    JSON text, mostly well-formed: of *samples* changed by meaning, or of *corpus*.
    """
    drawn = rng.random()
    if drawn < 0.5:
        return text_of(other_value(rng, rng.choice(samples), words))
    data = rng.choice(corpus)
    if drawn < 0.8:
        try:
            return text_of(other_value(rng, json.loads(data), words))
        except (ValueError, RecursionError):
            pass
    return changed(rng, data, corpus, TEXTS)
