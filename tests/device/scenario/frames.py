"""
Every check of every frame (`device.md` §2 to §8).
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from tests.device.making import (
    EMIT,
    EPOCH,
    HELLO,
    P1,
    P2,
    P3,
    P4,
    SECOND,
    grant,
    message,
    payload_of,
)
from tests.device.scenario.player import FIXED, ROWS, SAMPLED, Scenario
from twisted_aotx.wire.grants import GrantTable
from twisted_aotx.wire.numbers import Operation, Phase
from twisted_aotx.wire.packet import join


def install_grants(s: Scenario) -> None:
    """A table in force, and one wrong thing about each other one."""
    assert s.install(*ROWS) == 200
    good = GrantTable(2, (attrs.evolve(grant(P3), revision=2),)).pack()

    def changed(at: int, value: int, size: int = 4) -> bytes:
        return good[:at] + value.to_bytes(size, "little") + good[at + size :]

    row = 128
    for packet in (
        good[:-1],
        good[:88] + (0).to_bytes(4, "little") + good[92:128],
        changed(76, 17),
        changed(32, 0, 8),
        changed(32, 1, 8),
        changed(row, 0, 16),
        changed(row + 16, 3, 8),
        changed(row + 24, 0),
        changed(row + 24, 256),
        changed(row + 28, 2),
        changed(row + 32, 513),
        changed(row + 36, 0),
        changed(row + 36, 8192),
        changed(row + 40, 0),
        changed(row + 40, 17),
        changed(row + 63, 1, 1),
        changed(8, 2),
        changed(0, 7),
    ):
        s.raw(packet, channel=0)
    doubled = bytearray(good + good[row:])
    s.raw(bytes(doubled), channel=0)
    doubled[76:80] = (2).to_bytes(4, "little")
    doubled[88:92] = (128).to_bytes(4, "little")
    s.raw(bytes(doubled), channel=0)
    s.publish(0, bytes(64), length=64)
    s.step()
    assert s.device.collect() == [0]
    s.take(0)


def _frames(s: Scenario) -> None:
    """Admission, row by row (`device.md` §3)."""
    info = s.header(Operation.INFO).pack()
    for at, value in ((0, 1), (7, 1), (88, 1), (92, 1), (12, 1), (96, 1), (127, 1)):
        s.raw(info[:at] + bytes([value]) + info[at + 1 :])
    submit = s.submit_header(900).pack()
    s.raw(submit[:92] + (48).to_bytes(4, "little") + submit[96:])
    s.raw(s.header(Operation.INFO, revision=99).pack())
    s.raw(s.header(Operation.INFO, P4).pack())
    for length in (0, 127, 65537, 1 << 40):
        s.publish(3, info, length=length)
        s.step()
        s.device.collect()
        s.take(3)
    for operation in (*range(15), 999):
        plain = s.header(operation).pack()
        s.raw(plain)
        s.raw(s.header(operation, P2).pack())
        s.raw(s.header(operation, P3).pack())
        for at in (40, 48, 64, 72):
            s.raw(plain[:at] + b"\x01" + plain[at + 1 :])
        s.raw(plain[:88] + (4).to_bytes(4, "little") + plain[92:] + b"data")


def _policy(s: Scenario) -> None:
    base = s.header(Operation.POLICY)
    for payload in ((1, 1), (1, 5), (1, 6), (1, 0), (2, 1)):
        body = b"".join(word.to_bytes(4, "little") for word in payload) + bytes(8)
        s.send(base, body)
    s.send(base, bytes(8))


def _held(s: Scenario) -> None:
    """Hold and restoring: nothing moves that must not (`device.md` §1, §8)."""
    number, order = s.running()
    s.device.set_hold(True)
    for operation in (2, 3, 4, 5, 6, 8, 10, 11, 12):
        for principal in (P1, P2):
            s.send(s.header(operation, principal))
    s.report(order, EMIT, 1, b"later")
    s.step(40 * SECOND)
    assert s.entry(number)["r_phase"] == Phase.RUNNING
    s.device.set_hold(False)
    s.step()
    assert s.entry(number)["r_status"] == 504
    s.device.set_restoring(True)
    s.publish(2, s.header(Operation.INFO).pack())
    s.step()
    assert s.device.collect() == []
    s.device.set_restoring(False)
    s.step()
    assert s.device.collect() == [2]
    s.take(2)
    s.take_orders()


def _submissions(s: Scenario) -> None:
    """Every check of SUBMIT (`device.md` §4)."""
    header = s.submit_header(700)
    for changes in (
        {"epoch": EPOCH + 1},
        {"id": bytes(16)},
        {"cursor": 1},
        {"role": 1},
        {"role": 5},
        {"limit": 0},
        {"limit": 65},
        {"temperature": 2.5},
        {"top_p": 0.0},
        {"top_p": 1.5},
    ):
        s.send(attrs.evolve(header, **changes), payload_of(message(1, b"x")))
    assert s.submit(701, P2, role=FIXED) == 404
    version_and_space = bytes([1, 0, 0, 0, 1, 0, 0, 0])
    selector = version_and_space + (100).to_bytes(4, "little")
    for tail in (
        selector + bytes(4) + b"d" * 32,
        selector[:8] + (-100).to_bytes(4, "little", signed=True) + bytes(36),
        selector[:8] + (40001).to_bytes(4, "little") + bytes(36),
        b"\x02" + bytes(47),
        selector + b"\x01" + bytes(35),
    ):
        payload = payload_of(message(1, b"x")) + tail
        assert s.submit(702, payload=payload, selector_bytes=48) in (400, 503)
    payload = payload_of(message(1, b"x")) + bytes(48)
    assert s.submit(702, payload=payload, selector_bytes=48) == 202
    s.opens()
    assert s.submit(702) == 409
    assert s.cancel(702)[0].status == 200
    s.step()
    s.take_orders()


def _texts(s: Scenario) -> Iterator[bytes]:
    word = (1).to_bytes(4, "little")
    yield b""
    yield bytes(4)
    yield (65).to_bytes(4, "little")
    yield word + bytes(4)
    yield word + (3).to_bytes(4, "little") + word
    yield word + word + bytes(4)
    yield word + word + (33).to_bytes(4, "little")
    yield word + word + word + bytes(7)
    yield word + word + word + word + bytes(4)
    yield word + word + word + bytes(4) + (9).to_bytes(4, "little") + b"x"
    yield payload_of(message(1, b"x")) + b"left"
    for text in (
        b"\x80", b"\xc1\x80", b"\xf5\x80\x80\x80", b"\xc3", b"\xc3(", b"\xe0\x9f\xbf",
        b"\xed\xa0\x80", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xe2\x82",
    ):  # fmt: skip
        yield payload_of(message(1, text))
    yield payload_of(message(1, b"[image:"))
    yield payload_of(message(0, b"[audi", b"", b"o:"))
    yield payload_of(message(1, b"y" * 4095))
    yield payload_of(message(1, b"y" * 4091))


def _rendering(s: Scenario) -> None:
    """Rendering: what is refused, then what is not (`device.md` §5)."""
    for payload in _texts(s):
        assert s.submit(800, payload=payload) in (400, 413)
    assert s.submit(801, role=SAMPLED, payload=payload_of(message(1, b"[image"))) == 400
    every = "é–€𐀀\U00050000\U0010ffff\ud7ff\ue000 : _ > [Image: <|im_end|>".encode()
    _, order = s.preparing(
        payload=payload_of(
            message(0, b"rule"),
            message(1, every, b"", b"[im", b"age?"),
            message(2, b"answer " * 9),
            message(1, b"z" * 400),
        )
    )
    assert order.rendered.startswith(b"PSrules")
    s.play(order, [b"ok"])
    s.step()
    _, order = s.preparing(payload=payload_of(message(2, b"")))
    assert order.rendered == b"PAaG()"
    s.play(order)
    s.step()


def _full(s: Scenario) -> None:
    """Quotas, a full table, reclaiming, the tick's budget of frames."""
    first = s._number + 1
    for _ in range(6):
        s.new()
    s.cancel(first + 3)
    s.cancel(first + 2)
    s.cancel(first + 5)
    s.new(role=SAMPLED)
    s.new()
    for channel in range(1, 16):
        s._number += 1
        s.publish(channel, join(s.submit_header(s._number), HELLO))
    for _ in range(2):
        s.step()
        for channel in s.device.collect():
            s.take(channel)
    assert s.submit(3, P2) == 202
    assert s.submit(4, P2) == 429
    for number in range(first, s._number + 1):
        s.cancel(number)
    s.cancel(3, P2)
    s.step()
    s.take_orders()
    assert s.submit(1, P2) == 202
    assert s.cancel(1, P2)[0].status == 200
    assert s.cancel(2, P2)[0].status == 404
    s.step()
    s.take_orders()


STAGES = (_frames, _policy, _held, _submissions, _rendering, _full)
