"""
CANCEL of a media source, and what became of a removal (`device.md` §12, D12).

| source | effect | status |
|---|---|---|
| phases 1..4 | refused at once, the receipt goes | 200 |
| being saved, or ready, not leased | the store is asked, the reply waits | 200, 429 |
| ready with a lease | none | 409 |
| refused | its receipt goes | 200 |
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64
from twisted_aotx.device.bits import read32
from twisted_aotx.device.frames import (
    answer,
    wait_for_store,
)
from twisted_aotx.device.media_frames import (
    AT_DATA_BYTES,
    answer_node,
)
from twisted_aotx.device.numbers import (
    BAD,
    CONFLICT,
    MEDIA_ENCODING,
    MEDIA_READY,
    MEDIA_REFUSED,
    NOT_FOUND,
    OK,
    RECORD_REMOVAL,
    REFUSED_CANCELLED,
    TOO_MANY,
)
from twisted_aotx.device.owners import find_owner
from twisted_aotx.device.receipts import free_receipt
from twisted_aotx.device.source_index import find_name
from twisted_aotx.device.sources import (
    begin_removal,
    fail_removal,
    refuse,
)
from twisted_aotx.device.store_mail import next_record, publish_record


@dev
def _cancel_refused(D: Any, channel: Any, node: Any) -> None:
    """CANCEL of a refusal: its metadata, and its receipt goes."""
    answer_node(D, channel, OK, node)
    if node >= D.media_objects:
        free_receipt(D, node - D.media_objects)
    elif D.m_receipt[node] >= 0:
        free_receipt(D, i64(D.m_receipt[node]))


@dev
def _cancel_live(H: Any, D: Any, index: Any) -> None:
    """Refused with status 4, without a receipt."""
    if D.m_receipt[index] >= 0:
        free_receipt(D, i64(D.m_receipt[index]))
    refuse(H, D, index, i64(REFUSED_CANCELLED))


@dev
def _ask_removal(H: Any, D: Any, channel: Any, index: Any) -> None:
    """The store is to remove the source; the reply waits."""
    at = next_record(H, D, i64(RECORD_REMOVAL), channel)
    row = H.record_ring[at]
    owner = D.n_owner[index]
    for k in range(2):
        row[1 + k] = D.a_id[owner, k]
        row[3 + k] = D.n_id[index, k]
    D.record_index[at] = index
    D.record_generation[at] = D.m_generation[index]
    begin_removal(D, index)
    publish_record(H, D)
    wait_for_store(D)


@dev
def cancel(H: Any, D: Any, channel: Any, node: Any) -> None:
    """Remove a source, whatever its phase, unless requests hold it."""
    if read32(D.frame[channel], AT_DATA_BYTES) != 0:
        answer_node(D, channel, BAD, node)
    elif node >= D.media_objects or D.m_phase[node] == MEDIA_REFUSED:
        _cancel_refused(D, channel, node)
    elif D.m_leases[node] > 0:
        answer_node(D, channel, CONFLICT, node)
    elif D.m_phase[node] in (MEDIA_ENCODING, MEDIA_READY):
        _ask_removal(H, D, channel, node)
    else:
        _cancel_live(H, D, node)
        answer_node(D, channel, OK, node)


@dev
def source_removed(H: Any, D: Any, at: Any, saved: Any) -> None:
    """
    The record *at* of a removal: the CANCEL that waits for it is answered.

    The source may be refused by now, by another removal or by a save that failed; then
    this is a CANCEL of what its name means now.
    """
    channel = i64(D.record_channel[at])
    index = i64(D.record_index[at])
    same = D.m_generation[index] == D.record_generation[at]
    if same and D.m_phase[index] == MEDIA_READY:
        fail_removal(D, index)
        if saved == 0:
            answer_node(D, channel, TOO_MANY, index)
            return
        _cancel_live(H, D, index)
        answer_node(D, channel, OK, index)
        return
    row = H.record_ring[at]
    owner = find_owner(D, row[1], row[2])
    node = find_name(D, owner, row[3], row[4])
    if node < 0 or (node < D.media_objects and D.m_phase[node] != MEDIA_REFUSED):
        answer(D, channel, NOT_FOUND, 0, 0)
    else:
        _cancel_refused(D, channel, node)
