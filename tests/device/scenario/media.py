"""
Uploads of all kinds of files, requests that refer to them, and the store's answers
(`device.md` §12, §13).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from tests.device.cases.uploading import (
    WAV_FILE,
    begin,
    begin_frame,
    cancel,
    chunk,
    end,
    format_of,
    listed,
    look,
    question,
    reference,
    send,
    upload,
)
from tests.device.jpeg_surgery import (
    APP0,
    COM,
    DHT,
    DQT,
    DRI,
    EOI,
    SOF0,
    SOS,
    Segment,
    codes,
    edit,
    insert,
    quantiser,
    scan,
    swap,
    with_size,
    without,
)
from tests.device.making import P1, P2, SECOND, part, request_id
from tests.device.scenario.player import HOST, SAMPLED, Scenario
from tests.media_made import JPEGS, make_format, make_jpeg, make_samples, make_wav, riff
from twisted_aotx.orders import StoredSource
from twisted_aotx.wire.media import MediaFrame
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import join

COLOUR = JPEGS["4:2:0"]
PROGRESSIVE = JPEGS["progressive 4:2:0"]
#: Ticks in which one small file is hashed and checked.
SETTLING = 3


def _bad_jpegs() -> Iterator[bytes]:
    """One for each thing that is looked at."""
    yield b"\xff\xd8\xff\xd9"
    yield COLOUR[:-2]
    yield COLOUR + b"\0"
    yield COLOUR[1:]
    for code in (APP0, DQT, DHT, SOF0, SOS):
        yield without(COLOUR, code)
    for code, at, value in (
        (APP0, 0, 0),
        (APP0, 5, 2),
        (APP0, 12, 1),
        (DQT, 0, 0x10),
        (DQT, 9, 0),
        (SOF0, 0, 12),
        (SOF0, 5, 2),
        (SOF0, 7, 0x12),
        (SOF0, 10, 0x22),
        (DHT, 0, 0x20),
        (SOS, 0, 4),
        (SOS, 1, 9),
        (SOS, 2, 0x40),
        (SOS, 7, 1),
    ):
        yield edit(COLOUR, code, at, value)
    for code in (0xC1, 0xE1, 0xDC):
        yield insert(COLOUR, SOS, Segment(code, bytes(4)))
    yield insert(COLOUR, SOS, codes(0, 0, [2]))
    yield insert(COLOUR, SOS, codes(0, 0, [0] * 16))
    yield swap(COLOUR, SOS, scan([1, 2, 3], data=b"\xff\xd0"))
    yield swap(COLOUR, SOS, scan([1, 1]), scan([2]))
    yield insert(COLOUR, SOS, Segment(DRI, bytes(3)))
    yield swap(COLOUR, SOS, scan([1]), quantiser(0, 9), scan([1]), scan([2]))
    yield swap(PROGRESSIVE, SOS, scan([1], (1, 5)))
    yield swap(PROGRESSIVE, SOS, scan([1, 2, 3], (0, 5)))
    yield PROGRESSIVE[: PROGRESSIVE.rindex(b"\xff\xda")] + EOI
    for width, height in ((0, 9), (8193, 1), (4096, 2048), (201, 1)):
        yield with_size(COLOUR, width, height)


def _good_jpegs() -> Iterator[bytes]:
    for name in ("4:2:2", "grayscale", "restarts", "progressive 4:2:0", "1x1"):
        yield JPEGS[name]
    yield insert(COLOUR, SOS, Segment(COM, b"hello"), Segment(0xE5, b""))
    yield with_size(COLOUR, 2048, 2048)
    yield with_size(COLOUR, 40, 2000)
    yield swap(COLOUR, SOS, scan([1]), scan([3]), scan([2]))


def _good_wavs() -> Iterator[bytes]:
    """Of each rate and each length of the format."""
    for rate, channels, size in ((16000, 1, 16), (44100, 2, 18), (48000, 2, 40)):
        yield make_wav(970, "pcm16", rate, channels, format_size=size, fact=True)
    yield make_wav(400, "float32")
    form, samples = (b"fmt ", make_format()), (b"data", make_samples(400))
    yield riff([form, samples, (b"LIST", b"INFO"), (b"junk", b"odd")])


def _bad_wavs() -> Iterator[bytes]:
    """What is wrong one by one."""
    good = make_wav(400)
    yield good + b"\0"
    yield b"RIFX" + good[4:]
    yield make_wav(320)
    yield make_wav(400, silent=True)
    form, samples = (b"fmt ", make_format()), (b"data", make_samples(400))
    endless = make_samples(399, "float32") + b"\0\0\x80\x7f"
    yield riff([(b"fmt ", make_format("float32")), (b"data", endless)])
    frames = (400).to_bytes(4, "little")
    for chunks in (
        [samples, form],
        [form, form, samples],
        [form, samples, samples],
        [form, (b"data", b"")],
        [form, samples, (b"fact", frames), (b"fact", frames)],
        [form, samples, (b"fact", frames[:3])],
        [form, samples, (b"fact", bytes(4))],
        [form, samples, (b"LIST", b"wavl")],
        [form, samples, (b"LIST", b"abc")],
        [form, samples, (b"LIST", b"INFO"), (b"plst", b"")],
        [form],
    ):
        yield riff(chunks)
    for at, value in ((0, 2), (2, 3), (4, 9), (8, 1), (14, 24)):
        body = bytearray(make_format())
        body[at] = value
        yield riff([(b"fmt ", bytes(body)), samples])
    for at, value in ((16, 1), (20, 9), (30, 1)):
        body = bytearray(make_format(size=40))
        body[at] = value
        yield riff([(b"fmt ", bytes(body)), samples])


def _settle(s: Scenario, *, decoded: bool = True) -> None:
    """Hashing, checks, the worker's word and one tick more."""
    for _ in range(SETTLING):
        s.step()
    for job in s.device.media_jobs():
        s.device.source_bytes(job.index, job.generation, job.offset, job.size)
        s.device.finish_media(job.worker, decoded)
        s.step()


