"""
Media in messages: bytes, URLs and handles on both POST routes (`http.md` §5).
"""

from __future__ import annotations

import tempfile
from typing import IO

import attrs
import pytest
from twisted.internet.task import deferLater

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import EPOCH, WITH_MEDIA
from tests.gateway.feeds import CHAT, REQUESTS, body, eventually, feed, packet, text_of
from tests.gateway.inline_samples import (
    BOTH,
    ID,
    JPEG,
    OTHER,
    TEXT,
    WAV,
    audio,
    handle,
    handles_of,
    image,
    image_url,
    invalid,
    owned,
    sha,
    with_media,
)
from tests.gateway.serving import P1, P2, TOKEN, digest
from twisted_aotx.gateway import inline
from twisted_aotx.gateway.media_spool import Spool
from twisted_aotx.gateway.settings import Limits, Principal
from twisted_aotx.testing.peer import Answer, reply_to
from twisted_aotx.wire.numbers import (
    Action,
    MediaFormat,
    MediaPhase,
    Operation,
    PartKind,
)
from twisted_aotx.wire.packet import RequestHeader
from twisted_aotx.wire.requests import DigestPart, TextPart


@BOTH
@asynchronous
async def test_bytes_in_a_message(serve: Serve, path: str) -> None:
    """
    Uploaded in message order, before SUBMIT, which names them by their digests.
    """
    gateway = await serve(with_media())
    content = [image(detail="auto"), TEXT, audio()]

    answer = await gateway.post(path, body(content))

    assert answer.status == (200 if path == CHAT else 202)
    (message,) = gateway.device.only.submission.messages
    assert message.parts == (
        DigestPart(PartKind.IMAGE, sha(JPEG)),
        TextPart(b"what is it?"),
        DigestPart(PartKind.AUDIO, sha(WAV)),
    )
    first, second = gateway.device.media.sources.values()
    assert (bytes(first.data), first.format) == (JPEG, MediaFormat.JPEG)
    assert (bytes(second.data), second.format) == (WAV, MediaFormat.WAV)
    handles = handles_of(gateway)
    assert answer.header("x-aotx-media-ids") == ",".join(handles)
    if path == REQUESTS:
        assert answer.json["media"] == handles
    operations = gateway.device.operations
    assert operations.index(Operation.SUBMIT) > max(
        at for at, each in enumerate(operations) if each == Operation.MEDIA_READ
    )


@asynchronous
async def test_a_stream_names_its_media(serve: Serve) -> None:
    gateway = await serve(with_media())

    read = await feed(gateway, CHAT, json=body([image()], stream=True))
    await read.ended

    named = read.response.headers.getRawHeaders("x-aotx-media-ids")
    assert named == handles_of(gateway)
    assert text_of(read.records) == "a cat"


@asynchronous
async def test_a_request_without_media_names_none(serve: Serve) -> None:
    gateway = await serve(with_media())

    answer = await gateway.post(REQUESTS, body())

    assert answer.header("x-aotx-media-ids") is None
    assert answer.json["media"] == []


