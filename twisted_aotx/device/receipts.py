"""
Upload receipts (`device.md` §12): what an upload is answered for, also once it failed.

| receipt | entered | left |
|---|---|---|
| free | | BEGIN → pending |
| pending | BEGIN | ready, CANCEL → free; refused → cached |
| cached | refusal | CANCEL, deadline → free |

Rules:
1. A pending receipt belongs to a descriptor. A cached one does too until a BEGIN takes
   the descriptor: then it keeps the metadata itself and bears the name.
2. Cached receipts are a list in the order of their deadlines, which is that of the
   refusals. Pending deadlines are those of the receiving sources (`sources`).
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, u64
from twisted_aotx.device.bits import write32, write64
from twisted_aotx.device.numbers import MEDIA_REFUSED
from twisted_aotx.device.owners import drop_name
from twisted_aotx.device.source_index import DIGEST_BYTES, add_name, remove_name
from twisted_aotx.limits import Capacities

RECEIPT_FREE = 0
RECEIPT_PENDING = 1
RECEIPT_CACHED = 2


def receipt_fields(capacities: Capacities) -> list[Any]:
    """One column per field of a receipt, and the lists."""
    receipts = (max(1, capacities.media_objects),)
    columns = (
        "u_state u_source u_owner u_deadline u_size u_status u_format u_prev u_next"
    )
    return [
        *((name, "<i8", receipts) for name in columns.split()),
        ("u_digest", "u1", (*receipts, DIGEST_BYTES)),
        ("u_free", "<i8"),
        # how many are not free
        ("u_taken", "<i8"),
        ("u_head", "<i8"),
        ("u_tail", "<i8"),
    ]


@dev
def reset_receipts(D: Any) -> None:
    """All receipts are free. Start only."""
    D.u_free = -1
    D.u_head = -1
    D.u_tail = -1
    for n in range(D.media_objects):
        receipt = D.media_objects - 1 - n
        D.u_next[receipt] = D.u_free
        D.u_free = receipt


@dev
def take_receipt(D: Any, index: Any) -> None:
    """Free → pending, for the source of *index*; only while one is free."""
    receipt = i64(D.u_free)
    D.u_free = D.u_next[receipt]
    D.u_taken += 1
    D.u_state[receipt] = RECEIPT_PENDING
    D.u_source[receipt] = index
    D.u_owner[receipt] = D.n_owner[index]
    D.u_deadline[receipt] = D.now + D.upload_ns
    D.m_receipt[index] = receipt


@dev
def cache_receipt(D: Any, receipt: Any) -> None:
    """Pending → cached."""
    D.u_state[receipt] = RECEIPT_CACHED
    D.u_deadline[receipt] = D.now + D.upload_ns
    D.a_cached[D.u_owner[receipt]] += 1
    D.u_prev[receipt] = D.u_tail
    D.u_next[receipt] = -1
    if D.u_tail < 0:
        D.u_head = receipt
    else:
        D.u_next[D.u_tail] = receipt
    D.u_tail = receipt


@dev
def _leave_cache(D: Any, receipt: Any) -> None:
    D.a_cached[D.u_owner[receipt]] -= 1
    before = i64(D.u_prev[receipt])
    after = i64(D.u_next[receipt])
    if before < 0:
        D.u_head = after
    else:
        D.u_next[before] = after
    if after < 0:
        D.u_tail = before
    else:
        D.u_prev[after] = before


@dev
def free_receipt(D: Any, receipt: Any) -> None:
    """Pending or cached → free."""
    if D.u_state[receipt] == RECEIPT_CACHED:
        _leave_cache(D, receipt)
    if D.u_source[receipt] < 0:
        remove_name(D, D.media_objects + receipt)
    else:
        D.m_receipt[D.u_source[receipt]] = -1
    D.u_state[receipt] = RECEIPT_FREE
    D.u_next[receipt] = D.u_free
    D.u_free = receipt
    D.u_taken -= 1


@dev
def detach_receipt(D: Any, index: Any) -> None:
    """
    The refused source of *index* loses its descriptor: its name and, if it has a
    receipt, its metadata go there.
    """
    receipt = i64(D.m_receipt[index])
    owner = i64(D.n_owner[index])
    # Keep the owner's row while the name moves.
    D.a_names[owner] += 1
    remove_name(D, index)
    if receipt >= 0:
        D.m_receipt[index] = -1
        D.u_source[receipt] = -1
        D.u_size[receipt] = D.m_size[index]
        D.u_status[receipt] = D.m_status[index]
        D.u_format[receipt] = D.m_format[index]
        for k in range(DIGEST_BYTES):
            D.u_digest[receipt][k] = D.m_digest[index][k]
        node = D.media_objects + receipt
        add_name(D, node, owner, D.n_id[index, 0], D.n_id[index, 1])
    drop_name(D, owner)


@dev
def expire_receipts(D: Any) -> None:
    """Cached → free for all whose deadline has come; nothing is recorded."""
    while D.u_head >= 0 and D.u_deadline[D.u_head] <= D.now:
        free_receipt(D, i64(D.u_head))


@dev
def write_refusal(D: Any, frame: Any, at: Any, receipt: Any) -> None:
    """The 64 bytes of `wire.md` §10 of a refusal that the receipt alone remembers."""
    for k in range(DIGEST_BYTES):
        frame[at + k] = D.u_digest[receipt][k]
    write64(frame, at + 32, u64(D.u_size[receipt]))
    write32(frame, at + 40, MEDIA_REFUSED)
    write32(frame, at + 44, D.u_status[receipt])
    write32(frame, at + 48, D.u_format[receipt])
    write64(frame, at + 52, u64(0))
    write32(frame, at + 60, 0)
