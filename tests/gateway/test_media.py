"""
Media sources over HTTP: uploads (`http.md` §8).
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from tests.asynchronous import asynchronous
from tests.clocks import standing_clock
from tests.gateway.conftest import Serve
from tests.gateway.device_script import EPOCH
from tests.gateway.feeds import eventually
from tests.gateway.media_samples import (
    HANDLE,
    JPEG,
    PATH,
    frames,
    on_frame,
    post,
    principal,
    with_media,
)
from tests.gateway.media_store import Stored
from tests.gateway.serving import TOKEN, parsed, sleep
from twisted_aotx.gateway.settings import Limits
from twisted_aotx.testing.peer import Answer, reply_to
from twisted_aotx.wire.media import Metadata
from twisted_aotx.wire.numbers import (
    Action,
    MediaCommand,
    MediaPhase,
    MediaStatus,
    Operation,
)
from twisted_aotx.wire.packet import RequestHeader


@pytest.mark.parametrize(
    ("content_type", "format", "samples"),
    [
        ("image/jpeg", 1, 0),
        ("Image/JPEG; charset=x", 1, 0),
        ("audio/wav", 3, 16000),
        ("audio/x-wav", 3, 16000),
    ],
)
@asynchronous
async def test_an_upload(
    serve: Serve, content_type: str, format: int, samples: int
) -> None:
    """
    cases K 157: the digest is that of the body.
    """
    gateway = await serve(with_media())

    answer = await post(gateway, JPEG, content_type)

    assert answer.status == 201
    assert answer.json == {
        "id": answer.json["id"],
        "sha256": hashlib.sha256(JPEG).hexdigest(),
        "bytes": str(len(JPEG)),
        "phase": 6,
        "status": 0,
        "format": format,
        "samples": samples,
        "rows": 64,
    }
    ((_, transfer_id),) = gateway.device.media.sources
    assert answer.json["id"] == "media-" + transfer_id.hex()
    assert gateway.device.media.only.data == JPEG
    assert answer.header("x-aotx-media-ids") is None


@pytest.mark.parametrize("size", [1, 8191, 8192, 8193, 65536, 200_000])
@asynchronous
async def test_chunks_are_of_8192_bytes(serve: Serve, size: int) -> None:
    gateway = await serve(with_media())
    data = bytes(i % 251 for i in range(size))

    assert (await post(gateway, data)).status == 201

    media = gateway.device.media
    assert media.only.data == data
    assert all(chunk == 8192 for chunk in media.chunks[:-1])
    assert media.chunks[-1] == (size - 1) % 8192 + 1
    begin, *middle, end = frames(gateway)
    assert (begin, end) == (MediaCommand.BEGIN, MediaCommand.END)
    assert set(middle) == {MediaCommand.CHUNK}


@asynchronous
async def test_what_is_uploaded_is_not_in_memory(serve: Serve) -> None:
    """
    However large a source is, the gateway holds less than a block of it.
    """
    gateway = await serve(with_media())
    begun: Deferred[Answer] = Deferred()
    held: list[int] = []

    def begin(request: RequestHeader) -> Any:
        for connection in gateway.site.connections:
            held.extend(len(txrequest._body) for txrequest in connection.requests)
        return begun

    on_frame(gateway, MediaCommand.BEGIN, begin)
    data = bytes(8 << 20)
    answering = Deferred.fromCoroutine(post(gateway, data))
    await eventually(lambda: held)

    assert held == [0]
    assert gateway.gateway.budgets.body_credit.held == len(data)
    begun.callback(reply_to(gateway.peer.requests[-1][0], 503, epoch=EPOCH))
    assert (await answering).problem == (503, "device_refused", None)


@asynchronous
async def test_a_chunked_body(serve: Serve) -> None:
    gateway = await serve(with_media())
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: image/jpeg\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    raw = await gateway.connect()
    raw.send(head.encode())
    for byte in JPEG:
        raw.send(b"1\r\n%c\r\n" % byte)
        await sleep(0.001)
    raw.send(b"0\r\n\r\n")

    assert parsed(await raw.until(b"}")).status == 201
    assert gateway.device.media.only.data == JPEG


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (1, (400, "media_refused", None)),
        (2, (413, "media_limit", None)),
        (3, (400, "media_refused", None)),
        (4, (400, "media_refused", None)),
        (5, (400, "media_refused", None)),
        (6, (400, "media_refused", None)),
        (7, (400, "media_refused", None)),
        (8, (400, "media_refused", None)),
        (9, (400, "media_refused", None)),
        (10, (400, "media_refused", None)),
        (11, (400, "media_refused", None)),
        (12, (429, "media_pressure", None)),
    ],
)
@asynchronous
async def test_a_source_that_is_refused_is_removed(
    serve: Serve, status: int, problem: tuple[int, str, str | None]
) -> None:
    """
    cases K 157: in every refusal the source is gone afterwards.
    """
    gateway = await serve(with_media())
    gateway.device.media.verdicts[JPEG] = status

    answer = await post(gateway, JPEG)

    assert answer.problem == problem
    assert answer.header("retry-after") == ("1" if status == 12 else None)
    assert frames(gateway)[-1] == MediaCommand.CANCEL
    assert gateway.device.media.only.forgotten
    assert (await gateway.get(PATH)).json["data"] == []


@asynchronous
async def test_what_is_no_source(serve: Serve) -> None:
    """
    cases K 158: the device is not asked.
    """
    gateway = await serve(with_media())

    for data in (b"", b"x" * 1000):
        for content_type in ("image/png", "audio/mpeg", "application/json", None):
            answer = await post(gateway, data, content_type)
            assert answer.problem == (415, "media_type", None)
            assert answer.header("x-should-retry") == "false"
    assert (await post(gateway, b"")).problem == (413, "media_limit", None)
    chunked = (
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: image/jpeg\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    raw = await gateway.connect()
    raw.send(chunked.encode())
    assert parsed(await raw.until(b"}}")).problem == (413, "media_limit", None)
    answer = await gateway.request(
        "POST",
        PATH,
        data=JPEG,
        headers={"Content-Type": "image/jpeg", "Content-Encoding": "gzip"},
    )
    assert answer.problem == (415, "content_encoding", None)
    assert gateway.device.operations == []


@asynchronous
async def test_who_may_not_upload(serve: Serve) -> None:
    """
    cases K 158: 403 `media_forbidden` before the body; the other routes ask the device.
    """
    gateway = await serve(with_media(), **principal(actions=255 - Action.UPLOAD))
    gateway.device.before = lambda request: reply_to(request, 403, epoch=EPOCH)

    answer = await post(gateway, JPEG)
    assert answer.problem == (403, "media_forbidden", None)
    assert gateway.device.operations == []
    for method, path in (
        ("GET", PATH),
        ("GET", f"{PATH}/{HANDLE}"),
        ("DELETE", f"{PATH}/{HANDLE}"),
    ):
        answer = await gateway.request(method, path)
        assert answer.problem == (403, "device_refused", None)


@pytest.mark.parametrize(
    "settings",
    [
        {"limits": Limits(upload_bytes=100)},
        principal(media_bytes=100),
    ],
)
@asynchronous
async def test_the_size_of_a_source(serve: Serve, settings: dict[str, Any]) -> None:
    """
    min(upload_bytes, media_bytes), at the limit and one past it, declared and not.
    """
    gateway = await serve(with_media(), **settings)
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: image/jpeg\r\n"
    ).encode()

    answer = parsed(await gateway.raw(head + b"Content-Length: 101\r\n\r\n"))
    assert answer.problem == (413, "media_limit", None)
    assert answer.header("connection") == "close"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n"
    answer = parsed(await gateway.raw(chunked + b"65\r\n" + b" " * 101))
    assert answer.problem == (413, "media_limit", None)
    assert gateway.device.operations == []
    assert (await post(gateway, b" " * 100)).status == 201


@pytest.mark.parametrize("status", [400, 403, 409, 413, 429, 503])
@asynchronous
async def test_a_begin_that_is_refused_leaves_nothing(
    serve: Serve, status: int
) -> None:
    gateway = await serve(with_media())
    on_frame(
        gateway,
        MediaCommand.BEGIN,
        lambda request: reply_to(request, status, epoch=EPOCH),
    )

    answer = await post(gateway, JPEG)

    assert answer.problem == (status, "device_refused", None)
    assert frames(gateway) == [MediaCommand.BEGIN]


@pytest.mark.parametrize(("status", "cause"), [(413, 2), (429, 12)])
@asynchronous
async def test_a_refused_source_that_begin_leaves_is_removed(
    serve: Serve, status: int, cause: int
) -> None:
    """
    device.md §12, row 11: such a refusal has a receipt, which counts as an object.
    """
    gateway = await serve(with_media())
    metadata = Metadata(bytes(32), 4, MediaPhase.REFUSED, cause, 1)
    on_frame(
        gateway,
        MediaCommand.BEGIN,
        lambda request: reply_to(request, status, metadata.pack(), epoch=EPOCH),
    )

    answer = await post(gateway, JPEG)

    assert answer.problem == (status, "device_refused", None)
    assert frames(gateway) == [MediaCommand.BEGIN, MediaCommand.CANCEL]


@pytest.mark.parametrize("command", [MediaCommand.CHUNK, MediaCommand.END])
@pytest.mark.parametrize("status", [404, 409, 429])
@asynchronous
async def test_whatever_fails_after_begin_is_cancelled(
    serve: Serve, command: MediaCommand, status: int
) -> None:
    gateway = await serve(with_media())
    on_frame(gateway, command, lambda request: reply_to(request, status, epoch=EPOCH))

    answer = await post(gateway, JPEG)

    assert answer.problem == (status, "device_refused", None)
    assert frames(gateway)[-1] == MediaCommand.CANCEL
    assert gateway.device.media.only.forgotten


@asynchronous
async def test_a_refusal_that_comes_with_its_cause(serve: Serve) -> None:
    """
    END of a source that the upload deadline took meanwhile.
    """
    gateway = await serve(with_media())
    late = Metadata(bytes(32), 4, MediaPhase.REFUSED, MediaStatus.TRANSFER, 1)
    on_frame(
        gateway,
        MediaCommand.END,
        lambda request: reply_to(request, 400, late.pack(), epoch=EPOCH),
    )

    assert (await post(gateway, JPEG)).problem == (400, "media_refused", None)
    assert gateway.device.media.only.forgotten


@asynchronous
async def test_another_digest_is_a_fault(serve: Serve) -> None:
    gateway = await serve(with_media())

    def swap(source: Stored) -> None:
        source.sha256 = bytes(32)

    gateway.device.media.on_read = swap

    assert (await post(gateway, JPEG)).problem == (503, "source_digest", None)
    assert gateway.device.media.only.forgotten


@asynchronous
async def test_a_source_that_takes_too_long(serve: Serve) -> None:
    gateway = await serve(with_media(), limits=Limits(operation_seconds=1))

    def stay(source: Stored) -> None:
        source.phase = MediaPhase.ENCODING - 3

    gateway.device.media.on_read = stay

    answer = await post(gateway, JPEG)

    assert answer.problem == (504, "media_timeout", None)
    assert gateway.device.media.only.forgotten
    # Every 5 ms at first, every 50 ms at last.
    assert 20 <= gateway.device.count(Operation.MEDIA_READ) <= 40


@asynchronous
async def test_a_source_is_asked_after_in_longer_pauses(serve: Serve) -> None:
    """
    From 5 ms on, each a quarter longer, up to 50 ms; it is ready when it is seen.
    """
    gateway = await serve(with_media())
    clock = gateway.gateway.reactor = standing_clock()
    gateway.device.media.moves = False
    pending = Deferred.fromCoroutine(post(gateway, JPEG))

    def pause() -> float:
        return (
            min((call.getTime() for call in clock.getDelayedCalls()), default=math.inf)
            - clock.seconds()
        )

    growing = [0.005 * 1.25**n for n in range(11)]
    for expected in (*growing, 0.05, 0.05):
        await eventually(lambda: pause() < 1)
        assert pause() == pytest.approx(expected)
        clock.advance(expected)
    gateway.device.media.only.phase = MediaPhase.READY
    await eventually(lambda: pause() < 1 or pending.called)
    clock.advance(0.05)

    assert (await pending).status == 201


@asynchronous
async def test_a_device_that_goes_away(serve: Serve) -> None:
    gateway = await serve(with_media())
    on_frame(gateway, MediaCommand.CHUNK, lambda _: b"")

    assert (await post(gateway, JPEG)).problem == (503, "device_connection", None)
    await eventually(lambda: gateway.device.media.only.forgotten)


@pytest.mark.parametrize("payload", [b"", bytes(63), bytes(65)])
@asynchronous
async def test_a_reply_of_another_form(serve: Serve, payload: bytes) -> None:
    gateway = await serve(with_media())
    on_frame(
        gateway,
        MediaCommand.BEGIN,
        lambda request: reply_to(request, 200, payload, epoch=EPOCH),
    )

    answer = await post(gateway, JPEG)

    assert answer.problem == (503, "invalid_device_response", None)
    assert frames(gateway)[-1] == MediaCommand.CANCEL


@asynchronous
async def test_no_room_for_files(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = await serve(with_media())
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")

    assert (await post(gateway, JPEG)).problem == (429, "transport_limit", None)
    assert gateway.device.operations == []


@asynchronous
async def test_an_upload_takes_a_work_slot(serve: Serve) -> None:
    gateway = await serve(with_media(), limits=Limits(work=1))
    hold = gateway.gateway.budgets.work.take()

    assert (await post(gateway, JPEG)).problem == (429, "transport_limit", None)
    hold.release()
    assert (await post(gateway, JPEG)).status == 201
