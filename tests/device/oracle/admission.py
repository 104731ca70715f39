"""
Mailboxes, and the order in which a frame is checked (`device.md` §3, §8).
"""

from __future__ import annotations

from tests.device.oracle import grants, media, policy, requests
from tests.device.oracle.frames import FRAME, HEADER, Frame, reply, zeroed_reply
from tests.device.oracle.information import information
from tests.device.oracle.state import Grant, Mailbox, State

(GRANTS, INFO, SUBMIT, READ, CANCEL, MEDIA, MEDIA_READ, METRICS, MEDIA_LIST) = range(
    1, 10
)
SHARED_WRITE, SHARED_READ, POLICY = 10, 11, 12

#: Action bits (`wire.md` §6).
INFER, UPLOAD, TELEMETRY, SHARE_WRITE = 1, 2, 8, 32
#: What a held operation needs to be told 429 rather than 403 (row 8).
HELD_BITS = {SUBMIT: INFER, CANCEL: INFER, MEDIA: UPLOAD, SHARED_WRITE: SHARE_WRITE}


def admit(state: State) -> None:
    """Answer this tick's frames: channel 0, then the others round-robin."""
    if state.mailboxes[0].state == 1:
        state.answer(0, _control(state, state.mailboxes[0]))
    served = 0
    peers = state.capacities.channels - 1
    start = state.last_channel  # the index of the peer after the last one served
    for step in range(peers):
        channel = 1 + (start + step) % peers
        mailbox = state.mailboxes[channel]
        if mailbox.state != 1 or mailbox.waits:
            continue
        refusal = _malformed(state, mailbox)
        if refusal is not None:
            state.answer(channel, refusal)
            continue
        _examine(state, channel)
        state.last_channel = channel
        served += 1
        if served == state.capacities.slots:
            break


def _examine(state: State, channel: int) -> None:
    mailbox = state.mailboxes[channel]
    packet = _peer_frame(state, channel, Frame(mailbox.packet))
    if packet is None:
        mailbox.waits = True
    else:
        state.answer(channel, packet)


def examine_waiting(state: State) -> None:
    """
    Policy writes behind one that the store has answered, in order of arrival.

    They are examined as if they came now: table and hold may be others than before.
    """
    waiting = state.policy.waiting
    while waiting and not state.policy.writing:
        _examine(state, waiting.pop(0))


def _malformed(state: State, mailbox: Mailbox) -> bytes | None:
    """Rows 1 and 2."""
    if not HEADER <= mailbox.length <= FRAME:
        return zeroed_reply(state.epoch)
    frame = Frame(mailbox.packet)
    return None if frame.well_formed() else reply(frame, state.epoch, 400)


def _control(state: State, mailbox: Mailbox) -> bytes:
    """Row 3."""
    refusal = _malformed(state, mailbox)
    if refusal is not None:
        return refusal
    frame = Frame(mailbox.packet)
    return reply(frame, state.epoch, grants.install(state, frame))


def _peer_frame(state: State, channel: int, frame: Frame) -> bytes | None:
    """Rows 5 to 14; None while the reply waits for the state store."""
    grant = state.grants.get(frame.principal)
    if grant is None or frame.revision != state.revision:
        return reply(frame, state.epoch, 403)
    if not _shaped(frame):
        return reply(frame, state.epoch, 400)
    operation = frame.operation
    if operation == POLICY:
        return policy.handle(state, grant, channel, frame)
    if state.held and operation in HELD_BITS:
        allowed = grant.actions & HELD_BITS[operation]
        return reply(frame, state.epoch, 429 if allowed else 403)
    if operation in (INFO, METRICS):
        return _inform(state, grant, frame)
    if operation in (MEDIA, MEDIA_READ, MEDIA_LIST):
        return media.handle(state, grant, channel, frame)
    if operation in (SHARED_WRITE, SHARED_READ):
        return reply(frame, state.epoch, 503)
    if not grant.actions & INFER:
        return reply(frame, state.epoch, 403)
    if operation in (READ, CANCEL) and len(frame.packet) != HEADER:
        return reply(frame, state.epoch, 400)
    if operation == SUBMIT:
        return requests.submit(state, grant, frame)
    if operation == READ:
        return requests.read(state, grant, frame)
    if operation == CANCEL:
        return requests.cancel(state, grant, frame)
    return reply(frame, state.epoch, 400)


def _shaped(frame: Frame) -> bool:
    """Row 6."""
    operation = frame.operation
    if operation != SUBMIT and not frame.is_zero(72, 88):
        return False
    if operation in (INFO, METRICS):
        return frame.is_zero(40, 72)
    if operation in (MEDIA, MEDIA_READ):
        return frame.epoch == 0 and frame.cursor == 0
    if operation == MEDIA_LIST:
        return frame.is_zero(40, 64) and not frame.payload
    return True


def _inform(state: State, grant: Grant, frame: Frame) -> bytes:
    """Row 9."""
    metrics = frame.operation == METRICS
    if frame.payload:
        return reply(frame, state.epoch, 400)
    if metrics and not grant.actions & TELEMETRY:
        return reply(frame, state.epoch, 403)
    payload = information(state, grant, metrics=metrics)
    return reply(frame, state.epoch, 200, payload=payload)
