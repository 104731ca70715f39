"""
Host names to addresses (`http.md` §8).

The system's resolver blocks, and one that hangs does so for half a minute. So each
look-up has a thread of its own that nobody waits for longer than its time, not at the
end of the process either; how many there may be is bounded.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from twisted.internet.defer import Deferred, TimeoutError

from twisted_aotx.gateway.imports_urls import Address
from twisted_aotx.gateway.problems import ProblemCode, refusal

LOOKUP_SECONDS: Final = 5.0
#: Look-ups at once, those that were given up included.
LOOKUPS_MAX: Final = 8


class Names:
    """
    Looks names up for one gateway.

    Args:
        reactor: takes what threads found.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        #: Called in a thread: a name to texts of addresses; raises OSError for none.
        self.look_up: Callable[[str], Sequence[str]] = look_up
        self._under_way = 0

    async def addresses(self, host: str) -> Sequence[Address]:
        """
        The addresses of *host* now: at least one.

        Raises:
            Problem: 502 `source_dns`, or 429 `transport_limit`.
        """
        if self._under_way >= LOOKUPS_MAX:
            raise refusal(ProblemCode.TRANSPORT_LIMIT)
        found: Deferred[Sequence[str]] = Deferred()
        self._under_way += 1
        threading.Thread(target=self._work, args=(host, found), daemon=True).start()
        found.addTimeout(LOOKUP_SECONDS, self._reactor)
        try:
            texts = await found
        except TimeoutError:
            texts = ()
        if not texts:
            raise refusal(ProblemCode.SOURCE_DNS)
        return [ipaddress.ip_address(text) for text in texts]

    def _work(self, host: str, found: Deferred[Sequence[str]]) -> None:
        texts: Sequence[str] = ()
        try:
            texts = self.look_up(host)
        except (OSError, UnicodeError):
            pass  # there is no such name
        finally:
            self._reactor.callFromThread(self._done, found, texts)

    def _done(self, found: Deferred[Sequence[str]], texts: Sequence[str]) -> None:
        self._under_way -= 1
        if not found.called:
            found.callback(texts)


def look_up(host: str) -> Sequence[str]:
    """
    What the system says of *host*; blocks.
    """
    rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(row[4][0]) for row in rows]
