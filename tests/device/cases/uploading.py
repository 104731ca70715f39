"""
What the tests of media share: engines that take it, uploads, and what they become.
"""

from __future__ import annotations

import hashlib

from tests.device.capacities import SMALL
from tests.device.cases.starting import Start
from tests.device.driver import Driver
from tests.device.making import (
    P1,
    P2,
    Played,
    grant,
    part,
    payload_of,
    played_engine,
    request_id,
)
from tests.device.model import Oracle
from tests.device.pair import Pair
from tests.media_made import make_jpeg, make_wav
from twisted_aotx.limits import Capacities
from twisted_aotx.orders import SourceRecord
from twisted_aotx.wire.media import (
    BeginData,
    ListRow,
    MediaFrame,
    Metadata,
    unpack_list,
)
from twisted_aotx.wire.numbers import MediaFormat, MediaPhase, Operation

TEXT, IMAGE, AUDIO = 1, 2, 4
JPEG_FILE = make_jpeg()
WAV_FILE = make_wav(400)

#: Status, and what is told of the source, if anything is.
Answer = tuple[int, Metadata | None]

#: Ticks in which everything that a small device holds is hashed and checked.
_SETTLING_TICKS = 100


def seeing_engine(role: int = 2, modalities: int = TEXT | IMAGE | AUDIO) -> Played:
    return played_engine(
        role, capacity=4, sequence_tokens=SMALL.sequence_tokens, modalities=modalities
    )


def with_media(
    start: Start,
    capacities: Capacities = SMALL,
    *,
    modalities: int = TEXT | IMAGE | AUDIO,
    objects: int = SMALL.media_objects,
    media_bytes: int = SMALL.media_bytes,
) -> Driver:
    """P1 and P2 may upload so much and infer; role 2 takes *modalities*."""
    driver = start(capacities, engines=[seeing_engine(modalities=modalities)])
    rows = (
        grant(
            principal,
            actions=0b1011,
            requests=capacities.requests,
            media=objects,
            media_bytes=media_bytes,
        )
        for principal in (P1, P2)
    )
    assert driver.install(*rows) == 200
    return driver


def settle(driver: Driver) -> None:
    """Ticks until every source that is under way waits for somebody else."""
    device = driver.device
    assert isinstance(device, (Oracle, Pair))
    for _ in range(_SETTLING_TICKS):
        driver.step()
        if device.is_settled():
            return
    raise AssertionError("sources that could go on do not")


def _answer(status: int, payload: bytes) -> Answer:
    return status, Metadata.unpack(payload) if payload else None


def send(
    driver: Driver, frame: MediaFrame | bytes, number: int, principal: bytes = P1
) -> Answer:
    header = driver.header(Operation.MEDIA, principal, id=request_id(number))
    payload = frame if isinstance(frame, bytes) else frame.pack()
    reply, data = driver.send(header, payload)
    return _answer(reply.status, data)


def format_of(data: bytes) -> int:
    return MediaFormat.WAV if data[:4] == b"RIFF" else MediaFormat.JPEG


def begin_frame(
    number: int, data: bytes, *, size: int | None = None, sha256: bytes | None = None
) -> MediaFrame:
    digest = hashlib.sha256(data).digest() if sha256 is None else sha256
    return MediaFrame.begin(
        request_id(number),
        len(data) if size is None else size,
        BeginData(format_of(data), digest),
    )


def begin(
    driver: Driver,
    number: int,
    data: bytes = JPEG_FILE,
    principal: bytes = P1,
    *,
    size: int | None = None,
    sha256: bytes | None = None,
) -> Answer:
    frame = begin_frame(number, data, size=size, sha256=sha256)
    return send(driver, frame, number, principal)


def chunk(
    driver: Driver,
    number: int,
    data: bytes,
    size: int,
    offset: int = 0,
    principal: bytes = P1,
) -> Answer:
    frame = MediaFrame.chunk(request_id(number), size, offset, data)
    return send(driver, frame, number, principal)


def end(driver: Driver, number: int, size: int, principal: bytes = P1) -> Answer:
    return send(driver, MediaFrame.end(request_id(number), size), number, principal)


def cancel(driver: Driver, number: int, principal: bytes = P1) -> Answer:
    """A CANCEL that is answered at once."""
    return send(driver, MediaFrame.cancel(request_id(number)), number, principal)


def post_cancel(driver: Driver, channel: int, number: int) -> None:
    """A CANCEL in *channel*, whose reply waits for the store."""
    header = driver.header(Operation.MEDIA, id=request_id(number))
    frame = MediaFrame.cancel(request_id(number))
    driver.post(header, frame.pack(), channel=channel)


def look(driver: Driver, number: int, principal: bytes = P1) -> Answer:
    """MEDIA_READ."""
    header = driver.header(Operation.MEDIA_READ, principal, id=request_id(number))
    reply, data = driver.send(header)
    return _answer(reply.status, data)


def seen(driver: Driver, number: int, principal: bytes = P1) -> tuple[int, int]:
    """Phase and status of a source that there is."""
    status, metadata = look(driver, number, principal)
    assert status == 200
    assert metadata is not None
    return metadata.phase, metadata.status


def listed(
    driver: Driver, principal: bytes = P1, cursor: int = 0
) -> tuple[int, int, tuple[ListRow, ...]]:
    """Status, next cursor and rows of MEDIA_LIST."""
    header = driver.header(Operation.MEDIA_LIST, principal, cursor=cursor)
    reply, data = driver.send(header)
    return reply.status, reply.cursor, unpack_list(data)


def upload(
    driver: Driver,
    number: int,
    data: bytes,
    principal: bytes = P1,
    *,
    sha256: bytes | None = None,
) -> None:
    """BEGIN, every CHUNK and END, all accepted."""
    assert begin(driver, number, data, principal, sha256=sha256)[0] == 200
    for at in range(0, len(data), 8192):
        piece = data[at : at + 8192]
        assert chunk(driver, number, piece, len(data), at, principal)[0] == 200
    assert end(driver, number, len(data), principal)[0] == 200


def decode(driver: Driver, *, decoded: bool = True) -> None:
    """The media worker is done with what it was asked, rightly or not."""
    settle(driver)
    for job in driver.device.media_jobs():
        driver.device.finish_media(job.worker, decoded)
    settle(driver)


def make_ready(
    driver: Driver, number: int, data: bytes = WAV_FILE, principal: bytes = P1
) -> None:
    """A source that can be referred to."""
    upload(driver, number, data, principal)
    decode(driver)
    (record,) = driver.store()
    assert isinstance(record, SourceRecord)
    assert seen(driver, number, principal) == (MediaPhase.READY, 0)


def remove(driver: Driver, number: int, *, saved: bool = True) -> Answer:
    """CANCEL of a ready source, and the store's answer."""
    post_cancel(driver, 9, number)
    driver.store(saved=saved)
    reply, data = driver.answer(9)
    return _answer(reply.status, data)


def question(*parts: bytes) -> bytes:
    """A user's message of *parts*, each with its head."""
    head = (1).to_bytes(4, "little") + len(parts).to_bytes(4, "little")
    return payload_of(head + b"".join(parts))


def reference(data: bytes, kind: int | None = None) -> bytes:
    """A part that refers to the source with these bytes; 1 image, 2 audio."""
    if kind is None:
        kind = 2 if format_of(data) == MediaFormat.WAV else 1
    return part(hashlib.sha256(data).digest(), kind)
