"""
Which addresses an import may reach (`http.md` §8). Layer 4, sans-IO.

All addresses of a host are judged before any is connected to; one that is not allowed
refuses the import. An IPv4 address mapped into IPv6 is judged, and reached, as IPv4.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from twisted_aotx.gateway.imports_urls import HTTPS_PORT, Address, ImportURL
from twisted_aotx.gateway.problems import ProblemCode, refusal
from twisted_aotx.gateway.settings import URLRules

NOT_PUBLIC_IPV4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8"),
            *("169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24"),
            *("192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
            *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)
PUBLIC_IPV6: Final = ipaddress.IPv6Network("2000::/3")
NOT_PUBLIC_IPV6: Final = tuple(
    map(
        ipaddress.IPv6Network,
        ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)


def permitted(
    url: ImportURL, addresses: Iterable[Address], rules: URLRules
) -> tuple[Address, ...]:
    """
    The *addresses* of the host of *url*, each once, as they are to be reached.

    Raises:
        Problem: 403 `source_address`: *rules* forbid one of them.
    """
    judged = tuple(dict.fromkeys(map(plain, addresses)))
    networks = [
        ipaddress.ip_network(network)
        for private in rules.private
        if private.origin == url.origin
        for network in private.networks
    ]
    public = rules.public and url.port == HTTPS_PORT
    for address in judged:
        private = any(address in network for network in networks)
        if not private and not (public and is_public(address)):
            raise refusal(ProblemCode.SOURCE_ADDRESS)
    return judged


def plain(address: Address) -> Address:
    """
    *address*, or the IPv4 address that is mapped into it.
    """
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_public(address: Address) -> bool:
    """
    Whether *address*, a `plain` one, is of the public internet.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in NOT_PUBLIC_IPV4)
    return (
        address.scope_id is None
        and address in PUBLIC_IPV6
        and not any(address in network for network in NOT_PUBLIC_IPV6)
    )
