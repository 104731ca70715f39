"""
What is noted of every HTTP request that ended: counts, a line, a warning.

Rules (`http.md` §1, D21):

1. `metrics` counts every request, those of the parser's refusals included.
2. Lines are written only to `http.access_log`: one JSON object each, without query,
   token, header or body; the path only where it is one of ours.
3. A request without a valid token is warned about with the address of its sender; at
   most `WARNINGS_MAX` times in `WARNINGS_SECONDS`, the others are only counted.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

import json
import os
from typing import IO, TYPE_CHECKING, Any, Final

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.logger import Logger

from twisted_aotx.gateway.metrics import OTHER, Served

if TYPE_CHECKING:
    from twisted.internet.interfaces import IAddress

    from twisted_aotx.errors import Problem
    from twisted_aotx.gateway.resource import Gateway
    from twisted_aotx.gateway.txrequest import GatewayRequest

# In the class it would be named after the class.
_log = Logger("aotx.gateway")

WARNINGS_MAX: Final = 10
WARNINGS_SECONDS: Final = 60.0
#: What a client that left before its answer began is counted as.
LEFT_STATUS: Final = 499
LEFT_CODE: Final = "client_left"


class Journal:
    """
    The notes of one site.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._file: IO[str] | None = None
        self._window_ends = 0.0
        self._warnings = 0

    def open(self, path: str | None) -> None:
        """
        Write lines to the file *path*, from its end on, and to no other; for a start, a
        reload and after a rotation. None writes none.

        Raises:
            OSError: it cannot be written to; the one before stays.
        """
        if path is None:
            self.close()
            return
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.close()
        self._file = os.fdopen(descriptor, "a", buffering=1, encoding="utf-8")

    def close(self) -> None:
        """
        Write no more lines.
        """
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def ended(self, txrequest: GatewayRequest, *, left: bool = False) -> None:
        """
        *txrequest* was answered, or its client *left* before.
        """
        route = txrequest.route
        status, code = txrequest.code, txrequest.error_code
        began = txrequest.began
        assert began is not None, "its header was complete"
        if left:
            status = status if txrequest.startedWriting else LEFT_STATUS
            code = code or LEFT_CODE
        served = Served(
            method=OTHER if route is None else route.method,
            route=OTHER if route is None else route.label,
            status=status,
            code=code,
            seconds=max(self._gateway.reactor.seconds() - began, 0.0),
            streamed=txrequest.streamed,
            body_bytes=txrequest.body_bytes,
            sent_bytes=txrequest.sentLength,
        )
        self._gateway.metrics.served(served)
        if status == 401 or self._file is not None:
            peer = address(txrequest.channel.getPeer())
            if status == 401:
                self._warn(peer)
            if self._file is not None:
                self._write(served, peer, txrequest)

    def refused(self, problem: Problem, peer: IAddress) -> None:
        """
        The parser refused what *peer* sent: there is no request to speak of.
        """
        served = Served(
            method=OTHER,
            route=OTHER,
            status=problem.status,
            code=problem.code,
            seconds=0.0,
            streamed=False,
            body_bytes=0,
            sent_bytes=0,
        )
        self._gateway.metrics.served(served)
        if self._file is not None:
            self._write(served, address(peer), None)

    def _warn(self, peer: str) -> None:
        now = self._gateway.reactor.seconds()
        if now >= self._window_ends:
            hidden = self._warnings - WARNINGS_MAX
            self._window_ends = now + WARNINGS_SECONDS
            self._warnings = 0
            if hidden > 0:
                _log.warn("{hidden} more requests without a valid token", hidden=hidden)
        self._warnings += 1
        if self._warnings <= WARNINGS_MAX:
            _log.warn(
                "no valid token from {peer}, principal {principal}",
                peer=peer,
                principal="none",
            )

    def _write(
        self, served: Served, peer: str, txrequest: GatewayRequest | None
    ) -> None:
        line: dict[str, Any] = {
            "time": round(self._gateway.wall_seconds(), 3),
            "peer": peer,
            "principal": "none",
            "method": served.method,
            "path": served.route,
            "status": served.status,
            "code": served.code,
            "seconds": round(served.seconds, 4),
            "body_bytes": served.body_bytes,
            "sent_bytes": served.sent_bytes,
        }
        if txrequest is not None:
            if txrequest.principal is not None:
                line["principal"] = txrequest.principal.hex()
            if txrequest.route is not None:
                line["method"] = txrequest.method.decode("ascii")
                line["path"] = txrequest.path.decode("latin-1")
            names = txrequest.responseHeaders.getRawHeaders(b"X-Request-ID", [])
            line["request_id"] = names[0].decode("ascii") if names else None
        assert self._file is not None, "open() comes first"
        try:
            self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
        except OSError as error:
            _log.error("the access log ends: {reason}", reason=error.strerror)
            self._file = None


def address(peer: object) -> str:
    """
    Where a connection comes from, as text.
    """
    if isinstance(peer, IPv4Address):
        return f"{peer.host}:{peer.port}"
    if isinstance(peer, IPv6Address):
        return f"[{peer.host}]:{peer.port}"
    return "unix"
