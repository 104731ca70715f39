"""
The one JSON reader, for HTTP bodies and configuration files (`http.md` §3).

Rules: strict UTF-8, no byte order mark, an object on top, bounded nesting and keys, no
key twice in one object at any level, no NaN, Infinity or number that overflows a
double, no lone surrogate in a string or key.

Layer 0. The reasons are fixed sentences: nothing of the input reaches an error.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import attrs

from twisted_aotx.errors import AOTXError

#: A string (closed, or cut by the end of the text) or a bracket. Possessive, so that
#: the scan is linear in the text whatever stands in it.
_TOKEN = re.compile(r'"(?:[^"\\]+|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
#: An escape that may make one half of a surrogate pair.
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


@attrs.define(slots=False)
class StrictJSONError(AOTXError):
    """
    The bytes are not the JSON that we take.
    """

    reason: str

    def __str__(self) -> str:
        return self.reason


def loads(data: bytes, *, depth_max: int = 8, keys_max: int = 128) -> dict[str, Any]:
    """
    Read one JSON object.

    Args:
        data: The whole text.
        depth_max: Objects and arrays within each other, the top object included.
        keys_max: Keys in any one object.

    Raises:
        StrictJSONError: a rule of this module is broken.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise StrictJSONError("not UTF-8") from None
    if text.startswith("\ufeff"):
        raise StrictJSONError("begins with a byte order mark")
    _check_depth(text, depth_max)

    def take(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(pairs) > keys_max:
            raise StrictJSONError(f"more than {keys_max} keys in one object")
        taken = dict(pairs)
        if len(taken) != len(pairs):
            raise StrictJSONError("a key stands twice in one object")
        return taken

    try:
        value = json.loads(
            text,
            object_pairs_hook=take,
            parse_constant=_refuse_constant,
            parse_float=_take_float,
            parse_int=_take_int,
        )
    except ValueError:
        # The decoder's own error carries the whole text; it must not travel on.
        raise StrictJSONError("not JSON") from None
    if not isinstance(value, dict):
        raise StrictJSONError("the top value is not an object")
    if _SURROGATE_ESCAPE.search(text):
        _check_strings(value)
    return value


def dumps(value: object) -> bytes:
    """
    Write *value* as compact UTF-8 JSON, non-ASCII unescaped.
    """
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode()


def _check_depth(text: str, depth_max: int) -> None:
    """
    Refuse deep nesting before the parser recurses into it.
    """
    depth = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in "[{":
            depth += 1
            if depth > depth_max:
                raise StrictJSONError(f"nested deeper than {depth_max}")
        elif first in "]}":
            depth -= 1


def _refuse_constant(_name: str) -> NoReturn:
    raise StrictJSONError("NaN and Infinity are not numbers")


def _take_float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise StrictJSONError("a number is too large")
    return value


def _take_int(text: str) -> int:
    # 309 digits and a sign are the longest whole number that fits a double.
    if len(text) > 310:
        raise StrictJSONError("a number is too large")
    value = int(text)
    try:
        float(value)
    except OverflowError:
        raise StrictJSONError("a number is too large") from None
    return value


def _check_strings(value: object) -> None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise StrictJSONError("a lone surrogate stands in a string") from None
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_strings(key)
            _check_strings(item)
    elif isinstance(value, list):
        for item in value:
            _check_strings(item)
