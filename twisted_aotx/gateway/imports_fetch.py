"""
Fetching a source: one look-up, one connection to an address that was judged, one GET
(`http.md` §8).

Rules:

1. The name is looked up once, and only the addresses of that answer are connected to,
   so a name that means something else a moment later changes nothing. The certificate
   is checked for the name.
2. Bounds: 5 s for the look-up, 10 s to connect, 60 s in all (`imports` keeps that
   time); those of the answer: `imports_http`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any, Final, cast

from twisted.internet.defer import CancelledError
from twisted.internet.endpoints import (
    TCP4ClientEndpoint,
    TCP6ClientEndpoint,
    wrapClientTLS,
)
from twisted.internet.error import ConnectError, ConnectingCancelledError, UserError
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from twisted_aotx.gateway.imports_addresses import permitted
from twisted_aotx.gateway.imports_http import SourceConnection, get
from twisted_aotx.gateway.imports_names import Names
from twisted_aotx.gateway.imports_urls import Address, ImportURL
from twisted_aotx.gateway.media_spool import Spool
from twisted_aotx.gateway.problems import ProblemCode, refusal
from twisted_aotx.gateway.settings import URLRules

CONNECT_SECONDS: Final = 10.0
TOTAL_SECONDS: Final = 60.0
#: Addresses of one host that are tried; all are judged.
ADDRESSES_MAX: Final = 8

_log = Logger("aotx.gateway")


class Fetcher:
    """
    Fetches for one gateway.

    Args:
        reactor: serves the connections.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self.names = Names(reactor)

    async def fetch(
        self, url: ImportURL, rules: URLRules, spool: Spool, bytes_max: int
    ) -> bytes:
        """
        Append what *url* names to *spool*.

        Returns:
            Its content type as it was sent; empty if there is none.

        Raises:
            Problem: 403, 413, 415, 429 or 502, as `http.md` §8 says.
        """
        found: Sequence[Address]
        if url.address is not None:
            found = (url.address,)
        else:
            found = await self.names.addresses(url.host)
        addresses = permitted(url, found, rules)
        connection = await self._connect(url, addresses, rules.ca_file)
        try:
            return await get(connection, url, spool, bytes_max)
        finally:
            connection.drop()

    async def _connect(
        self, url: ImportURL, addresses: Sequence[Address], ca_file: str | None
    ) -> SourceConnection:
        """
        A connection to the first of *addresses* that takes one, tried in their order,
        the first `ADDRESSES_MAX` of them.
        """
        addresses = addresses[:ADDRESSES_MAX]
        creator = _creator(url.host, ca_file)
        clock = self._reactor
        deadline = clock.seconds() + CONNECT_SECONDS
        for tried, address in enumerate(addresses):
            left = (deadline - clock.seconds()) / (len(addresses) - tried)
            if left <= 0:
                break
            ipv4 = isinstance(address, ipaddress.IPv4Address)
            kind = TCP4ClientEndpoint if ipv4 else TCP6ClientEndpoint
            endpoint = kind(clock, str(address), url.port, timeout=left)
            factory = Factory.forProtocol(lambda: SourceConnection(clock))
            factory.noisy = False
            try:
                connected = await wrapClientTLS(creator, endpoint, clock).connect(
                    factory
                )
            except ConnectingCancelledError:
                raise CancelledError() from None
            except (ConnectError, UserError, OSError):
                continue
            return cast(SourceConnection, connected)
        raise refusal(ProblemCode.SOURCE_TRANSFER)


def _creator(host: str, ca_file: str | None) -> Any:
    try:
        from twisted_aotx.gateway.imports_tls import connection_creator

        return connection_creator(host, ca_file)
    except Exception as error:
        # No pyOpenSSL, or a file of authorities that was good when it was configured.
        kind = type(error).__name__
        _log.error("no TLS for imports: {kind}", kind=kind)
        raise refusal(ProblemCode.SOURCE_TRANSFER) from None
