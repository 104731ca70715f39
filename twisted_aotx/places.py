"""
Endpoint strings, taken apart and judged without listening (`listening`, `http.md` §1).

Layer 5.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

import attrs

_KINDS: Final = ("tcp", "tcp6", "tls", "unix", "haproxy", "systemd")
#: What may stand in `haproxy:`; its header comes before TLS would begin.
_BEHIND_PROXY: Final = ("tcp", "tcp6", "unix", "systemd")
_KEYS: Final = {
    "tcp": {"interface", "backlog"},
    "tcp6": {"interface", "backlog"},
    "tls": {"interface", "backlog"},
    "unix": {"mode", "backlog"},
    "systemd": {"domain", "index"},
}


@attrs.frozen
class Place:
    """
    One endpoint string, taken apart.
    """

    text: str
    #: One of `_KINDS`, `haproxy` never.
    kind: str
    #: Port or path; empty for `systemd`.
    where: str
    options: dict[str, str]
    behind_proxy: bool
    #: What a fault of it is told with: an option, or a key path.
    said_by: str = "--listen"

    @property
    def needs_loopback(self) -> bool:
        """
        Whether only this machine may reach it (rule 1).
        """
        return self.kind not in ("tls", "unix") and not self.behind_proxy


def parse(text: str) -> Place:
    """
    Take an endpoint string apart and judge what can be judged without listening.

    Raises:
        ValueError: what is wrong with it, for people.
    """
    behind_proxy = text.startswith("haproxy:")
    kind, *rest = _split(text.removeprefix("haproxy:"))
    if kind not in (_BEHIND_PROXY if behind_proxy else _KINDS) or kind == "haproxy":
        kinds = ", ".join(f"{name}:" for name in _KINDS)
        raise ValueError(f"must begin with one of {kinds}")
    where = "" if kind == "systemd" else rest.pop(0) if rest else ""
    options = {}
    for argument in rest:
        key, equals, value = argument.partition("=")
        if not equals or key not in _KEYS[kind]:
            raise ValueError(f"{kind}: takes no {argument!r}")
        options[key] = value
    for key, base in (("backlog", 10), ("mode", 8)):
        _number(options.get(key, "0"), key, base)
    if kind == "unix":
        if not where:
            raise ValueError("unix: needs a path")
    elif kind != "systemd" and not 0 <= _number(where, "the port", 10) <= 65535:
        raise ValueError("a port is 0 .. 65535")
    place = Place(text, kind, where, options, behind_proxy)
    if place.needs_loopback and kind != "systemd" and not _is_loopback(place):
        raise ValueError(REFUSED)
    return place


REFUSED: Final = (
    "others than this machine could reach it without TLS: use tls:, or haproxy: or "
    "unix: behind a server that has it, or interface=127.0.0.1"
)


def _split(text: str) -> list[str]:
    """
    The parts between colons; a backslash takes a colon's or backslash's meaning.
    """
    parts = re.findall(r"((?:[^:\\]|\\.)*)(?::|$)", text + ":")[:-1]
    return [re.sub(r"\\(.)", r"\1", part) for part in parts]


def _number(text: str, what: str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError:
        raise ValueError(f"{what} is no number: {text!r}") from None


def _is_loopback(place: Place) -> bool:
    interface = place.options.get("interface", "")
    if interface == "localhost":
        return True
    try:
        return ip_address(interface).is_loopback
    except ValueError:
        return False
