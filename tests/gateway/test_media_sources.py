"""
Media sources over HTTP: clients that leave, the list, one source, removal
(`http.md` §8).
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import EPOCH
from tests.gateway.feeds import eventually
from tests.gateway.media_samples import (
    HANDLE,
    ID,
    JPEG,
    PATH,
    frames,
    on_frame,
    with_media,
)
from tests.gateway.media_store import Stored
from tests.gateway.serving import P1, P2, TOKEN
from twisted_aotx.gateway.settings import Limits
from twisted_aotx.testing.peer import Answer, reply_to
from twisted_aotx.wire.numbers import MediaCommand, MediaPhase

# --- clients that leave ---------------------------------------------------------------


def head_of(size: int) -> bytes:
    return (
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: image/jpeg\r\nContent-Length: {size}\r\n\r\n"
    ).encode()


@asynchronous
async def test_a_client_that_leaves_in_its_body_leaves_no_source(serve: Serve) -> None:
    gateway = await serve(with_media())
    budgets = gateway.gateway.budgets
    raw = await gateway.connect()
    raw.send(head_of(100_000) + bytes(50_000))
    await eventually(lambda: budgets.readers.held)

    assert raw.transport is not None
    raw.transport.abortConnection()  # type: ignore[attr-defined]
    await eventually(lambda: set(budgets.held().values()) == {0})

    assert gateway.device.operations == []


@asynchronous
async def test_a_source_that_was_whole_is_its_owner_s(serve: Serve) -> None:
    """
    cases K 160: the list shows what a client that left has uploaded. Until it is ready,
    its slot and its credit are taken.
    """
    gateway = await serve(with_media(), limits=Limits(work=1))
    budgets = gateway.gateway.budgets
    chunk: Deferred[Answer] = Deferred()
    on_frame(gateway, MediaCommand.CHUNK, lambda _: chunk)
    raw = await gateway.connect()
    raw.send(head_of(len(JPEG)) + JPEG)
    await eventually(lambda: MediaCommand.CHUNK in frames(gateway))

    assert raw.transport is not None
    raw.transport.abortConnection()  # type: ignore[attr-defined]
    await eventually(lambda: not gateway.site.connections)
    assert (budgets.work.held, budgets.body_credit.held) == (1, len(JPEG))
    gateway.device.before = lambda _: NotImplemented
    request, payload = gateway.peer.requests[-1]
    chunk.callback(gateway.device.media.answer(request, payload))
    await eventually(lambda: set(budgets.held().values()) == {0})

    ((_, transfer_id),) = gateway.device.media.sources
    (shown,) = (await gateway.get(PATH)).json["data"]
    assert shown["id"] == "media-" + transfer_id.hex()
    assert shown["phase"] == 6


# --- list, show, remove ---------------------------------------------------------------


def shown(source: Stored, handle: str) -> dict[str, Any]:
    return {
        "id": handle,
        "sha256": source.sha256.hex(),
        "bytes": str(source.size),
        "phase": source.phase,
        "status": source.status,
        "format": source.format,
        "samples": source.metadata.samples,
        "rows": source.metadata.rows,
    }


@asynchronous
async def test_the_list(serve: Serve) -> None:
    """
    http.md §8: sources of the caller in table order, and cursors as strings.
    """
    gateway = await serve(with_media())
    media = gateway.device.media
    media.page_rows = 2
    ids = [bytes(15) + bytes([number]) for number in range(1, 6)]
    sources = [media.put(P1, transfer_id) for transfer_id in ids]
    media.put(P2, ids[0])
    sources[1].phase = MediaPhase.REFUSED
    sources[2].size = 2**53 + 1

    first = await gateway.get(PATH)
    second = await gateway.get(f"{PATH}?cursor={first.json['next_cursor']}")
    end = await gateway.get(f"{PATH}?cursor=6")

    assert first.json == {
        "schema": "aotx.media-list.v1",
        "runtime_epoch": str(EPOCH),
        "data": [shown(sources[i], "media-" + ids[i].hex()) for i in (0, 2)],
        "next_cursor": "3",
        "consistency": "current",
    }
    assert first.json["data"][1]["bytes"] == "9007199254740993"
    assert [row["id"] for row in second.json["data"]] == [
        "media-" + ids[i].hex() for i in (3, 4)
    ]
    assert second.json["next_cursor"] is None
    assert (end.json["data"], end.json["next_cursor"]) == ([], None)
    over = await gateway.get(f"{PATH}?cursor=7")
    assert over.problem == (409, "device_refused", None)
    assert over.header("x-should-retry") == "false"
    wrong = await gateway.get(f"{PATH}?cursor=x")
    assert wrong.problem == (400, "invalid_field", "cursor")


@asynchronous
async def test_one_source(serve: Serve) -> None:
    gateway = await serve(with_media())
    media = gateway.device.media
    source = media.put(P1, ID)

    media.moves = False
    for phase in range(1, 8):
        source.phase = phase
        answer = await gateway.get(f"{PATH}/{HANDLE}")
        assert answer.status == 200
        assert answer.json == shown(source, HANDLE)


@asynchronous
async def test_an_unknown_and_a_foreign_source_are_alike(serve: Serve) -> None:
    """
    D22, http.md §2: the same bytes apart from the id.
    """
    gateway = await serve(with_media())
    gateway.device.media.put(P2, ID)

    for method in ("GET", "DELETE"):
        foreign = await gateway.request(method, f"{PATH}/{HANDLE}")
        unknown = await gateway.request(method, f"{PATH}/media-{'ef' * 16}")
        assert foreign.problem == (404, "device_refused", None)
        assert foreign.content == unknown.content
        zero = await gateway.request(method, f"{PATH}/media-{'0' * 32}")
        assert zero.problem == (400, "invalid_field", "request_id")
        for other in ("media-" + "AB" * 16, "media-" + "a" * 31, "req-" + "a" * 32):
            answer = await gateway.request(method, f"{PATH}/{other}")
            assert answer.problem == (404, "route_not_found", None)


@asynchronous
async def test_removal(serve: Serve) -> None:
    gateway = await serve(with_media())
    source = gateway.device.media.put(P1, ID, leased=True)

    leased = await gateway.request("DELETE", f"{PATH}/{HANDLE}")
    assert leased.problem == (409, "device_refused", None)
    assert leased.header("x-should-retry") is None
    source.leased = False
    removed = await gateway.request("DELETE", f"{PATH}/{HANDLE}")
    assert (removed.status, removed.content) == (204, b"")
    assert removed.header("content-type") is None
    again = await gateway.request("DELETE", f"{PATH}/{HANDLE}")
    assert again.problem == (404, "device_refused", None)
    on_frame(
        gateway,
        MediaCommand.CANCEL,
        lambda request: reply_to(request, 429, source.metadata.pack(), epoch=EPOCH),
    )
    unsaved = await gateway.request("DELETE", f"{PATH}/{HANDLE}")
    assert unsaved.problem == (429, "device_refused", None)
    assert unsaved.header("retry-after") == "1"


@asynchronous
async def test_a_removal_reads_no_body(serve: Serve) -> None:
    gateway = await serve(with_media())

    answer = await gateway.request("DELETE", f"{PATH}/{HANDLE}", data=b"x")

    assert answer.problem == (400, "invalid_field", "body")
    assert gateway.device.operations == []
