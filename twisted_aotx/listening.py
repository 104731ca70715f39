"""
Where a gateway listens: `host` and `port` of its file, or `--listen` (`http.md` §1).

    tcp:8081:interface=127.0.0.1          plain, on this machine only
    tcp6:8081:interface=\\:\\:1             the same for IPv6
    tls:8443:interface=192.0.2.1          with certificate and key of the file
    unix:/run/aotx/http.sock:mode=660     for a server in front, on this machine
    haproxy:tcp:8081                      behind a server that sends the PROXY header
    systemd:domain=INET:index=0           a socket that systemd made

Rules:

1. What others than this machine can reach needs TLS, unless `haproxy:` or `unix:` says
   that something stands in front.
2. Without `interface`, `tcp:` and `tls:` mean every address, as Twisted has it.

Layer 5.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import maybeDeferred
from twisted.internet.endpoints import (
    TCP4ServerEndpoint,
    TCP6ServerEndpoint,
    UNIXServerEndpoint,
    serverFromString,
)
from twisted.protocols.haproxy import proxyEndpoint

from twisted_aotx.errors import ConfigError, ConfigErrors
from twisted_aotx.gateway.settings import GatewaySettings
from twisted_aotx.places import REFUSED, Place

if TYPE_CHECKING:
    from twisted_aotx.tls import CurrentCertificate

#: Connections waiting to be accepted.
BACKLOG: Final = 1024
#: Of a Unix socket, when the string says nothing: its user and group.
UNIX_MODE: Final = 0o660


def of_settings(settings: GatewaySettings) -> Place:
    """
    What `host` and `port` say; `config` has judged them.
    """
    kind = "tcp6" if ":" in settings.host else "tcp"
    if settings.certificate is not None:
        kind = "tls"
    options = {"interface": settings.host}
    return Place("", kind, str(settings.port), options, behind_proxy=False)


class Listening:
    """
    The ports of one site.
    """

    def __init__(
        self,
        reactor: Any,
        places: Sequence[Place],
        certificate: CurrentCertificate | None = None,
    ) -> None:
        self._reactor = reactor
        self._places = places
        self._certificate = certificate
        self._ports: list[tuple[Place, Any]] = []

    async def open(self, factory: Any) -> None:
        """
        Listen everywhere; `close` also what a failure left open.

        Raises:
            ConfigErrors: an endpoint cannot be used as it is.
            CannotListenError: an address is taken or not ours.
        """
        for place in self._places:
            try:
                endpoint = self._endpoint(place)
            except (KeyError, IndexError):
                reason = "systemd handed over no such socket"
                raise _error(place, reason) from None
            except ValueError as error:
                raise _error(place, str(error)) from None
            port = await endpoint.listen(factory)
            self._ports.append((place, port))
            if place.needs_loopback and not _is_local(port.getHost()):
                raise _error(place, REFUSED)

    async def close(self) -> None:
        """
        Take no more connections.
        """
        while self._ports:
            _, port = self._ports.pop()
            await maybeDeferred(port.stopListening)

    def addresses(self) -> list[str]:
        """
        What to connect to, as text.
        """
        return [_told(place, port.getHost()) for place, port in self._ports]

    def _endpoint(self, place: Place) -> Any:
        endpoint = self._plain(place)
        if place.kind == "tls":
            if self._certificate is None:
                raise ValueError("tls: needs certificate and key in gateway.json")
            # pyOpenSSL is an extra of Twisted: only who uses TLS needs it.
            from twisted_aotx.tls import TLSEndpoint

            return TLSEndpoint(endpoint, self._certificate)
        return proxyEndpoint(endpoint) if place.behind_proxy else endpoint

    def _plain(self, place: Place) -> Any:
        options = place.options
        backlog = int(options.get("backlog", BACKLOG))
        if place.kind == "systemd":
            return serverFromString(self._reactor, place.text.removeprefix("haproxy:"))
        if place.kind == "unix":
            _remove_stale(place.where)
            mode = int(options["mode"], 8) if "mode" in options else UNIX_MODE
            return UNIXServerEndpoint(
                self._reactor, place.where, backlog=backlog, mode=mode
            )
        interface = options.get("interface", "::" if place.kind == "tcp6" else "")
        kind = TCP6ServerEndpoint if ":" in interface else TCP4ServerEndpoint
        return kind(
            self._reactor, int(place.where), backlog=backlog, interface=interface
        )


def _remove_stale(path: str) -> None:
    """
    Remove the socket of a process that is gone.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()
        except OSError:
            pass  # whatever it is, listening will tell


def _is_local(address: object) -> bool:
    """
    Whether only this machine reaches what listens at *address*.
    """
    if isinstance(address, IPv4Address | IPv6Address):
        return ip_address(address.host).is_loopback
    return isinstance(address, UNIXAddress)


def _told(place: Place, address: Any) -> str:
    scheme = "https" if place.kind == "tls" else "http"
    if isinstance(address, IPv4Address):
        told = f"{scheme}://{address.host}:{address.port}"
    elif isinstance(address, IPv6Address):
        told = f"{scheme}://[{address.host}]:{address.port}"
    else:
        told = f"unix:{place.where}"
    return f"{told} (PROXY header)" if place.behind_proxy else told


def _error(place: Place, reason: str) -> ConfigErrors:
    return ConfigErrors((ConfigError(f"{place.said_by} {place.text}".strip(), reason),))
