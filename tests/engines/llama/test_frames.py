"""
Messages between runtime and child, whole and cut into pieces.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twisted_aotx.engines.llama.frames import FRAME_BYTES_MAX, FrameReader
from twisted_aotx.engines.llama.messages import (
    Broken,
    Done,
    Emit,
    FrameError,
    Load,
    Message,
    Open,
    Opened,
    Ping,
    Pong,
    Ready,
    Refused,
    Stop,
)
from twisted_aotx.limits import PAYLOAD_BYTES_MAX, SPANS_MAX

ALL: list[Message] = [
    Load(8, 2048, 2, -1, 64, 3, b"</>/models/a.gguf"),
    Open(
        7, 2**64 - 1, 9, 0.5, 0.25, 2**63 + 1, 2, Open.join(((3, 0), (5, 1)), b"abcde")
    ),
    Stop(7, 2**40),
    Ping(2**32 - 1),
    Ready(2048, 310),
    Broken("keine Bytes für die Ausgabe".encode()),
    Opened(7, 1, 25),
    Refused(7, 1, 400),
    Emit(7, 1, 1, b"\xf0\x9f"),
    Emit(7, 1, 1, b""),
    Done(7, 1, 2),
    Pong(3, 2**64 - 1),
]


@given(st.lists(st.sampled_from(ALL)), st.lists(st.integers(1, 40), min_size=1))
def test_messages_arrive_whole_however_they_are_cut(
    messages: list[Message], sizes: list[int]
) -> None:
    data = b"".join(message.pack() for message in messages)
    reader, found, turn = FrameReader(), [], 0
    while data:
        size = sizes[turn % len(sizes)]
        found += reader.feed(data[:size])
        data, turn = data[size:], turn + 1

    assert found == messages


def test_every_message_is_tested_and_has_a_kind_of_its_own() -> None:
    kinds = {type(message) for message in ALL}

    assert kinds == set(Message.__subclasses__())
    assert len({kind.KIND for kind in kinds}) == len(kinds)


def test_an_order_keeps_its_spans() -> None:
    order = Open(1, 1, 1, 0, 1, 0, 3, Open.join(((2, 0), (2, 1), (5, 0)), b"abcde"))

    assert list(order.spans) == [(0, b"ab"), (1, b""), (0, b"cde")]


def test_load_keeps_both_texts() -> None:
    load = Load(8, 2048, 2, -1, 64, 4, b"</s>/models/a.gguf")

    assert (load.stop, load.path) == (b"</s>", b"/models/a.gguf")


def test_prompts_are_not_shown() -> None:
    secret = Open(1, 1, 1, 0, 1, 0, 0, b"my secret")

    assert "secret" not in repr(secret) + repr(Emit(1, 1, 1, b"my secret"))


def test_the_largest_order_fits_and_one_byte_more_than_a_frame_does_not() -> None:
    """Every span that a prompt can have, around all the bytes that it can have."""
    spans = tuple((PAYLOAD_BYTES_MAX, 1) for _ in range(SPANS_MAX))
    prompt = Open.join(spans, bytes(PAYLOAD_BYTES_MAX))
    order = Open(1, 1, 1, 0, 1, 0, len(spans), prompt)
    assert FrameReader().feed(order.pack()) == [order]

    head = struct.pack("<IB", FRAME_BYTES_MAX, Broken.KIND)
    assert FrameReader().feed(head) == []
    with pytest.raises(FrameError):
        FrameReader().feed(struct.pack("<IB", FRAME_BYTES_MAX + 1, Broken.KIND))


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<IB", 0, Ping.KIND),
        struct.pack("<IB", 5, 255),
        struct.pack("<IBH", 3, Ping.KIND, 0),
        struct.pack("<IBIB", 6, Ping.KIND, 0, 0),
        struct.pack("<IBH", 3, Emit.KIND, 0),
        b"Traceback (most recent call last)",
    ],
    ids=["empty", "unknown", "short", "long", "short-tail", "text"],
)
def test_what_is_no_frame_is_a_fault(data: bytes) -> None:
    with pytest.raises(FrameError):
        FrameReader().feed(data)


def test_an_order_with_fewer_bytes_than_spans_is_a_fault() -> None:
    with pytest.raises(FrameError):
        list(Open(1, 1, 1, 0, 1, 0, 5, b"abc").spans)
