"""
The runtime's side of one child process, from its start to its end.

Theory of operation. `connectionMade` sends `Load`; the child answers `Ready` once.
While its owner has work, it is pinged: a child that is alive but does not answer, or
whose step never ends, is killed. Whatever ends it is told to the owner twice:
`child_lost` with a reason as soon as it is known, `child_ended` when the process is
gone and its memory with it.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from typing import Any, Final, Protocol

import attrs
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from twisted_aotx.engines.llama.frames import FrameReader
from twisted_aotx.engines.llama.messages import (
    Broken,
    FrameError,
    Load,
    Message,
    Ping,
    Pong,
    Ready,
)

#: Bytes of the child's standard error that are kept, from its end.
ERROR_BYTES: Final = 4096
#: Characters of its last line that a reason holds.
LINE_LENGTH_MAX: Final = 300


@attrs.frozen(kw_only=True)
class Patience:
    """
    How long a child may take. Silence is counted in pings, so that a clock that is set
    forward kills nobody.
    """

    #: To load its model.
    start_seconds: float = 600.0
    #: Between two pings.
    ping_seconds: float = 2.0
    #: Pings without an answer: it is stopped, or dead in some other way.
    silent_pings: int = 5
    #: Pings in one and the same step; a step of 64 rows takes seconds at most.
    step_pings: int = 60
    #: To end when its input has ended.
    close_seconds: float = 2.0


class Owner(Protocol):
    """
    Who keeps a child.
    """

    @property
    def is_busy(self) -> bool:
        """Whether the child has work."""

    def child_ready(self, child: ChildProcess, ready: Ready) -> None:
        """Its model is loaded."""

    def child_said(self, child: ChildProcess, message: Message) -> None:
        """A message about a lease."""

    def child_lost(self, child: ChildProcess, reason: str) -> None:
        """It serves no more; *reason* is a sentence for the log. Called once."""

    def child_ended(self, child: ChildProcess) -> None:
        """Its process is gone. Called once, last."""


class ChildProcess(ProcessProtocol):
    """
    A protocol for `spawnProcess`.
    """

    def __init__(
        self, clock: IReactorTime, owner: Owner, load: Load, patience: Patience
    ) -> None:
        self._clock = clock
        self._owner = owner
        self._load = load
        self._patience = patience
        self._reader = FrameReader()
        self._errors = b""
        self._is_lost = False
        self._is_closing = False
        #: The next thing that patience ends with.
        self._deadline: IDelayedCall | None = None
        self._pings = 0
        #: Pings since the last answer, and since the last one that showed progress.
        self._silent = 0
        self._still = 0
        self._progress = -1

    def send(self, message: Message) -> None:
        """Hand *message* to the child, unless it is lost."""
        if not self._is_lost:
            self._transport.write(message.pack())

    def watch(self) -> None:
        """There is work: see that the child goes on with it, until there is none."""
        if self._deadline is None and not self._is_lost:
            self._silent = self._still = 0
            self._later(self._patience.ping_seconds, self._look)

    def close(self) -> None:
        """End it; `child_ended` tells when that is done, `child_lost` is not called."""
        self._is_closing = self._is_lost = True
        self._transport.closeStdin()
        self._later(self._patience.close_seconds, self._kill)

    def fail(self, reason: str) -> None:
        """It cannot go on: kill it, and say so."""
        self._lose(reason)
        self._kill()

    # --- of the process ---------------------------------------------------------

    def connectionMade(self) -> None:
        """It was started."""
        seconds = self._patience.start_seconds
        self._later(seconds, lambda: self.fail(f"it did not load within {seconds:g} s"))
        self.send(self._load)

    def outReceived(self, data: bytes) -> None:
        """Frames."""
        try:
            for message in self._reader.feed(data):
                if not self._is_lost:
                    self._take(message)
        except FrameError as error:
            self.fail(f"it spoke nonsense: {error}")

    def errReceived(self, data: bytes) -> None:
        """What C code or Python complains about before it dies."""
        self._errors = (self._errors + data)[-ERROR_BYTES:]

    def processEnded(self, reason: Failure) -> None:
        """It is gone."""
        self._cancel()
        self._lose(self._described(reason))
        self._owner.child_ended(self)

    # --- messages -----------------------------------------------------------------

    def _take(self, message: Message) -> None:
        match message:
            case Ready():
                self._cancel()
                self._owner.child_ready(self, message)
            case Broken():
                self.fail(message.reason.decode(errors="replace"))
            case Pong():
                self._silent = 0
                if message.progress != self._progress:
                    self._progress, self._still = message.progress, 0
            case _:
                self._owner.child_said(self, message)

    def _look(self) -> None:
        """A ping is due."""
        self._deadline = None
        if not self._owner.is_busy:
            return
        seconds = self._patience.ping_seconds
        if self._silent >= self._patience.silent_pings:
            self.fail(f"it has not answered for {self._silent * seconds:g} s")
        elif self._still >= self._patience.step_pings:
            self.fail(f"it has not moved for {self._still * seconds:g} s")
        else:
            self._silent += 1
            self._still += 1
            self._pings += 1
            self.send(Ping(self._pings & 0xFFFFFFFF))
            self._later(seconds, self._look)

    # --- ends -----------------------------------------------------------------------

    @property
    def _transport(self) -> Any:
        assert self.transport is not None
        return self.transport

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._cancel()
        self._deadline = self._clock.callLater(seconds, call)

    def _cancel(self) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None

    def _lose(self, reason: str) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._cancel()
            self._owner.child_lost(self, reason)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessExitedAlready):
            self._transport.signalProcess("KILL")

    def _described(self, reason: Failure) -> str:
        """How it ended, in words, with the last line that it wrote."""
        end: Any = reason.value
        if getattr(end, "signal", None) is not None:
            text = f"its process was ended by {signal.Signals(end.signal).name}"
        else:
            text = f"its process ended with exit code {getattr(end, 'exitCode', None)}"
        lines = self._errors.decode(errors="replace").strip().splitlines()
        if lines:
            text += f": {lines[-1].strip()[:LINE_LENGTH_MAX]}"
        return text
