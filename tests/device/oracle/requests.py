"""
SUBMIT, READ and CANCEL on the request table (`device.md` §4, §6, §7).
"""

from __future__ import annotations

import struct

from tests.device.oracle.frames import Frame, f32, reply, u32
from tests.device.oracle.render import Refusal, render
from tests.device.oracle.state import (
    CANCELLED,
    PREPARING,
    QUEUED,
    RUNNING,
    Entry,
    Grant,
    Model,
    Outcome,
    State,
)
from twisted_aotx.orders import Selection

WINDOW = 65536 - 128
#: The role that controls may be of.
DEFAULT_ROLE = 2


def submit(state: State, grant: Grant, frame: Frame) -> bytes:
    """Rows 1 to 11 of `device.md` §4."""
    status = _check_submit(state, grant, frame)
    if status == 0:
        payload = frame.payload[: len(frame.payload) - frame.selector_bytes]
        model = state.models[u32(frame.packet, 72)]
        try:
            prompt = render(
                payload,
                model,
                state.media,
                frame.principal,
                state.capacities.prompt_bytes,
            )
        except Refusal as refusal:
            return reply(frame, state.epoch, refusal.status)
        selection, status = check_selector(state, frame)
    if status:
        return reply(frame, state.epoch, status)
    if len(state.entries) >= state.capacities.requests:
        del state.entries[state.retained.pop(0).key]
    state.admitted += 1
    entry = Entry(
        principal=frame.principal,
        id=frame.id,
        revision=frame.revision,
        role=model.role,
        model_sha256=model.sha256,
        pages=grant.pages or state.pages_max,
        limit=u32(frame.packet, 76),
        temperature=f32(frame.packet, 80),
        top_p=f32(frame.packet, 84),
        payload=payload,
        prompt=prompt,
        selection=selection,
        opened_ns=state.now,
        changed_ns=state.now,
        sequence=state.admitted,
    )
    state.entries[entry.key] = entry
    state.note(0, "admitted", QUEUED)
    for _, source in prompt.references:
        source.leases += 1
    return reply(frame, state.epoch, 202, phase=QUEUED)


def _check_submit(state: State, grant: Grant, frame: Frame) -> int:
    """Rows 1 to 8; 0 when all hold."""
    if frame.epoch != state.epoch:
        return 410
    if not any(frame.id) or frame.cursor != 0:
        return 400
    role = u32(frame.packet, 72)
    model = state.models.get(role)
    if model is None or not model.active or not grant.roles >> role & 1:
        return 404
    limit = u32(frame.packet, 76)
    tokens = state.capacities.sequence_tokens
    if not (1 <= limit <= grant.tokens and limit < tokens):
        return 400
    # A NaN fails both comparisons.
    if not (0 <= f32(frame.packet, 80) <= 2 and 0 < f32(frame.packet, 84) <= 1):
        return 400
    if (frame.principal, frame.id) in state.entries:
        return 409
    if state.active_requests(frame.principal) >= grant.requests:
        return 429
    if len(state.entries) >= state.capacities.requests and not state.retained:
        return 429
    if frame.selector_bytes > len(frame.payload):
        return 400
    return 0


def named_controls(model: Model, digest: bytes) -> list[int]:
    """The rows whose qualification digest is *digest*."""
    rows = enumerate(model.controls)
    return [at for at, row in rows if row.qualification_sha256 == digest]


def check_selector(state: State, frame: Frame) -> tuple[Selection | None, int]:
    """Row 10: shape 400, then availability 503 (`wire.md` §8); 0 when it holds."""
    if frame.selector_bytes == 0:
        return None, 0
    selector = frame.payload[-48:]
    if not any(selector):
        return None, 0
    version, kind, dose, zero = struct.unpack_from("<IIiI", selector)
    if version != 1 or kind != 1 or dose == 0 or abs(dose) > 40000 or zero != 0:
        return None, 400
    digest = selector[16:]
    if not any(digest):
        return None, 400
    role = u32(frame.packet, 72)
    model = state.models[role]
    named = named_controls(model, digest) if role == DEFAULT_ROLE else []
    if len(named) != 1 or dose not in model.doses(named[0]):
        return None, 503
    return Selection(qualification_sha256=digest, dose=dose), 0


def _find(state: State, grant: Grant, frame: Frame) -> Entry | None:
    """Row 2 of `device.md` §6."""
    entry = state.entries.get((frame.principal, frame.id))
    if entry is None or entry.revision != frame.revision:
        return None
    return entry if grant.roles >> entry.role & 1 else None


def read(state: State, grant: Grant, frame: Frame) -> bytes:
    if frame.epoch != state.epoch:
        return reply(frame, state.epoch, 410)
    entry = _find(state, grant, frame)
    if entry is None:
        return reply(frame, state.epoch, 404)
    if frame.cursor > len(entry.output):
        return reply(frame, state.epoch, 409, phase=entry.phase)
    return _window(state, frame, entry)


def cancel(state: State, grant: Grant, frame: Frame) -> bytes:
    if frame.epoch != state.epoch:
        return reply(frame, state.epoch, 410)
    entry = _find(state, grant, frame)
    if entry is None:
        return reply(frame, state.epoch, 404)
    if frame.cursor != 0:
        return reply(frame, state.epoch, 409, phase=entry.phase)
    if entry.phase == QUEUED:
        outcome = Outcome(event="cancel", phase=CANCELLED, status=409, cancel=1)
        state.finish_entry(entry, outcome)
    elif entry.phase in (PREPARING, RUNNING):
        entry.cancel = 1
        entry.status = 409
    else:
        state.note(entry.phase, "cancel", entry.phase, entry.status)
    return _window(state, frame, entry)


def _window(state: State, frame: Frame, entry: Entry) -> bytes:
    data = bytes(entry.output[frame.cursor : frame.cursor + WINDOW])
    return reply(frame, state.epoch, 200, phase=entry.phase, payload=data, entry=entry)
