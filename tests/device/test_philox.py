"""
Philox4x32-10 against the known answers of Random123 (kat_vectors, philox4x32 10).
"""

from __future__ import annotations

import pytest

from tests.device.reference_oracle import philox
from twisted_aotx.device.backend import u64
from twisted_aotx.device.philox import philox4x32, philox_u64

KNOWN_ANSWERS = [
    # counter, key, output
    (
        (0, 0, 0, 0),
        (0, 0),
        (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ),
    (
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN_ANSWERS)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], output: tuple[int, ...]
) -> None:
    """Counter, key and output are Random123's."""
    words = philox4x32(*map(u64, counter), *map(u64, key))

    assert tuple(int(word) for word in words) == output


@pytest.mark.parametrize("key", [0, 1, 2**32, 0x299F31D0A4093822, 2**64 - 1])
@pytest.mark.parametrize("counter", [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1])
def test_64_bits_are_the_first_two_words_low_first(key: int, counter: int) -> None:
    """Halves of key and counter go in low first and come out low first."""
    low, high, _, _ = philox(key, counter)

    assert int(philox_u64(u64(key), u64(counter))) == low | high << 32


def test_zero_key_and_counter() -> None:
    """The first known answer as 64 bits."""
    assert int(philox_u64(u64(0), u64(0))) == 0xE169C58D6627E8D5
