"""
One well-formed frame in many wrong shapes.
"""

from __future__ import annotations

import struct

import attrs
from hypothesis import strategies as st


@attrs.frozen
class Damage:
    """What is done to the bytes of a packet before it is published."""

    #: (offset, xor) pairs; offsets beyond the packet are left out.
    flips: tuple[tuple[int, int], ...] = ()
    #: Bytes cut from the end, and appended there.
    cut: int = 0
    extra: bytes = b""
    #: What the length field says afterwards: the truth plus this, or as it was.
    relength: int | None = None
    #: The mailbox length, when it is a lie.
    length: int | None = None

    def apply(self, packet: bytes) -> bytes:
        data = bytearray(packet[: len(packet) - self.cut] + self.extra)
        if self.relength is not None and len(data) >= 92:
            told = (len(data) - 128 + self.relength) % 2**32
            struct.pack_into("<I", data, 88, told)
        for offset, xor in self.flips:
            if offset < len(data):
                data[offset] ^= xor
        return bytes(data)


SOUND = Damage()

damages: st.SearchStrategy[Damage] = st.one_of(
    st.builds(
        Damage,
        flips=st.lists(
            st.tuples(st.integers(0, 127), st.integers(1, 255)),
            min_size=1,
            max_size=2,
        ).map(tuple),
    ),
    st.builds(Damage, relength=st.sampled_from((-1, 1, 2**31))),
    st.builds(
        Damage,
        cut=st.integers(0, 3),
        extra=st.binary(max_size=3),
        relength=st.just(0),
    ),
    st.builds(
        Damage,
        length=st.sampled_from((0, 5, 127, 65537, 2**32, 2**62)),
    ),
)

#: Mostly sound.
maybe_damaged = st.one_of(*[st.just(SOUND)] * 6, damages)
