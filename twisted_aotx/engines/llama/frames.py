"""
A stream of bytes, cut into messages. No input or output here.
"""

from __future__ import annotations

import struct
from typing import Final

from twisted_aotx.engines.llama.messages import (
    HEAD,
    KINDS,
    SPAN,
    FrameError,
    Message,
)
from twisted_aotx.limits import EVENT_BYTES_PER_SLOT, PROMPT_BYTES_MAX, SPANS_MAX

#: Bytes of a frame behind its length: the largest prompt, in the most spans, and room
#: for fixed fields. An emission is smaller.
FRAME_BYTES_MAX: Final = PROMPT_BYTES_MAX + SPANS_MAX * SPAN.size + 4096
assert FRAME_BYTES_MAX > EVENT_BYTES_PER_SLOT + 4096
#: Bytes of the length itself.
_LENGTH_BYTES: Final = 4


class FrameReader:
    """
    Cuts a stream into messages.
    """

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> list[Message]:
        """
        The messages that *data* completes.

        Raises:
            FrameError: a length, kind or size that no frame has.
        """
        data = self._data + data
        messages, at = [], 0
        while len(data) - at >= HEAD.size:
            size, kind = HEAD.unpack_from(data, at)
            if not 1 <= size <= FRAME_BYTES_MAX or kind not in KINDS:
                raise FrameError(f"no frame: {size} bytes of kind {kind}")
            end = at + _LENGTH_BYTES + size
            if end > len(data):
                break
            messages.append(_unpacked(kind, data[at + HEAD.size : end]))
            at = end
        self._data = data[at:]
        return messages


def _unpacked(kind: int, body: bytes) -> Message:
    try:
        return KINDS[kind].unpack(body)
    except struct.error as error:
        raise FrameError(f"a frame of kind {kind}: {error}") from None
