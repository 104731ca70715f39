"""
Looks for planted secrets wherever something may be shown: logs, reprs, metrics, error
answers, tracebacks.

A secret is a unit of twelve characters, repeated, so that a piece of it is found too;
and it is looked for in every form that text takes on its way out (`forms`).
"""

from __future__ import annotations

import base64
import binascii
import gc
import hashlib
import json
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final, cast
from urllib.parse import quote

from twisted.logger import (
    ILogObserver,
    LogEvent,
    eventAsJSON,
    eventAsText,
    formatEvent,
    globalLogPublisher,
)
from twisted.python.failure import Failure

#: Characters of a unit. A multiple of three, so that base64 repeats as it does.
UNIT: Final = 12
PACKAGE: Final = "twisted_aotx"


def planted(name: str, size: int = 10 * UNIT) -> str:
    """A secret named *name*: the same name, the same secret."""
    digest = hashlib.sha256(f"planted {name}".encode()).digest()
    unit = base64.b32encode(digest).decode()[:UNIT].lower()
    return (unit * (size // UNIT + 1))[:size]


def forms(secret: bytes) -> dict[str, str]:
    """What the first unit of *secret* looks like, by the name of the form."""
    unit = secret[:UNIT]
    found = {
        "plain": unit.decode("latin-1"),
        "repr": repr(unit)[2:-1],
        "hex": unit.hex(),
        "hex of words": " ".join(f"{byte:02x}" for byte in unit),
        "list": ", ".join(str(byte) for byte in unit),
        "tight list": ",".join(str(byte) for byte in unit),
        "percent": "".join(f"%{byte:02x}" for byte in unit),
        "quoted": quote(unit, safe=""),
        "escaped": "".join(f"\\x{byte:02x}" for byte in unit),
        "JSON": json.dumps(unit.decode("latin-1"))[1:-1],
        "JSON escaped": "".join(f"\\u{byte:04x}" for byte in unit),
        "entities": "".join(f"&#{byte};" for byte in unit),
        "uuencoded": binascii.b2a_uu(unit)[1:-1].decode(),
        "base85": base64.b85encode(unit).decode(),
    }
    for shift in range(3):
        # Whatever stands before, in whole groups; the first may not be all of it.
        whole = base64.b64encode(bytes(shift) + secret + bytes(UNIT)).decode()
        body = whole[4 if shift else 0 :][: UNIT * 4 // 3]
        found[f"base64 + {shift}"] = body
        found[f"URL base64 + {shift}"] = body.replace("+", "-").replace("/", "_")
    return found


class Hunter:
    """
    Knows the secrets by name: text or bytes that repeat a unit, and digests whole.
    """

    def __init__(self, secrets: Mapping[str, str | bytes]) -> None:
        self._names: dict[str, str] = {}
        for name, secret in secrets.items():
            data = secret.encode() if isinstance(secret, str) else secret
            for form, text in forms(data).items():
                self._names.setdefault(text.lower(), f"{name} ({form})")
        self._pattern = re.compile("|".join(map(re.escape, self._names)))

    def find(self, text: str) -> set[str]:
        """The names and forms of what *text* holds."""
        return {self._names[one] for one in self._pattern.findall(text.lower())}

    def in_bytes(self, data: bytes) -> set[str]:
        return self.find(data.decode("latin-1"))


class Catch:
    """
    What was found: where, what, and a piece of the text.
    """

    def __init__(self, hunter: Hunter) -> None:
        self.hunter = hunter
        self.found: dict[tuple[str, str], str] = {}
        #: Texts that were looked at, by kind: a net that sees nothing catches nothing.
        self.seen: dict[str, int] = {}

    def look(
        self, kind: str, where: str, text: str, allowed: Iterable[str] = ()
    ) -> None:
        """Look at *text*; secrets named in *allowed* may be in it."""
        self.seen[kind] = self.seen.get(kind, 0) + 1
        for name in self.hunter.find(text):
            if name.partition(" (")[0] in allowed:
                continue
            self.found.setdefault((f"{kind}: {where}", name), text[:300])

    def assert_nothing(self) -> None:
        lines = [
            f"{where}: {name}: {text!r}" for (where, name), text in self.found.items()
        ]
        assert not lines, "\n".join(lines)


# --- logs -----------------------------------------------------------------------------


def event_texts(event: LogEvent) -> Iterator[str]:
    """Everything that a writer of logs may make of *event*."""
    yield formatEvent(event)
    yield eventAsText(event)
    yield repr(event)
    with suppress(TypeError):  # what cannot be said in JSON is in its repr
        yield eventAsJSON(event)
    for key, value in event.items():
        yield f"{key} {value!s} {value!r}"
        if isinstance(value, Failure):
            yield value.getTraceback()
            yield value.getBriefTraceback()
            yield value.getErrorMessage()


@contextmanager
def logs_into(catch: Catch) -> Iterator[list[LogEvent]]:
    """Looks at every event of every level while the block runs."""
    events: list[LogEvent] = []

    def observe(event: LogEvent) -> None:
        events.append(event)
        where = f"{event.get('log_namespace')}: {event.get('log_format')}"
        for text in event_texts(event):
            catch.look("log", where, text)

    observer = cast(ILogObserver, observe)
    globalLogPublisher.addObserver(observer)
    try:
        yield events
    finally:
        globalLogPublisher.removeObserver(observer)


# --- objects --------------------------------------------------------------------------


#: By number, for a class need not have a hash; the class is kept, so it stays its own.
_OURS: dict[int, tuple[type, bool]] = {}


def is_ours(kind: type) -> bool:
    """Whether it is a class of ours or inherits from one."""
    if id(kind) not in _OURS:
        packages = [one.__module__.partition(".")[0] for one in kind.__mro__]
        _OURS[id(kind)] = kind, PACKAGE in packages
    return _OURS[id(kind)][1]


def our_objects() -> list[object]:
    """
    Those alive that are of a class of ours or of one that inherits from it; after
    `gc.freeze` only the ones made since.
    """
    return [one for one in gc.get_objects() if is_ours(type(one))]


def look_at_objects(catch: Catch) -> None:
    """Every object of ours as `repr` and `str` show it."""
    for one in our_objects():
        where = type(one).__qualname__
        for show in (repr, str):
            try:
                text = show(one)
            except Exception as error:
                text = repr(error)
            catch.look("object", where, text)


@contextmanager
def only_new_objects() -> Iterator[None]:
    """What there is already is not looked at: a walk takes as long as what is new."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


# --- exceptions -----------------------------------------------------------------------


@contextmanager
def raised_into(catch: Catch) -> Iterator[set[str]]:
    """
    Looks at every exception of ours that comes through our code while the block runs,
    with its traceback and what it came from; the names of their classes.
    """
    names: set[str] = set()
    modules = f"/{PACKAGE}/"

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "exception":
            error = argument[1]
            if isinstance(error, BaseException) and is_ours(type(error)):
                name = type(error).__qualname__
                names.add(name)
                shown = "".join(traceback.format_exception(error))
                catch.look("exception", name, f"{error!r} {error!s} {shown}")
        return local

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_lines = False
        return local if modules in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield names
    finally:
        sys.settrace(before)
