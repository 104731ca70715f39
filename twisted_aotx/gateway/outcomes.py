"""
Which model a request was for, from its admission to the sight of its end.

The device knows roles, callers know aliases; only who admitted a request knows both.
So a gateway remembers what it admitted, at most `REMEMBERED_MAX` requests, until it
sees their end. What was admitted elsewhere is not counted here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from twisted_aotx.wire.numbers import TERMINAL_PHASES, Finish, Phase

if TYPE_CHECKING:
    from twisted_aotx.wire.packet import ReplyHeader

#: Takes alias, finish, label and reply.
Finished = Callable[[str, str, str, "ReplyHeader"], object]

#: As many as the largest device holds (D7).
REMEMBERED_MAX: Final = 65_536


class Outcomes:
    """
    The requests of one gateway whose end it has not seen.
    """

    def __init__(self, finished: Finished) -> None:
        """
        Args:
            finished: Called once for each request with its alias, how it ended
                (`stop`, `length`, `failed` or `cancelled`), its principal's label and
                the reply that told of it.
        """
        self._finished = finished
        #: The oldest first.
        self._models: dict[tuple[int, bytes], tuple[str, str]] = {}

    def __len__(self) -> int:
        return len(self._models)

    def admitted(
        self, epoch: int, request_id: bytes, model: str, label: str = ""
    ) -> None:
        """
        Remember a request, and forget the oldest when there are too many.

        *label* is its principal's in `metrics.labels`, or empty.
        """
        self._models[epoch, request_id] = model, label
        if len(self._models) > REMEMBERED_MAX:
            del self._models[next(iter(self._models))]

    def model(self, epoch: int, request_id: bytes) -> str | None:
        """
        The alias of a request that is remembered.
        """
        model, _ = self._models.get((epoch, request_id), (None, ""))
        return model

    def seen(self, epoch: int, request_id: bytes, reply: ReplyHeader) -> None:
        """
        A READ or CANCEL was answered with *reply*.
        """
        if reply.phase in TERMINAL_PHASES:
            known = self._models.pop((epoch, request_id), None)
            if known is not None:
                model, label = known
                self._finished(model, _finish(reply), label, reply)


def _finish(reply: ReplyHeader) -> str:
    if reply.phase == Phase.COMPLETED:
        return "length" if reply.finish == Finish.LENGTH else "stop"
    return "cancelled" if reply.phase == Phase.CANCELLED else "failed"
