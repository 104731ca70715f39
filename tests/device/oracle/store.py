"""
Records for the state store, and what became of them (D12): the tests play the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from twisted_aotx.orders import StoreRecord

if TYPE_CHECKING:
    from tests.device.oracle.frames import Frame


@attrs.define(kw_only=True)
class Sent:
    """A record on its way, the frame that waits for it, and what it is about."""

    record: StoreRecord
    channel: int | None
    frame: Frame | None
    about: Any


@attrs.define
class Store:
    """Records in order: not taken yet, not done yet, done and not handled yet."""

    untaken: list[StoreRecord] = attrs.field(factory=list)
    sent: list[Sent] = attrs.field(factory=list)
    results: list[tuple[Sent, bool]] = attrs.field(factory=list)

    def take(self) -> list[StoreRecord]:
        taken, self.untaken = self.untaken, []
        return taken

    def finish(self, saved: bool) -> None:
        self.results.append((self.sent.pop(0), saved))

    def push(
        self,
        record: StoreRecord,
        *,
        channel: int | None = None,
        frame: Frame | None = None,
        about: Any = None,
    ) -> None:
        self.untaken.append(record)
        self.sent.append(Sent(record=record, channel=channel, frame=frame, about=about))
