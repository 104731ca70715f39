"""
How a whole source becomes ready or is refused (`device.md` §12, §13).

The pages fix the order of phases, their conditions and the outcome, not how many ticks
a source stays in phases 2 to 4: that follows from a budget of bytes per tick which is
shared with hashing. So a device beside the oracle tells the phases that it has reached
(*told*, by descriptor), every step is held to the rules here, and `is_settled` says
when nothing may be left to do. Alone, the oracle takes every step at once.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence

import attrs

from tests.device.oracle import jpeg, wav
from tests.device.oracle.media import upload_deadline
from tests.device.oracle.media_state import (
    DECODING,
    DIGEST,
    ENCODING,
    HASHING,
    JPEG,
    JPEG_REFUSED,
    LIMIT,
    PRESSURE,
    READY,
    REFUSED,
    WAITING,
    WAV,
    MediaSource,
)
from tests.device.oracle.state import State
from twisted_aotx.limits import Capacities
from twisted_aotx.orders import MediaJob, SourceRecord


class Illegal(AssertionError):
    """The device took a step that the pages do not allow."""


@attrs.frozen
class Content:
    """What the bytes of a source are: a status, and if 0 its numbers."""

    status: int
    samples: int = 0
    rows: int = 0
    width: int = 0
    height: int = 0


@functools.lru_cache(maxsize=256)
def _judge(data: bytes, form: int, sizes: Capacities) -> Content:
    if form == WAV:
        heard = wav.judge(data, sizes.audio_frames)
        if heard.status == 0 and heard.rows > sizes.audio_rows:
            return Content(LIMIT)
        return Content(heard.status, heard.samples, heard.rows)
    limits = jpeg.Limits(sizes.image_pixels, sizes.image_dimension, sizes.image_patches)
    seen = jpeg.judge(data, limits)
    return Content(seen.status, 0, seen.rows, seen.width, seen.height)


def content(state: State, source: MediaSource) -> Content:
    return _judge(bytes(source.data), source.format, state.capacities)


def hash_sources(state: State, told: Sequence[int] | None) -> None:
    """Last in a tick: 2 → 3, or refused with status 3."""
    for source in state.media.sources():
        if source.phase == HASHING and (told is None or told[source.index] != HASHING):
            if hashlib.sha256(source.data).digest() == source.sha256:
                source.phase = WAITING
            else:
                state.media.refuse(source, DIGEST, upload_deadline(state))


def prepare(state: State, told: Sequence[int] | None) -> None:
    """The media step: 3 → 4 → 5 or refused."""
    for source in list(state.media.sources()):
        if source.decoded is not None:
            _take_over(state, source)
    before: list[int] = []
    # What ends makes room for the next within the same step.
    while before != (before := [s.phase for s in state.media.sources()]):
        for form in (JPEG, WAV):
            _start(state, form, told)
        for source in list(state.media.sources()):
            if source.phase == DECODING:
                _decode(state, source, told)


def _take_over(state: State, source: MediaSource) -> None:
    """A worker is done: of a source that still stands, its verdict counts."""
    decoded, source.decoded = source.decoded, None
    state.media.leave_worker(source)
    if source.phase != DECODING:
        return
    if decoded:
        _encode(state, source)
    else:
        state.media.refuse(source, JPEG_REFUSED, upload_deadline(state))


def _start(state: State, form: int, told: Sequence[int] | None) -> None:
    """3 → 4: oldest generation first, as long as a worker of the family is free."""
    media = state.media
    waiting = sorted(
        (s for s in media.sources() if s.phase == WAITING and s.format == form),
        key=lambda source: source.generation,
    )
    for source in waiting:
        if told is not None and told[source.index] == WAITING:
            break
        workers = media.workers[form]
        if None not in workers:
            break
        source.worker = workers.index(None)
        workers[source.worker] = source
        source.phase = DECODING
        if form == JPEG:
            rows = state.capacities.image_patches // 4
            source.rows_at = media.rows_pools[JPEG].take(rows)
            if source.rows_at is None:
                media.refuse(source, PRESSURE, upload_deadline(state))


def _decode(state: State, source: MediaSource, told: Sequence[int] | None) -> None:
    """4: the kernels' checks are done, if the device says so."""
    media = state.media
    if source.posted or (told is not None and told[source.index] == DECODING):
        return
    found = content(state, source)
    if found.status:
        media.refuse(source, found.status, upload_deadline(state))
    elif source.format == WAV:
        source.rows_at = media.rows_pools[WAV].take(found.rows)
        media.leave_worker(source)
        if source.rows_at is None:
            media.refuse(source, PRESSURE, upload_deadline(state))
        else:
            _encode(state, source)
    elif told is None:
        post(state, source)
    else:
        raise Illegal(f"an image without a worker's word, {told[source.index]}")


def job_of(state: State, source: MediaSource) -> MediaJob:
    """What the media worker is asked."""
    assert source.worker is not None
    assert source.offset is not None
    found = content(state, source)
    return MediaJob(
        worker=source.worker,
        index=source.index,
        generation=source.generation,
        offset=source.offset,
        size=source.size,
        width=found.width,
        height=found.height,
    )


def post(state: State, source: MediaSource) -> None:
    """Ask the media worker; once per source, after its checks."""
    if source.phase != DECODING or source.posted or content(state, source).status:
        raise Illegal(f"a job for a source in phase {source.phase}")
    source.posted = True
    state.media_jobs.append(job_of(state, source))


def _encode(state: State, source: MediaSource) -> None:
    """5: the store is asked to keep it."""
    assert source.offset is not None
    source.phase = ENCODING
    record = SourceRecord(
        owner=source.owner,
        transfer_id=source.id,
        sha256=source.sha256,
        format=source.format,
        offset=source.offset,
        size=source.size,
    )
    state.store.push(record, about=source)


def saved(state: State, source: MediaSource, ok: bool) -> None:
    """The store's answer: ready, or refused with status 12."""
    assert source.phase == ENCODING
    if not ok:
        state.media.refuse(source, PRESSURE, upload_deadline(state))
        return
    make_ready(state, source)
    state.media.receipts.pop(source.key, None)


def make_ready(state: State, source: MediaSource) -> None:
    """Numbers are shown and rows shrink to what is used."""
    found = content(state, source)
    assert source.rows_at is not None
    source.phase = READY
    source.samples, source.rows = found.samples, found.rows
    state.media.rows_pools[source.format].shrink(source.rows_at, found.rows)


def is_settled(state: State) -> bool:
    """Whether nothing may go on by itself: all waits are for somebody else."""
    media = state.media
    for source in media.sources():
        busy = None not in media.workers[source.format]
        if source.decoded is not None or source.phase == HASHING:
            return False
        if source.phase == WAITING and not busy:
            return False
        if source.phase == DECODING and not source.posted:
            return False
    return True


def check_told(state: State, told: Sequence[int]) -> None:
    """After a tick: both have every source in the same phase."""
    for source in state.media.sources():
        if told[source.index] != source.phase:
            raise Illegal(
                f"source {source.index}: device {told[source.index]}, "
                f"oracle {source.phase}"
            )


assert REFUSED > READY > ENCODING
