"""
`twistd aotx`: runtime and gateway in one process. Thin: all is wired elsewhere.

The two talk through the packet socket like two processes would.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from twisted.python import usage

from twisted_aotx import tap
from twisted_aotx.config.gateway import load_gateway
from twisted_aotx.config.runtime import load_runtime
from twisted_aotx.errors import ConfigError, ConfigErrors
from twisted_aotx.parts import Part
from twisted_aotx.wiring_gateway import GatewayPart
from twisted_aotx.wiring_runtime import RuntimePart


class Options(tap.ListenOptions):
    """
    `--state`, or both files.
    """

    optParameters: ClassVar[Sequence[Sequence[str | None]]] = [
        tap.STATE,
        tap.GATEWAY,
        tap.RUNTIME,
        tap.LOG_LEVEL,
        tap.LOG_FORMAT,
    ]

    def postOptions(self) -> None:
        """See `usage.Options`."""
        super().postOptions()
        has_both = self["gateway"] is not None and self["runtime"] is not None
        if self["state"] is None and not has_both:
            raise usage.UsageError("--state, or --gateway and --runtime, are needed")


def makeService(options: Options) -> tap.Daemon:
    """Both parts; their files have been read, nothing else was touched."""
    # The reactor is chosen by twistd's options, so it must not be imported earlier.
    from twisted.internet import reactor

    path = options.file("gateway")
    file = tap.load_or_exit(load_gateway, path)
    load = partial(load_runtime, state=options.path("state"))
    runtime = tap.load_or_exit(load, options.file("runtime"))
    if Path(file.settings.socket).resolve() != runtime.socket.resolve():
        reason = f"is not the runtime's socket, {runtime.socket}"
        tap.refuse(path, ConfigErrors((ConfigError("socket", reason),)))
    first = RuntimePart(reactor, runtime)
    parts: Sequence[Part] = (
        first,
        GatewayPart(
            reactor,
            file,
            partial(load_gateway, path),
            options.places,
            collectors=(first.collector,),
        ),
    )
    return tap.Daemon(reactor, parts, log=options.log_observer())
