"""
What the three twistd commands share: options, process life, exit codes (`http.md` §10).

twistd by itself exits 143 on SIGTERM, dies on SIGHUP, and exits 0 after a start that
failed late (docs/dependencies.md). So a `Daemon` sets its own signal handlers once the
reactor runs, and ends a failed start with exit code 1.

Layer 5.
"""

# What Twisted leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn, TypeVar

import attrs
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, Logger
from twisted.python import usage
from twisted.python.components import Componentized
from twisted.python.failure import Failure

from twisted_aotx.errors import ConfigErrors
from twisted_aotx.logs import FORMATS, LEVELS, log_observer
from twisted_aotx.parts import EXPECTED, Part, reasons
from twisted_aotx.places import Place, parse
from twisted_aotx.reloads import Reloads

# In the class it would be named after the class.
_log = Logger("aotx")

Loaded = TypeVar("Loaded")

#: Parameters of the commands.
STATE: Final = ["state", "s", None, "the state directory, made by aotx init"]
GATEWAY: Final = ["gateway", "g", None, "another gateway.json"]
RUNTIME: Final = ["runtime", "r", None, "another runtime.json"]
LOG_LEVEL: Final = ["log-level", None, "info", f"log no less than: {', '.join(LEVELS)}"]
LOG_FORMAT: Final = ["log-format", None, "auto", "text, json; auto: text on a terminal"]
#: Seconds that a whole stop may take beyond those of the parts.
STOP_SECONDS: Final = 5.0


