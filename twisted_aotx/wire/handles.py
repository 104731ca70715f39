"""
The text forms of identities (`wire.md` §9).
"""

from __future__ import annotations

import re
from typing import Final, Self

import attrs

from twisted_aotx.errors import LocalWireError, RemoteWireError

_REQUEST: Final = re.compile(r"req-([0-9a-f]{16})-([0-9a-f]{32})")
_MEDIA: Final = re.compile(r"media-([0-9a-f]{32})")


@attrs.frozen
class RequestHandle:
    """
    Names one request of a principal; `str()` is its text.
    """

    #: 1 .. 2^64 − 1.
    epoch: int
    #: 16 bytes, not all zero.
    id: bytes

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.epoch < 2**64:
            raise LocalWireError("RequestHandle", "epoch", 4, "not within 1..2^64 − 1")
        if len(self.id) != 16 or not any(self.id):
            raise LocalWireError("RequestHandle", "id", 21, "not 16 bytes, or zero")

    def __str__(self) -> str:
        return f"req-{self.epoch:016x}-{self.id.hex()}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """
        Read the text of a handle.

        Raises:
            RemoteWireError: field `handle` when *text* has another form; field `epoch`
                or `id` when that number is zero.
        """
        match = _REQUEST.fullmatch(text)
        if match is None:
            raise RemoteWireError("RequestHandle", "handle", 0, "not a request handle")
        try:
            return cls(int(match[1], 16), bytes.fromhex(match[2]))
        except LocalWireError as error:
            raise RemoteWireError(
                error.record, error.field, error.offset, error.reason
            ) from None


def media_handle(transfer_id: bytes) -> str:
    """
    The text that names the caller's source *transfer_id* (16 bytes).
    """
    return f"media-{transfer_id.hex()}"


def parse_media_handle(text: str) -> bytes:
    """
    The transfer id (16 bytes) of a media handle.

    Raises:
        RemoteWireError: field `handle`: *text* has another form.
    """
    match = _MEDIA.fullmatch(text)
    if match is None:
        raise RemoteWireError("MediaHandle", "handle", 0, "not a media handle")
    return bytes.fromhex(match[1])


def completion_id(request_id: bytes) -> str:
    """
    The id of the completion that the request *request_id* (16 bytes) makes.
    """
    return f"chatcmpl-{request_id.hex()}"
