"""
SHA-256 of the kernels against hashlib's.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.device.content_harness import Placed, make_device
from twisted_aotx.device.sha256 import (
    BLOCK_BYTES,
    sha_blocks,
    sha_close,
    sha_equals,
    sha_finish,
    sha_more,
    sha_reset,
    sha_start,
)

DESCRIPTOR = 3


def digest_of(device: object) -> bytes:
    words = device.h_state[DESCRIPTOR]  # type: ignore[attr-defined]
    return b"".join(int(word).to_bytes(4, "big") for word in words)


def hashed(source: bytes, arrived: list[int], budget: int) -> bytes:
    """In steps of *budget*, as many bytes there as *arrived* says in turn."""
    device = make_device()
    placed = Placed.make(source)
    at = 0
    sha_start(device, DESCRIPTOR)
    for available in [*arrived, len(source)]:
        while True:
            consumed = int(
                sha_more(
                    device, placed.pool, DESCRIPTOR, placed.offset, available, budget
                )
            )
            assert consumed == min(available - at, budget) // BLOCK_BYTES * BLOCK_BYTES
            at += consumed
            assert device.h_at[DESCRIPTOR] == at
            if not consumed:
                break
    sha_finish(device, placed.pool, DESCRIPTOR, placed.offset, len(source))
    return digest_of(device)


@pytest.mark.parametrize("size", [0, 1, 3, 55, 56, 57, 63, 64, 65, 119, 120, 128, 200])
def test_sizes_around_the_padding(size: int) -> None:
    source = bytes(range(7, 7 + size))

    assert hashed(source, [], 1 << 20) == hashlib.sha256(source).digest()


@given(st.binary(max_size=400), st.data())
def test_whatever_arrives_when(source: bytes, data: st.DataObject) -> None:
    arrived = sorted(data.draw(st.lists(st.integers(0, len(source)), max_size=4)))
    budget = data.draw(st.integers(64, 256))

    assert hashed(source, arrived, budget) == hashlib.sha256(source).digest()


def test_less_than_a_block_waits() -> None:
    """Neither 63 bytes that are there nor a budget of 63 are a block."""
    device = make_device()
    placed = Placed.make(bytes(200))
    sha_start(device, 0)

    assert sha_more(device, placed.pool, 0, placed.offset, 63, 1000) == 0
    assert sha_more(device, placed.pool, 0, placed.offset, 200, 63) == 0
    assert sha_more(device, placed.pool, 0, placed.offset, 200, 127) == 64


def test_sources_do_not_touch_each_other() -> None:
    device = make_device()
    sources = [bytes([k]) * 130 for k in range(3)]
    placed = [Placed.make(source) for source in sources]
    for k in range(3):
        sha_start(device, k)
    for _ in range(2):
        for k, each in enumerate(placed):
            sha_more(device, each.pool, k, each.offset, each.size, 64)
    for k, each in enumerate(placed):
        sha_finish(device, each.pool, k, each.offset, each.size)

    for k, source in enumerate(sources):
        expected = np.frombuffer(hashlib.sha256(source).digest(), np.uint8)
        assert [sha_equals(device.h_state[j], expected) for j in range(3)] == [
            int(j == k) for j in range(3)
        ]


def test_one_wrong_bit_is_seen() -> None:
    device = make_device()
    placed = Placed.make(b"abc")
    state = device.h_state[0]
    sha_reset(state)
    sha_close(state, placed.pool, placed.offset, 3, 3)
    right = np.frombuffer(hashlib.sha256(b"abc").digest(), np.uint8)

    assert sha_equals(state, right) == 1
    for bit in range(256):
        wrong = right.copy()
        wrong[bit // 8] ^= 1 << bit % 8
        assert sha_equals(state, wrong) == 0


def test_length_of_more_than_32_bits() -> None:
    """The length is of 64 bits: as if 2^29 blocks had gone before the last bytes."""
    device = make_device()
    placed = Placed.make(b"z" * 5)
    size = (1 << 35) + 5
    state = device.h_state[0]
    sha_reset(state)
    sha_close(state, placed.pool, placed.offset, 5, size)
    padded = b"z" * 5 + b"\x80" + bytes(50) + (8 * size).to_bytes(8, "big")
    expected = make_device().h_state[0]
    block = Placed.make(padded)
    sha_reset(expected)
    sha_blocks(expected, block.pool, block.offset, 1)

    assert state.tolist() == expected.tolist()
