"""
What passes between an image worker and the process that decodes for it.

| from the worker | |
|---|---|
| an order | a line: the numbers of `Order`, in decimals |
| its source | pieces of `PIECE_BYTES`, the last one shorter, a `FOLLOWS` before each |
| or its end | `GONE` in place of a piece: no answer, the next order comes |

The answer to a whole source is a line: the name of the exception that decoding raised,
or nothing for an image that decodes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

#: Bytes of a source that are copied at once.
PIECE_BYTES: Final = 64 << 10
FOLLOWS: Final = b"+"
GONE: Final = b"-"
#: Bytes of an order's line and of an answer's, at most.
LINE_BYTES_MAX: Final = 128


class Order(NamedTuple):
    """
    An image to decode, and what that may take.
    """

    #: Bytes of its source.
    size: int
    #: In pixels, as the header says.
    width: int
    height: int
    #: Of processor time.
    milliseconds: int
    #: Of address space, beyond what the process has at its start.
    memory_bytes: int

    def pack(self) -> bytes:
        """Its line."""
        return b"%d %d %d %d %d\n" % self

    @classmethod
    def unpack(cls, line: bytes) -> Order:
        """The order of which *line* is the line."""
        return cls(*map(int, line.split()))


def exception_name(line: bytes) -> str | None:
    """The name in an answer's *line*, its end included; None if it holds none."""
    text = line[:-1].decode("ascii", "replace")
    is_name = text.isidentifier() and text.isascii()
    return text if line.endswith(b"\n") and (is_name or not text) else None
