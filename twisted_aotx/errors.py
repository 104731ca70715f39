"""
The exceptions of the project, all with fields; `str()` makes the sentence.

Layer 0. Nothing here puts a token, a prompt, a payload or a packet into its text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from twisted_aotx.wire.packet import ReplyHeader


class AOTXError(Exception):
    """
    Superclass of every exception of the project. Never raised directly.
    """


@attrs.define(slots=False)
class WireError(AOTXError):
    """
    Bytes or values break the wire format. Never raised directly.
    """

    #: Name of the record class.
    record: str
    #: Name of the field; `length` and `reserved` are no fields.
    field: str
    #: Bytes from the start of what was packed or unpacked.
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.record}.{self.field} at byte {self.offset}: {self.reason}"


class LocalWireError(WireError):
    """
    We tried to build something that the wire format does not allow.
    """


class RemoteWireError(WireError):
    """
    A peer sent something that the wire format does not allow.
    """


@attrs.define(slots=False)
class DeviceRefused(AOTXError):
    """
    The device answered with a status of 400 or more.
    """

    #: `wire.numbers.Operation`.
    operation: int
    #: `wire.numbers.Status`, 400..599.
    status: int
    #: What came with the refusal: 64 bytes of media metadata, or nothing.
    payload: bytes = attrs.field(default=b"", repr=False)
    reply: ReplyHeader | None = attrs.field(default=None, repr=False)

    def __str__(self) -> str:
        return f"operation {self.operation} was refused with status {self.status}"


@attrs.define(slots=False)
class ExchangeFailed(AOTXError):
    """
    No reply came. Never raised directly. The request may or may not have been done.
    """

    reason: str = ""

    def __str__(self) -> str:
        return self.reason or type(self).__name__


class PoolFull(ExchangeFailed):
    """
    Every connection to the device is taken; nothing was sent.
    """


class ConnectFailed(ExchangeFailed):
    """
    The device's socket refused, is missing, or closed before it replied.
    """


class ExchangeTimeout(ExchangeFailed):
    """
    The device did not reply in time; the exchange is abandoned.
    """


class ServiceClosed(ExchangeFailed):
    """
    This process is shutting down; nothing was sent.
    """


@attrs.define(slots=False)
class InvalidReply(AOTXError):
    """
    The device's reply is not one to what was asked (`wire.md` §3).
    """

    reason: str

    def __str__(self) -> str:
        return f"invalid device response: {self.reason}"


@attrs.define(slots=False)
class Problem(AOTXError):
    """
    What an HTTP answer will say instead of a result (`http.md` §2).
    """

    #: HTTP status, 400..599.
    status: int
    code: str
    param: str | None = None
    message: str = ""
    #: (name, value) of headers that this answer adds.
    headers: tuple[tuple[str, str], ...] = ()
    #: Whether the same request may succeed later although it was not its time.
    may_pass: bool = False

    def __str__(self) -> str:
        return f"{self.status} {self.code}"


@attrs.define(slots=False)
class ConfigError(AOTXError):
    """
    One value of a configuration cannot be used.
    """

    #: Where, like `principals[3].tokens`; empty for the file as a whole.
    path: str
    reason: str

    def __str__(self) -> str:
        # On one line, whatever the file's keys and paths hold (`http.md` §10).
        text = f"{self.path}: {self.reason}" if self.path else self.reason
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


@attrs.define(slots=False)
class ConfigErrors(AOTXError):
    """
    Everything that is wrong with a configuration, in the order found.
    """

    errors: tuple[ConfigError, ...]

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


class EngineError(AOTXError):
    """
    An engine cannot be made or cannot serve.
    """


@attrs.define(slots=False)
class UnknownEngine(EngineError):
    """
    No plugin makes an engine of this name.
    """

    name: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        known = ", ".join(self.known) or "none"
        return f"there is no engine {self.name!r}; known engines: {known}"


@attrs.define(slots=False)
class ChannelBusy(AOTXError):
    """
    A mailbox is not in the state that was asked for; nothing was changed.
    """

    channel: int

    def __str__(self) -> str:
        return f"channel {self.channel} is busy"


@attrs.define(slots=False)
class SourceGone(AOTXError):
    """
    A media source was removed before its bytes were read.
    """

    index: int

    def __str__(self) -> str:
        return f"the source of descriptor {self.index} is gone"
