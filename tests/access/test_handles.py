"""
A handle of another principal is a handle of nobody: the same bytes, the same exchanges
with the device, the same time on the clock [D22].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.access.expected import MISSING, STALE
from tests.access.front import Told, account, token_of
from tests.access.owned import (
    OWNER,
    REQUESTS,
    SOURCES,
    STRANGER,
    request_handle,
    source_handle,
)
from tests.access.served import Served
from tests.device.making import EPOCH

#: Who has what no other has: an alias.
THIRD: Final = 3
#: Never a fresh one's.
NOBODY: Final = bytes([0xAB] * 16)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(
        tmp_path, account(OWNER), account(STRANGER), account(THIRD, models=("other",))
    )
    made.plays = None
    yield made
    made.close()


#: What the stranger asks below a request's path: method, rest of the path, more.
ASKED: Final[list[tuple[str, str, dict[str, Any]]]] = [
    *(
        (method, f"{rest}?cursor={cursor}" if cursor else rest, {})
        for method in ("GET", "HEAD")
        for rest in ("", "/events")
        for cursor in ("", "0", "3", "18", "19", "0099", str(2**64 - 1), "x", "-1")
    ),
    ("POST", "/cancel", {"body": {}}),
    ("POST", "/cancel", {"body": {"why": 1}}),
    ("POST", "/cancel", {"body": []}),
    ("POST", "/cancel", {}),
    ("GET", "?other=1", {}),
    ("DELETE", "", {}),
]


def both(served: Served, ask: Callable[[str], Told], theirs: str, nobodys: str) -> Told:
    """What *ask* is told of each, which is the same."""
    ask(nobodys)  # connections and what is remembered are there from here on
    foreign, unknown = ask(theirs).without(theirs), ask(nobodys).without(nobodys)
    assert foreign == unknown, (foreign.packet, unknown.packet)
    return foreign


@pytest.mark.parametrize("state", REQUESTS)
def test_requests(served: Served, state: str) -> None:
    """Whatever state it is in and wherever the cursor stands."""
    request_id = REQUESTS[state](served)
    theirs, nobodys = request_handle(request_id), request_handle(NOBODY)
    token = token_of(STRANGER)
    before = served.ask("GET", f"/aotx/v1/requests/{theirs}", token_of(OWNER))
    for method, rest, more in ASKED:

        def ask(
            handle: str, method: str = method, rest: str = rest, more: Any = more
        ) -> Told:
            path = f"/aotx/v1/requests/{handle}{rest}"
            return served.ask(method, path, token, **more)

        told = both(served, ask, theirs, nobodys)
        if told.exchanges:
            assert told.exchanges == 1
            assert told.status == 404
            assert method == "HEAD" or told.problem == MISSING

    def resume(handle: str) -> Told:
        path = f"/aotx/v1/requests/{handle}/events"
        return served.ask(
            "GET", path, token, headers=[("Last-Event-ID", f"{handle}:3")]
        )

    assert both(served, resume, theirs, nobodys).problem == MISSING
    after = served.ask("GET", f"/aotx/v1/requests/{theirs}", token_of(OWNER))
    assert after == before
    assert before.status == (404 if state == "displaced" else 200)


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
def test_requests_of_other_epochs(served: Served, epoch: int) -> None:
    """410 before anything is looked for; an id that lives in this epoch too."""
    request_id = REQUESTS["completed"](served)
    theirs, nobodys = request_handle(request_id, epoch), request_handle(NOBODY, epoch)
    for number in (OWNER, STRANGER):
        token = token_of(number)
        for method, rest, more in ASKED:

            def ask(
                handle: str,
                method: str = method,
                rest: str = rest,
                more: Any = more,
                token: str = token,
            ) -> Told:
                path = f"/aotx/v1/requests/{handle}{rest}"
                return served.ask(method, path, token, **more)

            told = both(served, ask, theirs, nobodys)
            if told.exchanges:
                assert told.status == 410
                assert method == "HEAD" or told.problem == STALE


@pytest.mark.parametrize("state", SOURCES)
def test_sources(served: Served, state: str) -> None:
    """Shown, removed, and put into a message."""
    transfer_id = SOURCES[state](served)
    theirs, nobodys = source_handle(transfer_id), source_handle(NOBODY)
    token = token_of(STRANGER)
    shown = served.ask("GET", f"/aotx/v1/media/{theirs}", token_of(OWNER))
    listed = served.ask("GET", "/aotx/v1/media", token_of(OWNER))
    for method in ("GET", "HEAD", "DELETE"):

        def ask(handle: str, method: str = method) -> Told:
            return served.ask(method, f"/aotx/v1/media/{handle}", token)

        told = both(served, ask, theirs, nobodys)
        assert (told.status, told.exchanges) == (404, 1)
        assert method == "HEAD" or told.problem == MISSING
    for modality in ("image", "audio"):

        def submit(handle: str, modality: str = modality) -> Told:
            part = {"type": "media", "media_id": handle, "modality": modality}
            body = {"model": "m", "messages": [{"role": "user", "content": [part]}]}
            return served.ask("POST", "/aotx/v1/requests", token, body=body)

        told = both(served, submit, theirs, nobodys)
        assert told.problem == MISSING
        assert told.response.header("x-request-id") is None
    assert served.ask("GET", "/aotx/v1/media", token).response.json["data"] == []
    assert served.ask("GET", f"/aotx/v1/media/{theirs}", token_of(OWNER)) == shown
    assert served.ask("GET", "/aotx/v1/media", token_of(OWNER)) == listed


def test_models(served: Served) -> None:
    """An alias that another may use is one that is not there."""
    token = token_of(STRANGER)

    def show(alias: str) -> Told:
        return served.ask("GET", f"/v1/models/{alias}", token)

    def use(path: str, alias: str) -> Told:
        body = {"model": alias, "messages": [{"role": "user", "content": "hi"}]}
        return served.ask("POST", path, token, body=body)

    posts = (partial(use, "/v1/chat/completions"), partial(use, "/aotx/v1/requests"))
    for ask in (show, *posts):
        told = both(served, ask, "other", "nothing")
        assert told.problem == (404, "model_not_found", "model")
    for path in ("/v1/models", "/aotx/v1/capabilities"):
        assert b'"other"' not in served.ask("GET", path, token).packet
        assert b'"other"' in served.ask("GET", path, token_of(THIRD)).packet


def test_what_one_does_is_not_seen_by_another(served: Served) -> None:
    """
    Models, capabilities, list of sources: the same before and after. Only what is told
    to who may read telemetry or policy moves.
    """
    paths = (
        "/v1/models",
        "/v1/models/m",
        "/aotx/v1/capabilities",
        "/aotx/v1/media",
        "/openapi.json",
    )

    def shown() -> list[bytes]:
        return [served.ask("GET", at, token_of(STRANGER)).packet for at in paths]

    before = shown()
    for bring in (*SOURCES.values(), REQUESTS["displaced"], REQUESTS["queued"]):
        bring(served)
        served.decodes = served.saves = True

    assert shown() == before