@pytest.mark.parametrize(
    "coded",
    [
        *("AA AA", "AAAA\n", "AAA", "AB==", "AAB=", "AA=", "A===", "===="),
        *("AA==AAAA", "A-_A", "éAAA"),
    ],
)
@BOTH
@asynchronous
async def test_base64_has_one_spelling(
    serve: Serve,
    path: str,
    coded: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    cases I 146: whitespace, missing padding, bits that are not canonical; wherever the
    text is cut. What stands before it is not uploaded.
    """
    gateway = await serve(with_media())
    for slice_characters in (4, 64 << 10):
        monkeypatch.setattr(inline, "SLICE_CHARACTERS", slice_characters)
        for text in (coded, "AAAA" + coded):
            picture = image_url("data:image/jpeg;base64," + text)
            sound = {
                "type": "input_audio",
                "input_audio": {"data": text, "format": "wav"},
            }
            for content, wrong in ((picture, "image_url"), (sound, "input_audio")):
                answer = await gateway.post(path, body([image(), content]))
                assert invalid(answer, wrong)
                assert answer.header("x-aotx-media-ids") is None
                assert answer.header("x-request-id") is None
    assert set(gateway.device.operations) <= {Operation.INFO}


@pytest.mark.parametrize("size", range(1, 14))
@asynchronous
async def test_bytes_that_are_cut_into_slices(
    serve: Serve, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline, "SLICE_CHARACTERS", 8)
    gateway = await serve(with_media())

    assert (await gateway.post(CHAT, body([image(bytes(size))]))).status == 200
    assert bytes(gateway.device.media.only.data) == bytes(size)


@asynchronous
async def test_large_base64_leaves_turns_to_others(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    No more than 64 KiB of it are decoded in one turn of the reactor.
    """
    gateway = await serve(with_media())
    clock = gateway.gateway.reactor
    turns: list[int] = []
    write = Spool.write

    def watched(spool: Spool, data: bytes) -> None:
        turns.append(len(data))
        deferLater(clock, 0, lambda: turns.append(0))
        write(spool, data)

    monkeypatch.setattr(Spool, "write", watched)
    answer = await gateway.post(CHAT, body([image(bytes(1 << 20))]))

    assert answer.status == 200
    assert max(turns) == 48 << 10
    # Between two pieces others had their turn.
    assert turns[:6] == [48 << 10, 0] * 3


@asynchronous
async def test_a_message_takes_one_file_at_a_time(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: list[IO[bytes]] = []
    make = tempfile.TemporaryFile

    def counted(buffering: int) -> IO[bytes]:
        assert all(file.closed for file in files)
        files.append(make(buffering=buffering))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", counted)
    gateway = await serve(with_media())

    answer = await gateway.post(REQUESTS, body([image(bytes([n])) for n in range(30)]))

    assert answer.status == 202
    assert len(files) == len(answer.json["media"]) == 30
    assert all(file.closed for file in files)


@pytest.mark.parametrize("data", [b"", bytes(101)])
@BOTH
@asynchronous
async def test_the_size_of_inline_bytes(serve: Serve, path: str, data: bytes) -> None:
    """
    cases I 146: 413 `media_limit` param messages.content; 100 bytes are taken.
    """
    gateway = await serve(with_media(), limits=Limits(upload_bytes=100))

    answer = await gateway.post(path, body([image(), audio(data)]))
    assert answer.problem == (413, "media_limit", "messages.content")
    assert set(gateway.device.operations) <= {Operation.INFO}
    answer = await gateway.post(path, body([audio(bytes(100))]))
    assert answer.status in (200, 202)


@asynchronous
async def test_decoded_bytes_count_on_the_credit(serve: Serve) -> None:
    gateway = await serve(with_media())
    budgets = gateway.gateway.budgets
    budgets.body_credit.limit = 1000
    media = gateway.device.media
    media.moves = False
    raw = await gateway.connect()
    sent = packet(CHAT, body([image(bytes(300))]))
    raw.send(sent)
    await eventually(lambda: media.sources)

    size = len(sent.partition(b"\r\n\r\n")[2])
    assert budgets.body_credit.held == size + 300
    second = await gateway.post(CHAT, body([image(bytes(300))]))
    assert second.problem == (429, "transport_limit", None)
    media.moves = True
    await raw.until(b"}}")
    assert budgets.body_credit.held == 0


@asynchronous
async def test_who_may_not_upload(serve: Serve) -> None:
    actions = Action.INFER | Action.TELEMETRY
    principal = Principal(
        id=P1, token_sha256=(digest(TOKEN),), models=("m",), actions=actions
    )
    gateway = await serve(with_media(), principals=(principal,))

    answer = await gateway.post(CHAT, body([image()]))
    assert answer.problem == (403, "media_forbidden", None)
    answer = await gateway.post(CHAT, body([image_url("https://source.example/")]))
    assert answer.problem == (403, "url_forbidden", None)
    assert set(gateway.device.operations) <= {Operation.INFO}


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (5, (400, "media_refused", None)),
        (2, (413, "media_limit", "messages.content")),
        (12, (429, "media_pressure", None)),
    ],
)
@BOTH
@asynchronous
async def test_bytes_that_the_device_refuses(
    serve: Serve, path: str, status: int, problem: tuple[int, str, str | None]
) -> None:
    """
    cases K 160: what was uploaded before stays its owner's, and neither header names
    anything.
    """
    gateway = await serve(with_media())
    gateway.device.media.verdicts[WAV] = status

    answer = await gateway.post(path, body([image(), audio()]))

    assert answer.problem == problem
    assert answer.header("x-aotx-media-ids") is None
    assert answer.header("x-request-id") is None
    assert gateway.device.count(Operation.SUBMIT) == 0
    (left,) = (await gateway.get("/aotx/v1/media")).json["data"]
    assert left["id"] == handles_of(gateway)[0]


@pytest.mark.parametrize("status", [400, 404, 409, 413, 429, 503])
@BOTH
@asynchronous
async def test_a_submit_that_is_refused_names_its_media(
    serve: Serve, path: str, status: int
) -> None:
    """
    http.md §1: X-Request-ID and X-AOTX-Media-Ids on errors of the SUBMIT exchange.
    """
    gateway = await serve(with_media())

    def refuse(request: RequestHeader) -> Answer:
        if request.operation == Operation.SUBMIT:
            return reply_to(request, status, epoch=EPOCH)
        untouched: Answer = NotImplemented
        return untouched

    gateway.device.before = refuse

    answer = await gateway.post(path, body([image()]))

    assert answer.problem == (status, "device_refused", None)
    assert answer.header("x-aotx-media-ids") == handles_of(gateway)[0]
    assert (answer.header("x-request-id") or "").startswith("req-")


