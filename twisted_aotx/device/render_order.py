"""
Writing a prompt and its span map into an order (`device.md` §5): the second pass over
what `render.check_prompt` has judged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twisted_aotx.device.backend import copy_bytes, dev, i64
from twisted_aotx.device.bits import read32
from twisted_aotx.device.numbers import (
    PART_IMAGE,
    PART_TEXT,
    SPAN_CALLER,
    SPAN_LINK,
    SPAN_TEMPLATE,
)
from twisted_aotx.device.render import head_span
from twisted_aotx.device.roles import (
    GENERATION_HEAD,
    SYSTEM_HEAD,
    THINK_CLOSE,
)
from twisted_aotx.device.source_index import DIGEST_BYTES
from twisted_aotx.limits import LINK_BYTES

_IMAGE_LINK = np.frombuffer(b"[image:", np.uint8)
_AUDIO_LINK = np.frombuffer(b"[audio:", np.uint8)
_LINK_HEAD_BYTES = 7


@dev
def _end_span(H: Any, slot: Any, rendered: Any, kind: Any) -> None:
    """Everything up to *rendered* belongs to a span of *kind*; equal spans merge."""
    count = H.o_span_count[slot]
    before = i64(0)
    if count > 0:
        before = i64(H.o_span_end[slot][count - 1])
    if rendered == before:
        return
    if count > 0 and H.o_span_class[slot][count - 1] == kind:
        count -= 1
    H.o_span_end[slot][count] = rendered
    H.o_span_class[slot][count] = kind
    H.o_span_count[slot] = count + 1


@dev
def _put_template(
    H: Any, D: Any, slot: Any, role: Any, span: Any, first: Any, at: Any
) -> Any:
    text = D.span[role][span]
    out = H.o_rendered[slot]
    size = D.span_bytes[role][span] - first
    copy_bytes(out, at, text, first, size, 0, 1)
    at += size
    _end_span(H, slot, at, SPAN_TEMPLATE)
    return at


@dev
def _put_link(out: Any, at: Any, kind: Any, payload: Any, digest: Any) -> None:
    """Write the link of the digest at byte *digest* of *payload*."""
    if kind == PART_IMAGE:
        copy_bytes(out, at, _IMAGE_LINK, 0, _LINK_HEAD_BYTES, 0, 1)
    else:
        copy_bytes(out, at, _AUDIO_LINK, 0, _LINK_HEAD_BYTES, 0, 1)
    at += _LINK_HEAD_BYTES
    for k in range(2 * DIGEST_BYTES):
        digit = (i64(payload[digest + k // 2]) >> (4 * (1 - k % 2))) & 15
        # The letters follow the digits 39 places later.
        out[at + k] = 48 + digit + 39 * (digit // 10)
    out[at + 2 * DIGEST_BYTES] = 0x5D


@dev
def render_prompt(H: Any, D: Any, payload: Any, slot: Any, request: Any) -> None:
    """
    Write prompt and span map of *request*, whose payload it is, into *slot*'s order.
    """
    role = D.r_role[request] + i64(0)
    out = H.o_rendered[slot]
    prefix = D.prefix_bytes[role] + i64(0)
    H.o_span_count[slot] = 0
    copy_bytes(out, 0, D.span[role][SYSTEM_HEAD], 0, prefix, 0, 1)
    rendered = prefix + i64(0)
    _end_span(H, slot, rendered, SPAN_TEMPLATE)
    at = i64(4)
    for _ in range(read32(payload, 0)):
        head = head_span(read32(payload, at))
        parts = read32(payload, at + 4)
        at += 8
        first = i64(0)
        if head == SYSTEM_HEAD:
            first = prefix
        rendered = _put_template(H, D, slot, role, head, first, rendered)
        for _ in range(parts):
            kind = read32(payload, at)
            size = read32(payload, at + 4)
            if kind == PART_TEXT:
                copy_bytes(out, rendered, payload, at + 8, size, 0, 1)
                rendered += size
                _end_span(H, slot, rendered, SPAN_CALLER)
            else:
                _put_link(out, rendered, kind, payload, at + 8)
                rendered += LINK_BYTES
                _end_span(H, slot, rendered, SPAN_LINK)
            at += 8 + size
        rendered = _put_template(H, D, slot, role, head + 1, i64(0), rendered)
    for span in range(GENERATION_HEAD, THINK_CLOSE + 1):
        rendered = _put_template(H, D, slot, role, span, i64(0), rendered)
    H.o_rendered_bytes[slot] = rendered
