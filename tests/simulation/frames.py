"""
What the history keeps of a packet. Reads any 128 bytes, well formed or not.
"""

from __future__ import annotations

import re
import struct
from typing import Any, Final

from twisted_aotx.limits import HEADER_BYTES
from twisted_aotx.wire.numbers import Operation

#: How a text names the request that it is of.
NONCE: Final = re.compile(rb"#([0-9a-f]{8})#")
_REQUEST: Final = struct.Struct("<8sII16sQQ16sQIIII")
_REPLY: Final = struct.Struct("<8sII16sQQ16sQIIIIIIII")


def nonce_in(text: bytes) -> str:
    """The name of the request that *text* is of; empty if it names none."""
    found = NONCE.search(text)
    return "" if found is None else found[1].decode()


def frame_fields(packet: bytes) -> dict[str, Any]:
    """Of a request."""
    _, operation, _, principal, revision, at_epoch, id, cursor, role, limit, *_ = (
        _REQUEST.unpack_from(packet.ljust(HEADER_BYTES, b"\0"))
    )
    payload = packet[HEADER_BYTES:]
    fields = {
        "operation": operation,
        "principal": principal,
        "revision": revision,
        "at_epoch": at_epoch,
        "id": id,
        "cursor": cursor,
        "role": role,
        "limit": limit,
        "nonce": "",
        "head": b"",
    }
    if operation == Operation.SUBMIT:
        fields["nonce"] = nonce_in(payload)
    elif operation in (Operation.MEDIA, Operation.POLICY):
        fields["head"] = payload[:112]
    return fields


def reply_fields(packet: bytes) -> dict[str, Any]:
    """Of a reply."""
    _, status, phase, principal, _, at_epoch, id, cursor, *words = _REPLY.unpack_from(
        packet.ljust(HEADER_BYTES, b"\0")
    )
    role, total, prompt, sampled, _, finish, failure, cancel = words
    return {
        "status": status,
        "phase": phase,
        "principal": principal,
        "id": id,
        "at_epoch": at_epoch,
        "cursor": cursor,
        "role": role,
        "total": total,
        "prompt": prompt,
        "sampled": sampled,
        "finish": finish,
        "failure": failure,
        "cancel": cancel,
        "data": packet[HEADER_BYTES:],
    }
