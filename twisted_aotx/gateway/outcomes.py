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

#: As many as the largest device holds (D7).
REMEMBERED_MAX: Final = 65_536


class Outcomes:
    """
    The requests of one gateway whose end it has not seen.
    """

    def __init__(self, finished: Callable[[str, str], object]) -> None:
        """
        Args:
            finished: Called once for each request with its alias and how it ended:
                `stop`, `length`, `failed` or `cancelled`.
        """
        self._finished = finished
        #: The oldest first.
        self._models: dict[tuple[int, bytes], str] = {}

    def __len__(self) -> int:
        return len(self._models)

    def admitted(self, epoch: int, request_id: bytes, model: str) -> None:
        """
        Remember a request, and forget the oldest when there are too many.
        """
        self._models[epoch, request_id] = model
        if len(self._models) > REMEMBERED_MAX:
            del self._models[next(iter(self._models))]

    def model(self, epoch: int, request_id: bytes) -> str | None:
        """
        The alias of a request that is remembered.
        """
        return self._models.get((epoch, request_id))

    def seen(self, epoch: int, request_id: bytes, reply: ReplyHeader) -> None:
        """
        A READ or CANCEL was answered with *reply*.
        """
        if reply.phase in TERMINAL_PHASES:
            model = self._models.pop((epoch, request_id), None)
            if model is not None:
                self._finished(model, _finish(reply))


def _finish(reply: ReplyHeader) -> str:
    if reply.phase == Phase.COMPLETED:
        return "length" if reply.finish == Finish.LENGTH else "stop"
    return "cancelled" if reply.phase == Phase.CANCELLED else "failed"
