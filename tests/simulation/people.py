"""
Who calls: principals, their tokens and grants, and the gateway's settings for them.
"""

from __future__ import annotations

import hashlib
from typing import Final

import attrs

from tests.simulation.runtime import SOCKET_PATH
from twisted_aotx.gateway.settings import (
    GatewaySettings,
    Limits,
    ModelAlias,
    Principal,
)
from twisted_aotx.wire.grants import GrantRow
from twisted_aotx.wire.numbers import Action, Role

ACTIONS: Final = Action.INFER | Action.UPLOAD | Action.TELEMETRY | Action.POLICY_MANAGE
#: Model aliases: the engine that is simulated, and the one in the kernels.
ODD: Final = "odd"
FIXED: Final = "fixed"
LIMITS: Final = Limits(
    connections=14,
    body_readers=2,
    json_bytes=1 << 16,
    upload_bytes=1 << 18,
    body_credit=1 << 19,
    work=10,
    write_seconds=4,
    body_seconds=6,
    header_seconds=4,
    operation_seconds=25,
    event_bytes=2048,
    wire_connections=4,
)


@attrs.frozen
class Person:
    """
    One principal.
    """

    id: bytes
    token: str
    requests: int

    def as_principal(self) -> Principal:
        """In the gateway's file."""
        return Principal(
            id=self.id,
            token_sha256=(hashlib.sha256(self.token.encode()).digest(),),
            models=(ODD, FIXED),
            actions=ACTIONS,
            tokens=200,
            requests=self.requests,
            media=5,
            media_bytes=1 << 18,
        )

    def as_grant(self, revision: int) -> GrantRow:
        """In the grant table."""
        return GrantRow(
            principal=self.id,
            revision=revision,
            actions=ACTIONS,
            models=1 << Role.LANGUAGE | 1 << Role.LANGUAGE_Q4,
            pages=0,
            tokens=200,
            requests=self.requests,
            media=5,
            media_bytes=1 << 18,
        )


PEOPLE: Final = tuple(
    Person(bytes(15) + bytes([number]), letter * 40, requests)
    for number, letter, requests in ((1, "a", 6), (2, "b", 4), (3, "c", 2))
)


def settings(revision: int, disconnect: str) -> GatewaySettings:
    """A gateway's file under a revision."""
    return GatewaySettings(
        socket=SOCKET_PATH,
        revision=revision,
        models=(
            ModelAlias(alias=ODD, role=Role.LANGUAGE, published_at=1),
            ModelAlias(alias=FIXED, role=Role.LANGUAGE_Q4, published_at=2),
        ),
        principals=tuple(person.as_principal() for person in PEOPLE),
        limits=LIMITS,
        disconnect="cancel" if disconnect == "cancel" else "detach",
        idle_seconds=8,
        ping_seconds=2,
    )
