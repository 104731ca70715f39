"""
Which settings a running gateway can change, and which only a new one (`http.md` §10).
"""

from __future__ import annotations

from typing import Final

import attrs

from twisted_aotx.gateway.settings import GatewaySettings

#: Where it listens and whom it asks: made once, at start.
_FIXED: Final = ("socket", "host", "port")
#: What has that many places from the start.
_FIXED_LIMITS: Final = ("connections", "wire_connections")


def replacement(
    old: GatewaySettings, new: GatewaySettings
) -> tuple[GatewaySettings, tuple[str, ...]]:
    """
    What a gateway with *old* takes of *new* without a restart.

    Returns:
        *new* with the values of *old* where only a restart can change them, and the
        keys of those that differ.
    """
    kept = {name: getattr(old, name) for name in _FIXED}
    if (old.certificate is None) != (new.certificate is None):
        # Whether a port speaks TLS is settled when it is opened.
        kept |= {name: getattr(old, name) for name in ("certificate", "key")}
    kept_limits = {name: getattr(old.limits, name) for name in _FIXED_LIMITS}
    differing = [name for name in kept if getattr(new, name) != kept[name]]
    differing += [
        f"limits.{name}"
        for name in _FIXED_LIMITS
        if getattr(new.limits, name) != kept_limits[name]
    ]
    limits = attrs.evolve(new.limits, **kept_limits)
    return attrs.evolve(new, limits=limits, **kept), tuple(differing)
