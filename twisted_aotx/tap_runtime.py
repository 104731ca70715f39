"""
`twistd aotx-runtime`: device, engines, packet socket. Thin: all is wired elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from twisted_aotx import tap
from twisted_aotx.config.runtime import load_runtime
from twisted_aotx.wiring_runtime import RuntimePart


class Options(tap.Options):
    """
    One of `--state` and `--runtime`.
    """

    optParameters: ClassVar[Sequence[Sequence[str | None]]] = [
        tap.STATE,
        tap.RUNTIME,
        tap.LOG_LEVEL,
        tap.LOG_FORMAT,
    ]

    def postOptions(self) -> None:
        """See `usage.Options`."""
        super().postOptions()
        self.need("state", "runtime")


def makeService(options: Options) -> tap.Daemon:
    """The runtime; its file has been read, nothing else was touched."""
    # The reactor is chosen by twistd's options, so it must not be imported earlier.
    from twisted.internet import reactor

    load = partial(load_runtime, state=options.path("state"))
    settings = tap.load_or_exit(load, options.file("runtime"))
    return tap.Daemon(
        reactor, [RuntimePart(reactor, settings)], log=options.log_observer()
    )
