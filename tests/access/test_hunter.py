"""
The hunter finds what it is made to find: in every form, in every place.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest
from twisted.logger import Logger

from tests.access.hunter import (
    Catch,
    Hunter,
    logs_into,
    look_at_objects,
    only_new_objects,
    planted,
    raised_into,
)
from twisted_aotx import strictjson
from twisted_aotx.errors import Problem
from twisted_aotx.gateway.closing import Closing
from twisted_aotx.gateway.settings import Principal

SECRET: Final = planted("test")
#: Not of ASCII, as a digest is.
BYTES: Final = bytes(range(200, 212)) * 4
WAYS: Final[dict[str, Callable[[bytes], str]]] = {
    "plain": lambda data: data.decode("latin-1"),
    "upper case": lambda data: data.decode("latin-1").upper(),
    "repr": repr,
    "hex": lambda data: data.hex(),
    "hex in upper case": lambda data: data.hex().upper(),
    "base64": lambda data: base64.b64encode(data).decode(),
    "base64 at 1": lambda data: base64.b64encode(b"?" + data).decode(),
    "base64 at 2": lambda data: base64.b64encode(b"??" + data).decode(),
    "URL base64": lambda data: base64.urlsafe_b64encode(b"<" + data).decode(),
    "base85": lambda data: base64.b85encode(data).decode(),
    "quoted": lambda data: quote(data),
    "JSON": lambda data: json.dumps(data.decode("latin-1")),
    "every character escaped": lambda data: "".join(f"\\u{one:04X}" for one in data),
    "list": lambda data: repr(list(data)),
    "tuple": lambda data: repr(tuple(data)),
    "a piece": lambda data: repr(data[5:31]),
    "cut": lambda data: data.decode("latin-1")[:13] + "...",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("secret", [SECRET.encode(), BYTES])
def test_every_form(secret: bytes, way: str) -> None:
    hunter = Hunter({"it": secret, "another": planted("another")})
    text = f"before {WAYS[way](secret)} after"

    assert {name.partition(" ")[0] for name in hunter.find(text)} == {"it"}
    assert hunter.find(text.replace("a", "")[:9]) == set()


def catch() -> Catch:
    return Catch(Hunter({"it": SECRET}))


@pytest.mark.parametrize(
    "leak",
    [
        lambda log: log.debug("seen {what}", what=SECRET),
        lambda log: log.info("seen", what=SECRET),
        lambda log: log.info("seen", what={"deep": [SECRET.encode()]}),
        lambda log: log.critical("seen {what}", what=SECRET.encode().hex()),
        lambda log: log.error("seen {what.key}", what=Leaking(SECRET)),
    ],
)
def test_logs(leak: Callable[[Logger], None]) -> None:
    caught = catch()
    with logs_into(caught) as events:
        Logger("aotx.test").info("nothing")
        assert not caught.found
        leak(Logger("aotx.test"))

    assert len(events) == 2
    assert caught.found
    with pytest.raises(AssertionError, match=r"aotx\.test"):
        caught.assert_nothing()


def test_logged_failures() -> None:
    """The message and what it came from; variables are in no traceback of ours."""
    local = SECRET
    for error, is_leak in ((ValueError("quiet"), False), (KeyError(local), True)):
        caught = catch()
        with logs_into(caught):
            try:
                raise error
            except Exception:
                Logger("aotx.test").failure("failed")
        assert bool(caught.found) == is_leak


class Leaking(Closing):
    """
    Of a class that inherits from one of ours, with a repr of its own.
    """

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key

    def __repr__(self) -> str:
        return f"<Leaking {self.key}>"


def test_objects() -> None:
    caught = catch()
    with only_new_objects():
        fine = Principal(id=bytes(16), token_sha256=(SECRET.encode(),), actions=1)
        look_at_objects(caught)
        assert caught.seen["object"] >= 2
        assert not caught.found
        held = [Problem(400, "x", SECRET), Leaking(SECRET)]
        look_at_objects(caught)

    assert ("object: Problem", "it (plain)") in caught.found
    assert ("object: Leaking", "it (plain)") in caught.found
    assert (len(held), fine.actions) == (2, 1)


def test_exceptions() -> None:
    """Those of ours, and what they came from unless that was put aside."""
    caught = catch()
    with raised_into(caught) as names, pytest.raises(strictjson.StrictJSONError):
        strictjson.loads(b"[" + SECRET.encode())
    assert names == {"StrictJSONError"}
    assert not caught.found

    def deep(pairs: str) -> None:
        try:
            raise KeyError(pairs)
        except KeyError:
            strictjson.loads(b"\xef\xbb\xbf{}")

    with raised_into(caught), pytest.raises(strictjson.StrictJSONError):
        deep(SECRET)
    assert caught.found


def test_metrics() -> None:
    registry = CollectorRegistry()
    seen = Counter("aotx_seen", "What.", ["path"], registry=registry)
    seen.labels(path="/v1/models").inc()
    hunter = Hunter({"it": SECRET})
    assert hunter.in_bytes(generate_latest(registry)) == set()

    seen.labels(path=f"/v1/models/{SECRET}").inc()

    assert hunter.in_bytes(generate_latest(registry)) == {"it (plain)"}
