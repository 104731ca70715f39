"""
`twistd aotx-gateway`: one HTTP gateway beside a runtime. Thin: all is wired elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from twisted_aotx import tap
from twisted_aotx.config.gateway import load_gateway
from twisted_aotx.wiring_gateway import GatewayPart


class Options(tap.ListenOptions):
    """
    One of `--state` and `--gateway`.
    """

    optParameters: ClassVar[Sequence[Sequence[str | None]]] = [
        tap.STATE,
        tap.GATEWAY,
        tap.LOG_LEVEL,
        tap.LOG_FORMAT,
    ]

    def postOptions(self) -> None:
        """See `usage.Options`."""
        super().postOptions()
        self.need("state", "gateway")


def makeService(options: Options) -> tap.Daemon:
    """The gateway; its file has been read, nothing else was touched."""
    # The reactor is chosen by twistd's options, so it must not be imported earlier.
    from twisted.internet import reactor

    path = options.file("gateway")
    file = tap.load_or_exit(load_gateway, path)
    part = GatewayPart(reactor, file, partial(load_gateway, path), options.places)
    return tap.Daemon(reactor, [part], log=options.log_observer())
