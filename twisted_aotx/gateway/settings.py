"""
What an operator may set, as records (`http.md` §9).

`config` fills them from the file and checks every rule; nothing here reads or checks.
Layer 4: imported by the gateway's modules and by `config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class Limits:
    """
    The `limits` object (`http.md` §3): integers 1 .. 2^31 − 1, `event_bytes` ≥ 1024.

    The names are the keys of the file and of the capabilities answer.
    """

    #: Open HTTP connections; also bodies alive at once and readers waiting at once.
    connections: int = 128
    #: Bodies being read at once.
    body_readers: int = 8
    #: Bytes of one JSON body.
    json_bytes: int = 8 << 20
    #: Bytes of one media source.
    upload_bytes: int = 32 << 20
    #: Bytes of all bodies alive at once.
    body_credit: int = 64 << 20
    #: Completions, submissions, uploads, imports and event streams at once.
    work: int = 64
    #: Imports at once; one per principal.
    fetches: int = 4
    #: Seconds that one write may wait for the client.
    write_seconds: int = 10
    #: Seconds for one whole body.
    body_seconds: int = 60
    #: Seconds for one whole header.
    header_seconds: int = 10
    #: Seconds of a completion, of a stream's life, of preparing one media source.
    operation_seconds: int = 300
    #: Bytes of one server-sent event.
    event_bytes: int = 65536
    #: Pooled connections to the runtime.
    wire_connections: int = 64


@attrs.frozen(kw_only=True)
class ModelAlias:
    """
    One entry of `models`: the name that callers use for a role.
    """

    alias: str
    #: 2, 3 or 4 (`wire.numbers.Role`).
    role: int
    #: Seconds since 1970, 0 .. 2^53 − 1.
    published_at: int


@attrs.frozen(kw_only=True)
class Principal:
    """
    Who calls: one entry of `principals`.
    """

    #: 16 bytes, nonzero.
    id: bytes
    #: 1..4 digests of 32 bytes; unique in the file.
    token_sha256: tuple[bytes, ...] = attrs.field(repr=False)
    #: Aliases of `GatewaySettings.models`.
    models: tuple[str, ...] = ()
    #: Bits of `wire.numbers.Action`; nonzero.
    actions: int
    #: Pages of 16 tokens; 0 is the role's whole context [D8].
    pages: int = 0
    #: Output tokens of one request.
    tokens: int = 256
    #: Active requests at once.
    requests: int = 2
    #: Media sources owned at once.
    media: int = 16
    #: Bytes of all media sources owned at once.
    media_bytes: int = 32 << 20


@attrs.frozen(kw_only=True)
class PrivateOrigin:
    """
    An origin that imports may reach although it is not public, with its networks.
    """

    #: Canonical `https://host[:port]`, the default port omitted.
    origin: str
    #: CIDRs; at least one.
    networks: tuple[str, ...]


@attrs.frozen(kw_only=True)
class URLRules:
    """
    The `urls` object: what imports may reach (`http.md` §8).
    """

    public: bool = True
    private: tuple[PrivateOrigin, ...] = ()
    #: A PEM file beside the system's authorities.
    ca_file: str | None = None


@attrs.frozen(kw_only=True)
class GatewaySettings:
    """
    One gateway file, whole.
    """

    #: Path of the runtime's packet socket.
    socket: str
    #: The grant revision, 1 .. 2^64 − 1.
    revision: int
    #: In the order of the file, which is the order of every list of models.
    models: tuple[ModelAlias, ...]
    principals: tuple[Principal, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8081
    #: PEM files; both or neither.
    certificate: str | None = None
    key: str | None = None
    #: Allowed values of the Origin header, compared byte by byte.
    origins: tuple[str, ...] = ()
    limits: Limits = attrs.Factory(Limits)
    urls: URLRules = attrs.Factory(URLRules)
    #: `completions.disconnect`: what becomes of a completion whose client went [D20].
    disconnect: Literal["detach", "cancel"] = "detach"
    #: `http.idle_seconds`: how long an unused connection is kept [D14].
    idle_seconds: int = 75
    #: `http.ping_seconds`: silence before a keep-alive line; 0 is off [D23].
    ping_seconds: int = 15
    #: `http.access_log`: a path; None writes none.
    access_log: str | None = None
    #: `metrics.labels`: principal id to the label that its series carry.
    metric_labels: Mapping[bytes, str] = attrs.field(factory=dict)