class Options(usage.Options):
    """
    Options that end the process with 2 when they make no sense.
    """

    optParameters: ClassVar[Sequence[Sequence[str | None]]] = ()

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse, or say what is wrong and exit with 2 (twistd itself would use 1)."""
        try:
            super().parseOptions(options)
        except usage.UsageError as error:
            sys.stderr.write(f"{error}\n{self.getUsage()}")
            raise SystemExit(2) from None

    def postOptions(self) -> None:
        """Judge what all commands have."""
        for name, choices in (("log-level", LEVELS), ("log-format", FORMATS)):
            if self[name] not in choices:
                raise usage.UsageError(f"--{name} is one of {', '.join(choices)}")

    def log_observer(self) -> ILogObserver | None:
        """What writes the log; None leaves it to twistd."""
        if self.parent is None:
            return None
        return log_observer(
            self.parent, level=self["log-level"], style=self["log-format"]
        )

    def path(self, name: str) -> Path | None:
        """The option *name* as an absolute path, if it was given."""
        text = self.get(name)
        return None if text is None else Path(text).absolute()

    def file(self, name: str) -> Path:
        """The option *name*, by default `NAME.json` in the state directory."""
        path, state = self.path(name), self.path("state")
        if path is None:
            assert state is not None, "need() asked for one of them"
            path = state / f"{name}.json"
        return path

    def need(self, *names: str) -> None:
        """One of *names* must have been given."""
        if all(self[name] is None for name in names):
            choices = " or ".join(f"--{name}" for name in names)
            raise usage.UsageError(f"{choices} is needed")


class ListenOptions(Options):
    """
    Options of what has a gateway.
    """

    def __init__(self) -> None:
        super().__init__()
        #: Of every `--listen`, in their order.
        self.places: list[Place] = []

    def opt_listen(self, text: str) -> None:
        """
        an endpoint to listen on instead of the file's host and port; may be repeated
        """
        try:
            self.places.append(parse(text))
        except ValueError as error:
            raise usage.UsageError(f"--listen {text}: {error}") from None


def load_or_exit(load: Callable[[Path], Loaded], path: Path) -> Loaded:
    """What *load* makes of *path*, or a line for every error and exit code 1."""
    try:
        return load(path)
    except ConfigErrors as errors:
        refuse(path, errors)


def refuse(path: Path, errors: ConfigErrors) -> NoReturn:
    """Say every error of the file *path*, a line each, and exit with 1."""
    for error in errors.errors:
        sys.stderr.write(f"{path}: {error}\n")
    raise SystemExit(1)


@attrs.define(eq=False, slots=False)
class Daemon(Service):
    """
    Starts parts in order once the reactor runs, and stops them in reverse.

    SIGTERM and SIGINT stop it in order, a second one ends it at once; both exit 0, or 1
    when something has failed. SIGHUP reloads it. A start that fails says why in a line;
    a stop that takes `STOP_SECONDS` longer than its parts may is given up with exit 1.
    """

    _reactor: Any
    _parts: Sequence[Part]
    #: What writes the process's log; None leaves it to twistd.
    _log: ILogObserver | None = attrs.field(kw_only=True, default=None)
    #: Called with the exit code when the process must end now; never returns.
    _exit: Callable[[int], object] = attrs.field(kw_only=True, default=os._exit)
    _begun: list[Part] = attrs.field(factory=list, init=False)
    _reloads: Reloads = attrs.field(init=False)
    _starting: Deferred[None] | None = attrs.field(default=None, init=False)
    _is_stopping: bool = attrs.field(default=False, init=False)
    #: Whether the exit code is 1, however it ends.
    _has_failed: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._reloads = Reloads(self._parts)

    def setServiceParent(self, parent: Any) -> None:
        """Called by twistd with its application before it begins to log."""
        if self._log is not None and isinstance(parent, Componentized):
            parent.setComponent(ILogObserver, self._log)
        super().setServiceParent(parent)

    def startService(self) -> None:
        """Called by twistd before the reactor runs: nothing is touched yet."""
        super().startService()
        self._reactor.callWhenRunning(self._run)

    def stopService(self) -> Deferred[None]:
        """Called by twistd while the reactor shuts down, which waits for the result."""
        super().stopService()
        self._is_stopping = True
        self._reloads.close()
        return Deferred.fromCoroutine(self._stop())

    def _run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)
        signal.signal(signal.SIGHUP, self._hung_up)
        self._starting = Deferred.fromCoroutine(self._start())
        self._starting.addCallbacks(self._started, self._start_failed)

    async def _start(self) -> None:
        for part in self._parts:
            if self._is_stopping:
                return
            self._begun.append(part)
            await part.start(self._died)

    def _started(self, _result: None) -> None:
        self._starting = None
        if not self._is_stopping:
            self._reloads.open()

    def _start_failed(self, failure: Failure) -> None:
        self._starting = None
        if self._is_stopping:
            return
        part = self._begun[-1].name
        error = failure.value
        for line in reasons(error):
            _log.critical("{part} cannot start: {line}", part=part, line=line)
        if not isinstance(error, EXPECTED):
            _log.failure("the start failed in an unexpected way", failure)
        self._fail()

    def _died(self, reason: str) -> None:
        if not self._is_stopping:
            _log.critical("cannot go on: {reason}", reason=reason)
            self._fail()

    def _fail(self) -> None:
        """Stop in order, then exit with 1."""
        self._exit_with_1()
        self._is_stopping = True
        self._reactor.stop()

    def _exit_with_1(self) -> None:
        self._has_failed = True
        self._reactor.addSystemEventTrigger("after", "shutdown", self._leave, 1)

    async def _stop(self) -> None:
        seconds = STOP_SECONDS + sum(part.stop_seconds for part in self._begun)
        watchdog = self._reactor.callLater(seconds, self._give_up, seconds)
        is_interrupted = self._starting is not None
        while self._begun:
            part = self._begun.pop()
            try:
                await part.stop()
            except Exception:
                _log.failure("{part} did not stop in order", part=part.name)
                self._exit_with_1()
        watchdog.cancel()
        if is_interrupted:
            # A compilation in a thread cannot be interrupted: neither wait for it, nor
            # let the start that waits for it go on.
            _log.info("stopped before the start was complete")
            self._leave(0)

    def _give_up(self, seconds: float) -> None:
        _log.critical("no stop in {seconds} s: giving up", seconds=seconds)
        self._leave(1)

    def _signalled(self, number: int, _frame: object) -> None:
        self._reactor.callFromThread(self._asked_to_stop, signal.Signals(number).name)

    def _asked_to_stop(self, name: str) -> None:
        if self._is_stopping:
            _log.warn("{name} again: leaving at once", name=name)
            self._leave(1 if self._has_failed else 0)
        else:
            _log.info("{name}: stopping", name=name)
            self._is_stopping = True
            self._reactor.stop()

    def _hung_up(self, _number: int, _frame: object) -> None:
        self._reactor.callFromThread(self._asked_to_reload)

    def _asked_to_reload(self) -> None:
        if not self._is_stopping:
            _log.info("SIGHUP: reloading")
            self._reloads.ask()

    def _leave(self, code: int) -> None:
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            if stream is not None:
                stream.flush()
        self._exit(code)
