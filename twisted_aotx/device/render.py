"""
Rendering of a SUBMIT payload with the role's message format (`device.md` §5).

Two passes over the same walk: `check_prompt` at admission (nothing is written), and
`render_order` at the lease, into the slot's order. Between the two the payload is the
request's own copy, so the second pass trusts its shape.

Order of checks: the shape of the whole payload (400); then per part in order its UTF-8
(400), the room for it (413), its markers (400), or of a digest the room for its link
(413), its modality (400) and its source (404). So there are never more references than
a prompt has room for.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, u64
from twisted_aotx.device.bits import read32, read64_first_highest
from twisted_aotx.device.markers import (
    AGE_MAX,
    ENGINE_MARKER,
    MEDIA_LINK,
    is_plain,
    may_end_marker,
    seen_marker,
)
from twisted_aotx.device.numbers import (
    BAD,
    FORMAT_JPEG,
    FORMAT_WAV,
    MODALITY_AUDIO,
    MODALITY_IMAGE,
    NOT_FOUND,
    OK,
    PART_AUDIO,
    PART_TEXT,
    TOO_LARGE,
)
from twisted_aotx.device.roles import (
    ASSISTANT_HEAD,
    GENERATION_HEAD,
    SYSTEM_HEAD,
    SYSTEM_TAIL,
    THINK_CLOSE,
    THINK_OPEN,
    USER_HEAD,
)
from twisted_aotx.device.source_index import DIGEST_BYTES, find_ready
from twisted_aotx.device.source_leases import note_reference
from twisted_aotx.device.utf8 import first_byte, next_state
from twisted_aotx.limits import LINK_BYTES, MESSAGES_MAX, PARTS_MAX

_MESSAGE_ROLE_MAX = 2
_USER = 1
#: Bytes that are looked at one by one after eight that are not plain; more are likely.
_CAREFUL_BYTES = 16


@dev
def head_span(role: Any) -> Any:
    """The head span of a message role; its tail is the next one."""
    return i64(2 * role)


@dev
def _check_shape(frame: Any, start: Any, end: Any) -> Any:
    """1 if messages and parts fill start..end exactly, else 0."""
    if end - start < 4:
        return i64(0)
    messages = read32(frame, start)
    if messages < 1 or messages > MESSAGES_MAX:
        return i64(0)
    at = start + 4
    for _ in range(messages):
        if end - at < 8:
            return i64(0)
        speaker = read32(frame, at)
        parts = read32(frame, at + 4)
        if speaker > _MESSAGE_ROLE_MAX or parts < 1 or parts > PARTS_MAX:
            return i64(0)
        at += 8
        for _ in range(parts):
            if end - at < 8:
                return i64(0)
            kind = read32(frame, at)
            size = read32(frame, at + 4)
            if kind > PART_AUDIO or size > end - at - 8:
                return i64(0)
            if kind != PART_TEXT and (speaker != _USER or size != DIGEST_BYTES):
                return i64(0)
            at += 8 + size
    if at != end:
        return i64(0)
    return i64(1)


@dev
def _push_template(D: Any, role: Any, span: Any, first: Any, window: Any) -> Any:
    """
    Feed a template span from byte *first* on into *window* (low, high, age, found).
    """
    low, high, age, found = window
    text = D.span[role][span]
    for k in range(first, D.span_bytes[role][span]):
        byte = i64(text[k])
        high = (high << u64(8)) | (low >> u64(56))
        low = (low << u64(8)) | u64(byte)
        if age < AGE_MAX:
            age += 1
            if may_end_marker(byte) == 1:
                found |= seen_marker(low, high, age)
    return low, high, age, found


@dev
def _push_character(frame: Any, at: Any, end: Any, low: Any, high: Any) -> Any:
    """
    Feed the character at byte *at* into the window *low*, *high*.

    Returns where the next one begins, the window, and 0 or what is wrong with it.
    """
    byte = i64(frame[u64(at)])
    at += 1
    high = (high << u64(8)) | (low >> u64(56))
    low = (low << u64(8)) | u64(byte)
    state = i64(0)
    if byte >= 0x80:
        state = first_byte(byte)
    while state > 0 and at < end:
        byte = i64(frame[u64(at)])
        at += 1
        high = (high << u64(8)) | (low >> u64(56))
        low = (low << u64(8)) | u64(byte)
        state = next_state(state, byte)
    return at, low, high, state


@dev
def _push_text(frame: Any, at: Any, size: Any, window: Any) -> Any:
    """
    Feed *size* bytes of caller text into *window*; also 1 if they are strict UTF-8.
    """
    low, high, age, found = window
    end = at + size
    state = i64(0)
    while at < end and state == 0:
        while end - at >= 8:
            word = read64_first_highest(frame, at)
            if is_plain(word) == 0:
                break
            high = low
            low = word
            at += 8
        stop = min(at + _CAREFUL_BYTES, end)
        while at < stop and state == 0:
            at, low, high, state = _push_character(frame, at, end, low, high)
            if may_end_marker(i64(low & u64(255))) == 1:
                found |= seen_marker(low, high, i64(0))
    valid = i64(0)
    if state == 0:
        valid = i64(1)
    if size > 0:
        age = i64(0)
    return low, high, age, found, valid


@dev
def _refer(D: Any, role: Any, owner: Any, kind: Any, frame: Any, at: Any) -> Any:
    """Note the source that a digest part names; 0, or the status of its refusal."""
    modality = i64(MODALITY_IMAGE)
    form = i64(FORMAT_JPEG)
    if kind == PART_AUDIO:
        modality = i64(MODALITY_AUDIO)
        form = i64(FORMAT_WAV)
    if D.media_objects == 0 or (D.role_modalities[role] & modality) == 0:
        return i64(BAD)
    index = find_ready(D, owner, form, frame, at)
    if index < 0:
        return i64(NOT_FOUND)
    note_reference(D, index)
    return i64(0)


@dev
def check_prompt(
    D: Any, role: Any, owner: Any, frame: Any, start: Any, end: Any
) -> Any:
    """
    Judge the payload `frame[start:end]`: (status, rendered bytes, engine marker 0/1).

    `D.ref_list` has the sources of *owner* (-1: it has none) that it refers to.
    """
    none = i64(0)
    D.refs = 0
    if _check_shape(frame, start, end) == 0:
        return i64(BAD), none, none
    window = u64(0), u64(0), i64(AGE_MAX), i64(0)
    rendered = D.prefix_bytes[role] + i64(0)
    at = start + 4
    for _ in range(read32(frame, start)):
        head = head_span(read32(frame, at))
        parts = read32(frame, at + 4)
        at += 8
        first = i64(0)
        if head == SYSTEM_HEAD:
            first = D.prefix_bytes[role] + i64(0)
        window = _push_template(D, role, head, first, window)
        rendered += D.span_bytes[role][head] - first
        for _ in range(parts):
            kind = read32(frame, at)
            size = read32(frame, at + 4)
            if kind == PART_TEXT:
                low, high, age, found, valid = _push_text(frame, at + 8, size, window)
                window = low, high, age, found
                if valid == 0:
                    return i64(BAD), none, none
                rendered += size
            else:
                # Longer than any marker, and its last bytes begin none.
                window = u64(0), u64(0), i64(AGE_MAX), window[3]
                rendered += LINK_BYTES
            if rendered > D.prompt_bytes:
                return i64(TOO_LARGE), none, none
            if (window[3] & MEDIA_LINK) != 0:
                return i64(BAD), none, none
            if kind != PART_TEXT:
                status = _refer(D, role, owner, kind, frame, at + 8)
                if status != 0:
                    return status, none, none
            at += 8 + size
        window = _push_template(D, role, head + 1, i64(0), window)
        rendered += D.span_bytes[role][head + 1]
    for span in range(GENERATION_HEAD, THINK_CLOSE + 1):
        window = _push_template(D, role, span, i64(0), window)
        rendered += D.span_bytes[role][span]
    if rendered > D.prompt_bytes:
        return i64(TOO_LARGE), none, none
    if (window[3] & MEDIA_LINK) != 0:
        return i64(BAD), none, none
    return i64(OK), rendered, (window[3] & ENGINE_MARKER) >> 1


#: The walk relies on this order of spans: head, tail per message role.
assert (SYSTEM_HEAD, SYSTEM_TAIL, USER_HEAD, ASSISTANT_HEAD) == (0, 1, 2, 4)
assert THINK_OPEN == GENERATION_HEAD + 1
assert THINK_CLOSE == THINK_OPEN + 1
