"""
Gateways for programs of others: `serve` and `gateway` as in tests/gateway.
"""

from __future__ import annotations

from tests.gateway.conftest import gateway, serve, servings

__all__ = ["gateway", "serve", "servings"]