def _forget(s: Scenario, number: int, *, saved: bool = True) -> None:
    """CANCEL, which waits for the store if the source is ready."""
    header = s.header(Operation.MEDIA, id=request_id(number))
    s.publish(2, join(header, MediaFrame.cancel(request_id(number)).pack()))
    s.step()
    s.store(saved=saved)
    assert 2 in s.device.collect()
    s.take(2)


def _upload(s: Scenario, number: int, data: bytes) -> None:
    """BEGIN, CHUNK and END in one tick."""
    size, name = len(data), request_id(number)
    frames = (
        begin_frame(number, data),
        MediaFrame.chunk(name, size, 0, data),
        MediaFrame.end(name, size),
    )
    header = s.header(Operation.MEDIA, id=name)
    # After the channels that others use, so they are examined in this order.
    exchanges = [(header, frame.pack()) for frame in frames]
    replies = s.send_together(exchanges, first=5)
    assert [reply.status for reply, _ in replies] == [200] * 3


def _ready(s: Scenario, number: int, data: bytes) -> None:
    upload(s, number, data)
    _settle(s)
    assert len(s.store()) == 1


def restore(s: Scenario) -> None:
    """Sources of the last activation, and what does not become one; before a tick."""
    good = make_wav(400), COLOUR
    for number, data in enumerate((*good, good[0][:-1], COLOUR + b"?"), start=1):
        status = s.device.restore_source(
            StoredSource(
                owner=P1,
                transfer_id=request_id(5000 + number),
                sha256=hashlib.sha256(data).digest(),
                format=format_of(data),
                data=data,
            )
        )
        assert (status == 0) == (number <= len(good))


def _good_files(s: Scenario) -> None:
    """Each file: the kernels, the worker, the store, and its removal."""
    number = 2000
    for data in (*_good_jpegs(), *_good_wavs()):
        number += 1
        _upload(s, number, data)
        _settle(s, decoded=number != 2004)
        s.store(saved=number != 2003)
        _forget(s, number)


