"""
What becomes of sources: what was told to be ready stays, also over restarts, until its
owner removes it; what was removed never comes back; nobody sees another's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from tests.simulation.history import Event
from tests.simulation.truth import Truth
from twisted_aotx.wire.handles import media_handle
from twisted_aotx.wire.media import unpack_list
from twisted_aotx.wire.numbers import Operation

_READY: Final = 6


@attrs.define
class Source:
    """
    One source that its owner was told is ready.
    """

    ready: Event
    #: When its owner first asked for its removal, and when that was told to be done.
    removing: int | None = None
    removed: int | None = None

    def must_be_there(self, begin: int, end: int) -> bool:
        """Whether a look between two events finds it."""
        left = self.removing is not None and self.removing < end
        return self.ready.number < begin and not left

    def must_be_gone(self, begin: int) -> bool:
        """Whether a look that began with an event does not find it."""
        return self.removed is not None and self.removed < begin


def check_media(truth: Truth) -> Iterator[str]:
    """Everything that is wrong with what clients were told of sources."""
    sources: dict[tuple[bytes, str], Source] = {}
    for event in truth.history.of("source_ready"):
        if event.phase != _READY or event.sha256 != event.sent:
            yield f"source {event.number} is not what was sent, or not ready"
        sources[event.principal, event.handle] = Source(event)
    for event in truth.history.of("removing"):
        source = sources.get((event.principal, event.handle))
        if source is not None and source.removing is None:
            source.removing = event.number
    for event in truth.history.of("removed"):
        yield from _check_removed(sources, event)
    for event in truth.history.of("source_shown"):
        yield from _check_shown(sources, event)
    for event in truth.history.of("source_list"):
        rows = {handle: (sha256, phase) for handle, sha256, phase in event.rows}
        yield from _check_list(sources, event, event.began, rows, event.is_whole)
    for event in truth.history.of("received"):
        if event.status == 200 and event.sent >= 0:
            sent = truth.events[event.sent]
            if sent.operation == Operation.MEDIA_LIST:
                rows = {
                    media_handle(row.transfer_id): (
                        row.metadata.sha256.hex(),
                        row.metadata.phase,
                    )
                    for row in unpack_list(event.data)
                }
                is_whole = sent.cursor == 0 and event.cursor == 0
                yield from _check_list(sources, event, sent.number, rows, is_whole)


def _check_removed(
    sources: dict[tuple[bytes, str], Source], event: Event
) -> Iterator[str]:
    source = sources.get((event.principal, event.handle))
    where = f"removal {event.number}"
    if source is None:
        if event.status in (204, 409):
            yield f"{where} is {event.status} to one who does not own it"
        return
    if event.status == 204 and source.removed is None:
        source.removed = event.number
    if event.status == 404 and source.removing is not None:
        # Another removal of the same source may have been done and not been told.
        first = source.removing >= event.began - 1
        if first and source.must_be_there(event.began - 1, event.began):
            yield f"{where} does not find what is there"


def _check_shown(
    sources: dict[tuple[bytes, str], Source], event: Event
) -> Iterator[str]:
    source = sources.get((event.principal, event.handle))
    where = f"source shown {event.number}"
    if source is None:
        if event.status == 200:
            yield f"{where} is another's"
    elif event.status == 200:
        # A removed one is shown as refused while its descriptor is free.
        if event.phase == _READY and source.must_be_gone(event.began):
            yield f"{where} was removed"
        if event.phase != _READY and source.must_be_there(event.began, event.number):
            yield f"{where} is in phase {event.phase}"
        if event.sha256 != source.ready.sha256:
            yield f"{where} has other bytes"
    elif event.status == 404 and source.must_be_there(event.began, event.number):
        yield f"{where} is not found, and was not removed"


def _check_list(
    sources: dict[tuple[bytes, str], Source],
    event: Event,
    began: int,
    rows: dict[str, tuple[str, int]],
    is_whole: bool,
) -> Iterator[str]:
    where = f"list {event.number}"
    for (owner, handle), source in sources.items():
        row = rows.get(handle)
        if owner != event.principal:
            if row is not None:
                yield f"{where} has another's source"
        elif row is None:
            if is_whole and source.must_be_there(began, event.number):
                yield f"{where} lacks {handle}, which was not removed"
        elif source.must_be_gone(began):
            yield f"{where} has {handle}, which was removed"
        elif row[0] != source.ready.sha256.hex():
            yield f"{where} has other bytes of {handle}"
