"""
What a URL to import from may look like (`http.md` §8). Layer 4, sans-IO.

One reading of a URL, and everything that another reader could take in another way is
refused: the host that is judged is the host that is reached.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from typing import Final, TypeAlias
from urllib.parse import quote

import attrs

from twisted_aotx.errors import Problem
from twisted_aotx.gateway.problems import invalid_field

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

URL_CHARACTERS_MAX: Final = 8192
#: A host name is at most this long (RFC 1035 §2.3.4).
HOST_CHARACTERS_MAX: Final = 253
HTTPS_PORT: Final = 443

#: Scheme, authority, and the rest from its `/` or `?` on.
_URL: Final = re.compile(r"https://([^/?]*)(.*)", re.IGNORECASE | re.DOTALL)
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([1-9][0-9]{0,4}))?")
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
#: A last label that some readers take for a number, and the host for an IPv4 address.
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
#: What stays as it is in the target of a request: all of ASCII that can be seen.
_VISIBLE: Final = "".join(map(chr, range(0x21, 0x7F)))


@attrs.frozen
class ImportURL:
    """
    A URL that was taken.
    """

    #: A lowercase name, or the text of an address without brackets.
    host: str
    port: int
    #: What the host says when it is an address; None for a name.
    address: Address | None
    #: Path and query for the request line.
    target: bytes = attrs.field(repr=False)

    @property
    def authority(self) -> str:
        """
        Host and port, the default port omitted.
        """
        ipv6 = isinstance(self.address, ipaddress.IPv6Address)
        host = f"[{self.host}]" if ipv6 else self.host
        return host if self.port == HTTPS_PORT else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """
        The form in which `urls.private` names it.
        """
        return f"https://{self.authority}"


def parse_url(text: object) -> ImportURL:
    """
    Read the URL *text*.

    Raises:
        Problem: 400 param `url`.
    """
    if not isinstance(text, str) or not 1 <= len(text) <= URL_CHARACTERS_MAX:
        raise _wrong(f"url is a string of 1 to {URL_CHARACTERS_MAX} characters")
    if any(unicodedata.category(c) == "Cc" or c in " #" for c in text):
        raise _wrong("url has no control character, space or fragment")
    match = _URL.fullmatch(text)
    if match is None:
        raise _wrong("url begins with https://")
    authority, rest = match.groups()
    if "@" in authority:
        raise _wrong("url names no user")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None or (parts[2] is not None and int(parts[2]) > 65535):
        raise _wrong("url has a host and, if need be, a port from 1 to 65535")
    host, address = _host(parts[1])
    target = rest if rest.startswith("/") else "/" + rest
    return ImportURL(
        host=host,
        port=int(parts[2] or HTTPS_PORT),
        address=address,
        target=quote(target, safe=_VISIBLE).encode("ascii"),
    )


def _host(text: str) -> tuple[str, Address | None]:
    if text.startswith("["):
        return text[1:-1], _ipv6(text[1:-1])
    host = text.lower()
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            address = ipaddress.IPv4Address(host)
        except ValueError:
            raise _wrong("an IPv4 address has four decimal numbers") from None
        return host, address
    if len(host) > HOST_CHARACTERS_MAX or not all(map(_LABEL.fullmatch, labels)):
        raise _wrong("the host is a name in ASCII without a dot at its end")
    return host, None


def _ipv6(text: str) -> ipaddress.IPv6Address:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        raise _wrong("the host in brackets is no IPv6 address") from None
    spellings = {str(address), address.compressed}
    if address.ipv4_mapped is not None:
        # Both ways to write one are in use (RFC 5952 §5); Python's changed in 3.13.
        number = int(address.ipv4_mapped)
        spellings |= {
            f"::ffff:{number >> 16:x}:{number & 0xFFFF:x}",
            f"::ffff:{address.ipv4_mapped}",
        }
    if text not in spellings or address.scope_id is not None:
        raise _wrong("an IPv6 address is in its shortest form, lower case, no zone")
    return address


def _wrong(reason: str) -> Problem:
    return invalid_field("url", f"The URL is refused: {reason}.")