def _bad_files(s: Scenario) -> None:
    """What the kernels refuse, a few files at a time; their receipts fall due."""
    files = [*_bad_jpegs(), *_bad_wavs()]
    for at in range(0, len(files), 12):
        for number, data in enumerate(files[at : at + 12], start=2100 + at):
            _upload(s, number, data)
        for _ in range(2):
            # One that only a decoder refuses is among them.
            _settle(s, decoded=False)
        s.step(SECOND * 11)


def _frames(s: Scenario) -> None:
    """What frames of media are refused for, quotas, pools, receipts and deadlines."""
    size = len(COLOUR)
    whole = begin_frame(3000, COLOUR).pack()
    for at, value in (
        (0, 2),
        (4, 9),
        (8, 1),
        (32, 1),
        (40, 1),
        (44, 1),
        (64, 2),
        (68, 1),
    ):
        send(s, whole[:at] + bytes([value]) + whole[at + 1 :], 3000)
    assert begin(s, 3000, size=4 << 20)[0] == 429
    assert begin(s, 2999, size=2 << 20)[0] == 413
    assert begin(s, 3000)[0] == 200
    assert begin(s, 3000)[0] == 409
    assert chunk(s, 3000, COLOUR[:50], size, 1)[0] == 409
    assert chunk(s, 3000, COLOUR[:50], size)[0] == 200
    assert end(s, 3000, size)[0] == 400
    assert cancel(s, 3000)[0] == 200
    assert look(s, 3000, P2)[0] == 403
    assert look(s, 3999)[0] == 404
    for number in (3001, 3002, 3003):
        assert begin(s, number, size=340_000)[0] == 200
    assert begin(s, 3004, size=148_000)[0] == 429
    cancel(s, 3002)
    assert listed(s, cursor=2)[0] == 200
    assert listed(s, cursor=99)[0] == 409
    _ready(s, 3005, WAV_FILE)
    # Every descriptor is used more than once; receipts tell of some that are gone.
    for number in range(3010, 3030):
        if begin(s, number, size=5)[0] == 200 and number % 3:
            end(s, number, 4)
    for number in range(3010, 3030):
        if number % 2 and look(s, number)[0] == 200:
            cancel(s, number)
    s.step(SECOND * 10)
    assert look(s, 3001)[0] == 200
    s.step(SECOND * 11)
    _forget(s, 3005, saved=False)
    _forget(s, 3005)
    for number in range(5001, 5003):
        _forget(s, number)


def _references(s: Scenario) -> None:
    """Requests of both engines that hold sources, until they end."""
    picture, sound = make_jpeg(mode="L"), make_wav(20_000)
    s.take_orders()
    _ready(s, 4001, picture)
    _ready(s, 4002, WAV_FILE)
    upload(s, 4003, sound)
    for _ in range(10):
        s.step()
    s.store()
    assert begin(s, 4001)[0] == 409
    for wrong in (
        part(bytes(31), 1),
        part(bytes(32), 1),
        part(bytes(32), 3),
        reference(picture, 2),
    ):
        assert s.submit(900, payload=question(wrong)) in (400, 404)
    payload = question(part(b"see"), reference(picture), reference(WAV_FILE))
    number, order = s.preparing(payload=payload)
    assert order.sources[1].data == WAV_FILE
    assert cancel(s, 4002)[0] == 409
    s.play(order)
    s.step()
    for role in (HOST, SAMPLED):
        number = s.new(payload=payload, role=role, limit=8)
        s.step()
        s.cancel(number)
        s.step()
    s.take_orders()
    long = question(reference(sound))
    # The share of each is less than its source.
    s.new(payload=long)
    s.new(payload=long, role=SAMPLED, limit=8)
    for _ in range(3):
        s.step()
    numbers = [s.new(payload=long, role=SAMPLED, limit=8)]
    for number in (s._number - 2, *numbers):
        s.cancel(number)
    s.step()
    s.take_orders()
    for source in (4001, 4002, 4003):
        _forget(s, source)


STAGES = (_good_files, _bad_files, _frames, _references)
