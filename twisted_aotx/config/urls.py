"""
The `urls` object of `gateway.json`: public, private origins, networks (`http.md` §9).
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Final

from twisted_aotx.config.section import Section, kind_of, shown
from twisted_aotx.gateway.settings import PrivateOrigin, URLRules

#: A host name is at most this long, without the trailing dot (RFC 1035 §2.3.4).
HOST_CHARACTERS_MAX: Final = 253

_ORIGIN = re.compile(r"https://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::([1-9][0-9]{0,4}))?")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def read_urls(top: Section, folder: Path) -> URLRules:
    """
    What imports may reach; faults are noted in *top*.
    """
    part = top.section("urls", ("public", "private", "ca_file"))
    private: list[PrivateOrigin] = []
    for path, item in part.items("private", required=False):
        entry = Section.of(top.faults, path, item)
        entry.only(("origin", "networks"))
        origin = entry.text("origin")
        if isinstance(entry.value.get("origin"), str) and not is_canonical_origin(
            origin
        ):
            entry.fail(
                "origin", "must be canonical: https://host[:port], port 443 omitted"
            )
        private.append(PrivateOrigin(origin=origin, networks=_networks(entry)))
    return URLRules(
        public=part.boolean("public", default=True),
        private=tuple(private),
        ca_file=part.file("ca_file", folder),
    )


def _networks(entry: Section) -> tuple[str, ...]:
    items = entry.items("networks")
    if not items and entry.value.get("networks") == []:
        entry.fail("networks", "must name one network or more")
    networks: list[str] = []
    for path, item in items:
        if not isinstance(item, str):
            entry.faults.note(path, f"must be a string, not {kind_of(item)}")
        elif (reason := network_reason(item)) is not None:
            entry.faults.note(path, f"{shown(item)} {reason}")
        else:
            networks.append(item)
    return tuple(networks)


def is_canonical_origin(text: str) -> bool:
    """
    Whether *text* is `https://host[:port]` in the one form that compares equal.

    The host is a lowercase name, a dotted IPv4 address or a compressed IPv6 address in
    brackets; port 443 is left out.
    """
    match = _ORIGIN.fullmatch(text)
    if match is None:
        return False
    host, port = match.groups()
    if port is not None and (int(port) > 65535 or int(port) == 443):
        return False
    return _is_canonical_host(host)


def network_reason(text: str) -> str | None:
    """
    Why *text* is no strict CIDR; None when it is one.
    """
    if "/" not in text:
        return "needs a prefix length, like 10.0.0.0/8"
    try:
        ipaddress.ip_network(text, strict=True)
    except ValueError:
        return "is no network address with its prefix length; host bits must be zero"
    return None


def _is_canonical_host(host: str) -> bool:
    if host.startswith("["):
        try:
            return str(ipaddress.IPv6Address(host[1:-1])) == host[1:-1]
        except ValueError:
            return False
    labels = host.split(".")
    if labels[-1].isdigit():
        try:
            return str(ipaddress.IPv4Address(host)) == host
        except ValueError:
            return False
    return len(host) <= HOST_CHARACTERS_MAX and all(map(_LABEL.fullmatch, labels))
