"""
Connecting to the host of a source: its addresses in turn, ten seconds in all
(`http.md` §8).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError, TimeoutError
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure

from tests.clocks import BEGIN_SECONDS
from twisted_aotx.errors import Problem
from twisted_aotx.gateway.imports_fetch import ADDRESSES_MAX, CONNECT_SECONDS, Fetcher
from twisted_aotx.gateway.imports_names import Names
from twisted_aotx.gateway.imports_urls import Address, ImportURL
from twisted_aotx.gateway.media_spool import Spool
from twisted_aotx.gateway.settings import URLRules

URL = ImportURL(host="pictures.example", port=443, address=None, target=b"/a.jpeg")


class KnownNames(Names):
    """Every name has *texts* for addresses."""

    def __init__(self, reactor: Any, texts: Sequence[str]) -> None:
        super().__init__(reactor)
        self._texts = texts

    async def addresses(self, host: str) -> Sequence[Address]:
        return [ipaddress.ip_address(text) for text in self._texts]


class Connecting:
    """A fetch whose connections the test refuses or lets time out."""

    def __init__(self, *texts: str) -> None:
        self.reactor = MemoryReactorClock()
        self.reactor.rightNow = BEGIN_SECONDS
        fetcher = Fetcher(self.reactor)
        fetcher.names = KnownNames(self.reactor, texts)
        self.failure: Any = None
        self._spool = Spool()
        done = Deferred.fromCoroutine(
            fetcher.fetch(URL, URLRules(), self._spool, bytes_max=1)
        )
        done.addErrback(self._failed)

    def _failed(self, failure: Failure) -> None:
        self.failure = failure.value

    @property
    def asked(self) -> list[tuple[str, Any]]:
        """Each address that was asked for a connection, and how long it has."""
        return [(host, timeout) for host, _, _, timeout, _ in self.reactor.tcpClients]

    def fail(self, error: Exception, *, after: float) -> None:
        """The last one fails *after* so many seconds."""
        self.reactor.advance(after)
        factory: Any = self.reactor.tcpClients[-1][2]
        factory.clientConnectionFailed(None, Failure(error))


def test_each_address_has_its_share_of_what_is_left() -> None:
    connecting = Connecting("93.184.216.1", "93.184.216.2", "93.184.216.3")
    assert connecting.asked == [("93.184.216.1", pytest.approx(CONNECT_SECONDS / 3))]

    connecting.fail(ConnectionRefusedError(), after=1)
    assert connecting.asked[1:] == [("93.184.216.2", pytest.approx(4.5))]
    connecting.fail(TimeoutError(), after=4.5)
    assert connecting.asked[2:] == [("93.184.216.3", pytest.approx(4.5))]
    connecting.fail(TimeoutError(), after=4.5)

    assert isinstance(connecting.failure, Problem)
    assert connecting.failure.code == "source_transfer"


def test_nobody_is_asked_when_the_time_is_over() -> None:
    connecting = Connecting("93.184.216.1", "93.184.216.2")
    connecting.fail(TimeoutError(), after=CONNECT_SECONDS)

    assert len(connecting.asked) == 1
    assert isinstance(connecting.failure, Problem)


def test_the_first_addresses_of_many_are_tried() -> None:
    texts = [f"93.184.216.{number}" for number in range(1, ADDRESSES_MAX + 3)]
    connecting = Connecting(*texts)
    for _ in range(ADDRESSES_MAX):
        connecting.fail(ConnectionRefusedError(), after=0)

    assert [host for host, _ in connecting.asked] == texts[:ADDRESSES_MAX]
    assert isinstance(connecting.failure, Problem)
