"""
How a gateway ends: what it takes no more, what it lets out, and until when.

Rules (`http.md` §1, §10):

1. From the first moment on it is not ready, takes no new work (503 `service_closed`),
   and every answer is its connection's last. It keeps listening, so that what arrives
   is told so.
2. Native event streams end at once, without an error: their clients resume them, at
   another gateway or later.
3. Other answers have until `write_seconds` are nearly over; then whatever still waits
   for the device is answered 503, and what is not out by the end is cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from twisted.internet.task import deferLater

if TYPE_CHECKING:
    from twisted_aotx.gateway.site import GatewaySite

#: Seconds between two looks at whether all answers are out.
_LOOK_SECONDS: Final = 0.05
#: Of `write_seconds`: when answers that still wait are refused, and when what is not
#: out is cut off. The rest is for what comes after the gateway.
_REFUSE_AT: Final = 0.75
_CUT_OFF_AT: Final = 0.9


class Closing:
    """
    Whether a gateway is going to end, and who must know at once.
    """

    def __init__(self) -> None:
        self.begun = False
        self._watching: dict[object, Callable[[], None]] = {}

    def watch(self, told: Callable[[], None]) -> Callable[[], None]:
        """
        Have *told* called when the end begins, at once if it has.

        Returns:
            What takes that back. Idempotent.
        """
        if self.begun:
            told()
            return lambda: None
        key = object()
        self._watching[key] = told

        def forget() -> None:
            self._watching.pop(key, None)

        return forget

    def begin(self) -> None:
        """
        The end begins. Idempotent.
        """
        self.begun = True
        while self._watching:
            _, told = self._watching.popitem()
            told()


async def close_down(site: GatewaySite) -> None:
    """
    Let the answers of *site* out (rules 1 to 3), and close every connection.

    Who calls it stops listening afterwards.
    """
    gateway = site.gateway
    clock = gateway.reactor
    began = clock.seconds()
    seconds = gateway.settings.limits.write_seconds
    gateway.closing.begin()
    for connection in site.connections:
        if connection.idle:
            connection.loseConnection()
    refused = False
    while any(not connection.idle for connection in site.connections):
        passed = clock.seconds() - began
        if passed >= seconds * _CUT_OFF_AT:
            break
        if passed >= seconds * _REFUSE_AT and not refused:
            refused = True
            gateway.client.close()
        await deferLater(clock, _LOOK_SECONDS)
    await gateway.client.close()
    for connection in site.connections:
        if connection.idle:
            connection.loseConnection()
        else:
            connection.abort()
    while site.connections and clock.seconds() - began < seconds:
        await deferLater(clock, _LOOK_SECONDS)
    for connection in site.connections:
        connection.abort()
    site.close()
