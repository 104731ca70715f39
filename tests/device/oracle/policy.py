"""
Operation 12 and the policy's review (`device.md` §14, `wire.md` §11, D11).
"""

from __future__ import annotations

import struct

from tests.device.oracle.frames import Frame, reply
from tests.device.oracle.policy_state import Batch
from tests.device.oracle.state import ACTIVE, Grant, State
from twisted_aotx.orders import ControlRecord, LedgerRecord

TELEMETRY, MANAGE = 8, 128
PAUSE, RESUME, STOP, REVIEW_ON, REVIEW_OFF = range(1, 6)
COUNTER_MAX = 2**64 - 1


def is_idle(state: State) -> bool:
    active = any(entry.phase in ACTIVE for entry in state.entries.values())
    return not active and not state.media.under_way()


def handle(state: State, grant: Grant, channel: int, frame: Frame) -> bytes | None:
    """Row 7 of `device.md` §3; None while the reply waits for the store."""
    refusal = _check(state, grant, frame)
    if refusal:
        return reply(frame, state.epoch, refusal)
    if not frame.payload:
        return _status(state, frame, 200)
    if state.policy.writing:
        state.policy.waiting.append(channel)
        return None
    return _write(state, channel, frame)


def _check(state: State, grant: Grant, frame: Frame) -> int:
    """Everything before the control check; 0 when it holds."""
    payload = frame.payload
    needed = MANAGE if payload else TELEMETRY | MANAGE
    if not grant.actions & needed:
        return 403
    if not frame.is_zero(48, 72) or (not payload and frame.epoch != 0):
        return 400
    if not payload:
        return 0
    if len(payload) != 16:
        return 400
    schema, action, _ = struct.unpack("<IIQ", payload)
    if schema != 1 or not PAUSE <= action <= REVIEW_OFF:
        return 400
    if frame.epoch != state.epoch:
        return 410
    return 429 if state.held else 0


def _status(state: State, frame: Frame, status: int) -> bytes:
    policy = state.policy
    payload = policy.status(held=state.held, idle=is_idle(state))
    return reply(frame, state.epoch, status, phase=policy.state, payload=payload)


def _write(state: State, channel: int, frame: Frame) -> bytes | None:
    """The control check; what passes is on its way to the store."""
    policy = state.policy
    _, action, expected = struct.unpack("<IIQ", frame.payload)
    if expected != policy.revision or policy.revision == COUNTER_MAX:
        return reply(frame, state.epoch, 409)
    if policy.broken and action not in (PAUSE, STOP):
        return reply(frame, state.epoch, 409)
    review, paused, stopped = policy.review, policy.paused, policy.stopped
    if action in (PAUSE, STOP):
        paused, stopped = True, stopped or action == STOP
    elif action == RESUME:
        paused = stopped = False
    else:
        review = action == REVIEW_ON
    policy.writing = True
    record = ControlRecord(
        control_revision=policy.revision + 1,
        review=review,
        paused=paused,
        stopped=stopped,
    )
    state.store.push(record, channel=channel, frame=frame)
    return None


def written(state: State, record: ControlRecord, frame: Frame, saved: bool) -> bytes:
    """The store's answer to a control write (D12)."""
    policy = state.policy
    policy.writing = False
    if not saved:
        return reply(frame, state.epoch, 429)
    policy.revision = record.control_revision
    policy.review = record.review
    policy.paused = record.paused
    policy.stopped = record.stopped
    policy.batch = None
    return _status(state, frame, 200)


def review(state: State) -> None:
    """The policy's step of a tick that is not held."""
    policy = state.policy
    if policy.broken:
        return
    idle = is_idle(state)
    halted = policy.paused or policy.stopped
    wanted = policy.review and not halted and idle
    may = wanted or policy.is_pressing or policy.flushing
    batch = policy.batch
    if batch is not None:
        policy.batch = None
        if may:
            _commit(state, batch)
        elif not idle:
            policy.interrupted += 1
    elif may and policy.recording is None and policy.records:
        policy.batch = policy.new_batch(state.now)


def _commit(state: State, batch: Batch) -> None:
    policy = state.policy
    rows = policy.sum_up(batch)
    policy.recording = batch
    record = LedgerRecord(
        frontier=batch.records[-1].number,
        saved_generation=policy.saved_generation + 1,
        rows=rows,
    )
    state.store.push(record, about=batch)


def recorded(state: State, batch: Batch, saved: bool) -> None:
    """The store's answer to a batch; one that it has not is taken again."""
    state.policy.recording = None
    if saved:
        state.policy.commit(batch, state.now)
