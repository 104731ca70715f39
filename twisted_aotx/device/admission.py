"""
The order of checks on a frame (`device.md` §3). This file is that order.

| # | check | status |
|---|---|---|
| 1 | mailbox length | 400, blank |
| 2 | length field, magic, selector size, reserved bytes, flags | 400 |
| 3 | channel 0: install grants | 200, 400, 403 |
| 4 | tick budget | waits |
| 5 | principal and revision | 403 |
| 6 | shape of the operation | 400 |
| 7 | policy | its own |
| 8 | hold | 429, 403 |
| 9–14 | the operation | its own |
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device import grants, media, policy, submit
from twisted_aotx.device.backend import dev, i64
from twisted_aotx.device.bits import (
    bitmap_clear,
    bitmap_from,
    bitmap_has,
    read32,
    read64,
)
from twisted_aotx.device.frames import (
    AT_EPOCH,
    AT_FLAGS,
    AT_OPERATION,
    AT_PAYLOAD_BYTES,
    AT_PRINCIPAL,
    AT_RESERVED,
    AT_REVISION,
    AT_ROLE,
    AT_SELECTOR_BYTES,
    MAGIC_HIGH,
    MAGIC_LOW,
    answer,
    answer_blank,
    is_zero,
    read_id,
    serve,
)
from twisted_aotx.device.info import write_information
from twisted_aotx.device.numbers import (
    ACT_INFER,
    ACT_SHARED_WRITE,
    ACT_TELEMETRY,
    ACT_UPLOAD,
    BAD,
    FORBIDDEN,
    FRAME_BYTES,
    HEADER,
    OK,
    OP_CANCEL,
    OP_GRANTS,
    OP_INFO,
    OP_MEDIA,
    OP_MEDIA_LIST,
    OP_MEDIA_READ,
    OP_METRICS,
    OP_POLICY,
    OP_READ,
    OP_SHARED_READ,
    OP_SHARED_WRITE,
    OP_SUBMIT,
    TOO_MANY,
    UNAVAILABLE,
)
from twisted_aotx.device.results import cancel, read
from twisted_aotx.limits import SELECTOR_BYTES


@dev
def _header_is_valid(frame: Any, length: Any) -> Any:
    """Row 2."""
    if read32(frame, AT_PAYLOAD_BYTES) != length - HEADER:
        return i64(0)
    if read32(frame, 0) != MAGIC_LOW or read32(frame, 4) != MAGIC_HIGH:
        return i64(0)
    selector = read32(frame, AT_SELECTOR_BYTES)
    submits = read32(frame, AT_OPERATION) == OP_SUBMIT
    if selector != 0 and not (submits and selector == SELECTOR_BYTES):
        return i64(0)
    if read32(frame, AT_FLAGS) != 0:
        return i64(0)
    return is_zero(frame, AT_RESERVED, HEADER)


@dev
def _shape_is_valid(frame: Any, operation: Any, length: Any) -> Any:
    """Row 6."""
    if operation != OP_SUBMIT and is_zero(frame, AT_ROLE, AT_PAYLOAD_BYTES) == 0:
        return i64(0)
    if operation in (OP_INFO, OP_METRICS):
        return is_zero(frame, AT_EPOCH, AT_ROLE)
    if operation in (OP_MEDIA, OP_MEDIA_READ):
        return is_zero(frame, 40, 48) & is_zero(frame, 64, 72)
    if operation == OP_MEDIA_LIST:
        if length != HEADER:
            return i64(0)
        return is_zero(frame, 40, 64)
    return i64(1)


@dev
def _held_status(operation: Any, actions: Any) -> Any:
    """Row 8: 0 when the operation is not held back."""
    needed = i64(0)
    if operation in (OP_SUBMIT, OP_CANCEL):
        needed = i64(ACT_INFER)
    elif operation == OP_MEDIA:
        needed = i64(ACT_UPLOAD)
    elif operation == OP_SHARED_WRITE:
        needed = i64(ACT_SHARED_WRITE)
    if needed == 0:
        return i64(0)
    if (actions & needed) == 0:
        return i64(FORBIDDEN)
    return i64(TOO_MANY)


@dev
def _answer_information(
    D: Any, channel: Any, length: Any, row: Any, metrics: Any
) -> None:
    """Row 9."""
    if length != HEADER:
        answer(D, channel, BAD, 0, 0)
    elif metrics == 1 and (D.g_actions[D.g_table][row] & ACT_TELEMETRY) == 0:
        answer(D, channel, FORBIDDEN, 0, 0)
    else:
        size = write_information(D, D.frame[channel], row, metrics)
        answer(D, channel, OK, 0, size)


@dev
def _answer_request(
    D: Any, channel: Any, length: Any, row: Any, operation: Any
) -> None:
    """Rows 12 to 14."""
    if (D.g_actions[D.g_table][row] & ACT_INFER) == 0:
        answer(D, channel, FORBIDDEN, 0, 0)
    elif operation == OP_SUBMIT:
        submit.submit(D, channel, length, row)
    elif operation == OP_READ and length == HEADER:
        read(D, channel, row)
    elif operation == OP_CANCEL and length == HEADER:
        cancel(D, channel, row)
    else:
        answer(D, channel, BAD, 0, 0)


@dev
def _dispatch(H: Any, D: Any, channel: Any, length: Any, row: Any) -> None:
    """Rows 6 to 14 for a frame of the grant in *row*."""
    frame = D.frame[channel]
    operation = read32(frame, AT_OPERATION)
    actions = D.g_actions[D.g_table][row]
    held = i64(0)
    if D.held == 1:
        held = _held_status(operation, actions)
    if _shape_is_valid(frame, operation, length) == 0:
        answer(D, channel, BAD, 0, 0)
    elif operation == OP_POLICY:
        policy.handle_policy(H, D, channel, length, actions)
    elif held != 0:
        answer(D, channel, held, 0, 0)
    elif operation == OP_INFO:
        _answer_information(D, channel, length, row, i64(0))
    elif operation == OP_METRICS:
        _answer_information(D, channel, length, row, i64(1))
    elif operation in (OP_MEDIA, OP_MEDIA_READ, OP_MEDIA_LIST):
        media.answer_media(H, D, channel, length, row, operation)
    elif operation in (OP_SHARED_WRITE, OP_SHARED_READ):
        answer(D, channel, UNAVAILABLE, 0, 0)
    else:
        _answer_request(D, channel, length, row, operation)


@dev
def _admit_frame(H: Any, D: Any, channel: Any) -> Any:
    """
    Answer one frame of a peer, or note that its reply waits; 1 if it counts against
    the tick's budget.
    """
    length = D.frame_length[channel]
    frame = D.frame[channel]
    if length < HEADER or length > FRAME_BYTES:
        answer_blank(D, channel, BAD)
        return i64(0)
    if _header_is_valid(frame, length) == 0:
        answer(D, channel, BAD, 0, 0)
        return i64(0)
    low, high = read_id(frame, AT_PRINCIPAL)
    row = grants.find_grant(D, low, high)
    if row < 0 or read64(frame, AT_REVISION) != D.g_revision:
        answer(D, channel, FORBIDDEN, 0, 0)
    else:
        _dispatch(H, D, channel, length, row)
    return i64(1)


@dev
def _examine(H: Any, D: Any, channel: Any) -> Any:
    """As `_admit_frame`; the reply is served now unless it waits for the store."""
    D.waits = 0
    counts = _admit_frame(H, D, channel)
    if D.waits == 0:
        serve(D, channel)
    return counts


@dev
def admit_waiting(H: Any, D: Any) -> None:
    """Examine the policy writes that waited for an earlier one, in order of arrival."""
    channel = policy.next_waiting(D)
    while channel >= 0:
        _examine(H, D, channel)
        channel = policy.next_waiting(D)


@dev
def _admit_operator(D: Any) -> None:
    """Row 3: channel 0 installs grants and nothing else."""
    length = D.frame_length[0]
    frame = D.frame[0]
    if length < HEADER or length > FRAME_BYTES:
        answer_blank(D, i64(0), BAD)
    elif _header_is_valid(frame, length) == 0:
        answer(D, i64(0), BAD, 0, 0)
    elif read32(frame, AT_OPERATION) != OP_GRANTS:
        answer(D, i64(0), FORBIDDEN, 0, 0)
    else:
        answer(D, i64(0), grants.install(D, frame, length), 0, 0)


@dev
def admit(H: Any, D: Any) -> None:
    """
    Lane 0: channel 0, then round robin from the channel after the last one served.
    """
    if bitmap_has(D.pending, i64(0)) == 1:
        bitmap_clear(D.pending, i64(0))
        _admit_operator(D)
        serve(D, i64(0))
    budget = D.slots + i64(0)
    start = D.scan_position + 1
    while budget > 0:
        channel = bitmap_from(D.pending, start)
        if channel < 0:
            channel = bitmap_from(D.pending, i64(1))
        if channel < 0:
            return
        bitmap_clear(D.pending, channel)
        if _examine(H, D, channel) == 1:
            budget -= 1
            D.scan_position = channel
        start = channel + 1
