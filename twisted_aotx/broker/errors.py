"""
Why the broker cannot start, or keeps the grants that it has.
"""

from __future__ import annotations

import attrs

from twisted_aotx.errors import AOTXError


class BrokerError(AOTXError):
    """
    The broker cannot start or reload. Never raised directly.
    """


@attrs.define(slots=False)
class GrantsFileError(BrokerError):
    """
    The grants file breaks a rule of `device.md` §16.
    """

    path: str
    reason: str

    def __str__(self) -> str:
        return f"grants file {self.path}: {self.reason}"


@attrs.define(slots=False)
class GrantsRefused(BrokerError):
    """
    The device did not accept the grant table.
    """

    path: str
    #: The device's status; None: no reply in time.
    status: int | None
    #: SHA-256 of the table, if it was handed to the device.
    digest: bytes | None = None

    def __str__(self) -> str:
        if self.status is None:
            return f"grants file {self.path}: no reply from the device in time"
        return f"grants file {self.path}: the device refused it, status {self.status}"


@attrs.define(slots=False)
class SocketUnavailable(BrokerError):
    """
    The socket's path cannot be listened at.
    """

    path: str
    reason: str

    def __str__(self) -> str:
        return f"socket {self.path}: {self.reason}"