# --- sources that the caller names ----------------------------------------------------


@asynchronous
async def test_media_parts(serve: Serve) -> None:
    """
    cases J 154: a source that is used twice is named once.
    """
    gateway = await serve(with_media())
    media = gateway.device.media
    picture = media.put(P1, ID)
    sound = media.put(P1, OTHER, format=MediaFormat.WAV)

    content = [owned(ID), owned(OTHER, "audio"), TEXT, owned(ID)]
    answer = await gateway.post(REQUESTS, body(content))

    assert answer.status == 202
    assert answer.json["media"] == [handle(ID), handle(OTHER)]
    assert answer.header("x-aotx-media-ids") == f"{handle(ID)},{handle(OTHER)}"
    parts = gateway.device.only.submission.messages[0].parts
    digests = [part.digest for part in parts if isinstance(part, DigestPart)]
    assert digests == [picture.sha256, sound.sha256, picture.sha256]
    assert gateway.device.count(Operation.MEDIA) == 0


@pytest.mark.parametrize("phase", range(1, 8))
@asynchronous
async def test_a_source_that_is_not_ready(serve: Serve, phase: int) -> None:
    """
    cases J 154: 409 `media_state`; it may pass, unless the source was refused.
    """
    gateway = await serve(with_media())
    media = gateway.device.media
    media.put(P1, ID, phase=phase)
    media.moves = False

    answer = await gateway.post(REQUESTS, body([owned(ID)]))

    if phase == MediaPhase.READY:
        assert answer.status == 202
        return
    assert answer.problem == (409, "media_state", None)
    lost = phase == MediaPhase.REFUSED
    assert answer.header("x-should-retry") == ("false" if lost else None)
    assert answer.header("x-aotx-media-ids") is None
    assert gateway.device.count(Operation.SUBMIT) == 0


@asynchronous
async def test_a_source_of_the_other_family(serve: Serve) -> None:
    """
    cases J 154.
    """
    gateway = await serve(with_media())
    gateway.device.media.put(P1, ID)
    gateway.device.media.put(P1, OTHER, format=MediaFormat.WAV)

    for part in (owned(ID, "audio"), owned(OTHER, "image")):
        answer = await gateway.post(REQUESTS, body([part]))
        assert answer.problem == (409, "media_state", None)
        assert answer.header("x-should-retry") == "false"


@asynchronous
async def test_a_foreign_source(serve: Serve) -> None:
    """
    cases J 154: 404, as for one that never was.
    """
    gateway = await serve(with_media())
    gateway.device.media.put(P2, ID)

    foreign = await gateway.post(REQUESTS, body([owned(ID)]))
    unknown = await gateway.post(REQUESTS, body([owned(OTHER)]))

    assert foreign.problem == (404, "device_refused", None)
    assert foreign.content == unknown.content
    assert gateway.device.count(Operation.SUBMIT) == 0


@pytest.mark.parametrize(("count", "named"), [(105, True), (106, False)])
@asynchronous
async def test_more_handles_than_the_header_holds(
    serve: Serve, count: int, named: bool
) -> None:
    """
    http.md §1: at most 4096 characters, else no header; the body names all.
    """
    device = with_media()
    device.information = attrs.evolve(WITH_MEDIA, prompt_bytes=60_000)
    gateway = await serve(device)
    ids = [number.to_bytes(16, "big") for number in range(1, count + 1)]
    for id in ids:
        device.media.put(P1, id)
    messages = [
        {"role": "user", "content": [owned(id) for id in ids[at : at + 32]]}
        for at in range(0, count, 32)
    ]

    answer = await gateway.post(REQUESTS, {"model": "m", "messages": messages})

    assert answer.status == 202
    assert answer.json["media"] == [handle(id) for id in ids]
    joined = ",".join(map(handle, ids))
    assert (len(joined) <= 4096) == named
    assert answer.header("x-aotx-media-ids") == (joined if named else None)


@asynchronous
async def test_a_client_that_leaves_while_its_media_are_prepared(
    serve: Serve,
) -> None:
    """
    cases K 160: what was begun becomes ready and is listed, the rest is not begun, and
    nothing is submitted.
    """
    gateway = await serve(with_media())
    media = gateway.device.media
    media.moves = False
    raw = await gateway.connect()
    raw.send(packet(CHAT, body([image(), audio()])))
    await eventually(lambda: gateway.device.count(Operation.MEDIA_READ))

    assert raw.transport is not None
    raw.transport.abortConnection()  # type: ignore[attr-defined]
    await eventually(lambda: not gateway.site.connections)
    media.moves = True
    await eventually(lambda: set(gateway.gateway.budgets.held().values()) == {0})

    (left,) = (await gateway.get("/aotx/v1/media")).json["data"]
    assert (left["phase"], left["format"]) == (6, 1)
    assert gateway.device.count(Operation.SUBMIT) == 0
