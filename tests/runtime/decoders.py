"""
Decoders and their processes, for the tests of those who use them.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

import attrs

from tests.runtime.doubles import PATIENCE_SECONDS
from twisted_aotx.orders import MediaJob
from twisted_aotx.runtime.decoder import Decoder
from twisted_aotx.runtime.decoding import PIECE_BYTES


def job_of(data: bytes, width: int, height: int) -> MediaJob:
    """To decode *data*, the first source of the pool."""
    return MediaJob(
        worker=0,
        index=3,
        generation=7,
        offset=0,
        size=len(data),
        width=width,
        height=height,
    )


def cut(data: bytes) -> Iterator[bytes]:
    """*data* in the pieces that a decoder takes."""
    for at in range(0, len(data), PIECE_BYTES):
        yield data[at : at + PIECE_BYTES]


@attrs.define
class Decoders:
    """
    Makes decoders and remembers them.
    """

    made: list[Decoder] = attrs.field(factory=list)

    def __call__(self) -> Decoder:
        self.made.append(Decoder())
        return self.made[-1]


@attrs.frozen
class Watched:
    """
    A process that is not ours to wait for, whatever becomes of its number.
    """

    _descriptor: int

    @classmethod
    def of(cls, pid: int | None) -> Watched:
        assert pid is not None
        return cls(os.pidfd_open(pid))

    def ends(self) -> bool:
        """Whether it ends; waits for that. Call once."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        has_ended = bool(poll.poll(PATIENCE_SECONDS * 1000))
        os.close(self._descriptor)
        return has_ended
