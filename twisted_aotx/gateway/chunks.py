"""
A chunked body, read as strictly as a header is.

Twisted takes any bytes for a trailer, and a line feed alone ends none of its lines. A
reader that takes one for an end sees the body end there, and another request in what
follows (RFC 9112 §2.2, §11.2).
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

import re
from typing import Final

from twisted.web import http

#: Digits of a chunk's size, leading zeros included: more than any body has.
SIZE_DIGITS_MAX: Final = 16
#: A field of a trailer (RFC 9110 §5).
_FIELD: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00\r\n]*")

#: What frames or routes a request stands before its body (RFC 9110 §6.5.1).
_FRAMING: Final = re.compile(
    rb"(content-length|transfer-encoding|host):", re.IGNORECASE
)


class Chunks(http._ChunkedTransferDecoder):
    """
    The decoder of a body that comes in chunks; trailers are judged and thrown away.
    """

    @classmethod
    def instead_of(cls, other: http._ChunkedTransferDecoder) -> Chunks:
        """
        One that reports to the same as *other*, which has seen no byte.
        """
        return cls(other.dataCallback, other.finishCallback)

    def _dataReceived_CHUNK_LENGTH(self) -> bool:
        size = re.match(rb"[0-9A-Fa-f]*", self._buffer)
        if size is not None and len(size[0]) > SIZE_DIGITS_MAX:
            raise http._MalformedChunkedDataError("a size of too many digits")
        return super()._dataReceived_CHUNK_LENGTH()

    def _dataReceived_TRAILER(self) -> bool:
        known = len(self._trailerHeaders)
        goes_on = super()._dataReceived_TRAILER()
        for line in self._trailerHeaders[known:]:
            if _FIELD.fullmatch(line) is None or _FRAMING.match(line) is not None:
                raise http._MalformedChunkedDataError("a trailer that is none")
        return goes_on
