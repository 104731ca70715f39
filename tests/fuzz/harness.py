"""
What all fuzzers share: the loop, what counts as new, and what a failure leaves behind.

An input is bytes and stands for itself: a target makes whatever state it needs anew for
each, so that a file of the corpus replays alone, in any order.
"""

from __future__ import annotations

import base64
import hashlib
import random
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import attrs
from twisted.logger import ILogObserver, LogEvent, LogLevel, globalLogPublisher
from zope.interface import provider

CORPUS: Final = Path(__file__).parent / "corpus"
#: Bytes of an input, at most.
INPUT_BYTES_MAX: Final = 160 << 10
#: Seconds of processor time that one input may take; what takes longer hangs.
INPUT_SECONDS: Final = 30.0
#: How many of the inputs are made from a target's seeds alone.
SEEDS_SHARE: Final = 0.5
#: Inputs that a run keeps in memory to make others from.
KEPT_MAX: Final = 4000
#: Runs that making a failing input smaller may take.
SHRINK_RUNS: Final = 400

#: What came of an input: each element tells a way through the code from the others.
Features = frozenset[object]


class Broken(AssertionError):
    """
    A promise did not hold.
    """


class TookTooLong(BaseException):
    """
    An input used up its time. No `except Exception` on the way stops it.
    """


def demand(held: object, said: str) -> None:
    """
    Raises:
        Broken: *held* is false; *said* says what should have been.
    """
    if not held:
        raise Broken(said)


class Target(ABC):
    """
    What is fuzzed, and how.
    """

    name: ClassVar[str]
    #: Inputs that `bin/test` has time for.
    count: ClassVar[int]

    @abstractmethod
    def seeds(self) -> Sequence[bytes]:
        """Inputs to begin with, beside those of the corpus."""

    @abstractmethod
    def draw(self, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
        """One input; *corpus* has one at least."""

    @abstractmethod
    def judge(self, data: bytes) -> Features:
        """
        Try one input.

        Raises:
            Broken: what came of it must not. Any other exception is a failure, too.
        """

    def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """Leave nothing behind."""


class Finding(AssertionError):
    """
    An input that breaks a promise, with all that is needed to have it again.
    """

    def __init__(
        self, target: str, seed: str, number: int, data: bytes, cause: BaseException
    ) -> None:
        self.target = target
        self.data = data
        self.cause = cause
        super().__init__(
            f"fuzz {target}, seed {seed}, input {number}: "
            f"{type(cause).__name__}: {cause}\n"
            f"{len(data)} bytes in base64: {base64.b64encode(data).decode()}"
        )


@attrs.define
class Report:
    """
    What a run came to.
    """

    target: str
    seed: str
    inputs: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    #: In how many inputs each feature was.
    features: Counter[object] = attrs.field(factory=Counter)
    #: Drawn inputs that were the first with one of theirs.
    kept: list[bytes] = attrs.field(factory=list)

    def __str__(self) -> str:
        return (
            f"fuzz {self.target}: {self.inputs} inputs from seed {self.seed} in "
            f"{self.seconds:.0f} s ({self.cpu_seconds:.0f} s of a core), "
            f"{len(self.features)} features, "
            f"{len(self.kept)} inputs with new ones"
        )


def corpus_of(name: str) -> list[bytes]:
    """The inputs that the repository keeps for a target, always in one order."""
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]


def keep(name: str, data: bytes, folder: Path = CORPUS) -> Path:
    """Make *data* a file of the corpus; the same bytes make the same file."""
    path = folder / name / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def run(
    target: Target,
    seed: str,
    *,
    count: int | None = None,
    seconds: float | None = None,
    failures: Path | None = CORPUS,
    input_seconds: float = INPUT_SECONDS,
    shrink_runs: int = SHRINK_RUNS,
) -> Report:
    """
    Judge the corpus, then *count* drawn inputs or as many as *seconds* allow.

    Args:
        seed: Decides every drawn input.
        failures: Where an input that fails is kept, as small as it could be made.
        input_seconds: Processor time that one input may take.
        shrink_runs: Runs that making a failing input smaller may take.

    Raises:
        Finding: an input failed.
    """
    rng = random.Random(f"{target.name}:{seed}")
    report = Report(target.name, seed)
    seeds = target.seeds()
    known = [*seeds, *corpus_of(target.name)]
    begun, cpu = time.monotonic(), time.process_time()
    with _watched() as errors:
        judge = _Judge(target, errors, input_seconds)
        try_ = _Trial(judge, report, failures, shrink_runs)
        for data in known:
            report.features.update(try_(data))
        drawn = 0
        while (count is None or drawn < count) and (
            seconds is None or time.monotonic() - begun < seconds
        ):
            # What did something new is mostly wrong already: begin anew now and then.
            pool = seeds if rng.random() < SEEDS_SHARE else known
            data = target.draw(rng, pool)[:INPUT_BYTES_MAX]
            features = try_(data)
            if features - report.features.keys() and len(known) < KEPT_MAX:
                known.append(data)
                report.kept.append(data)
            report.features.update(features)
            drawn += 1
    report.seconds = time.monotonic() - begun
    report.cpu_seconds = time.process_time() - cpu
    return report


@attrs.frozen
class _Trial:
    """
    Judges inputs; one that fails is made smaller and kept.
    """

    judge: _Judge
    report: Report
    failures: Path | None
    shrink_runs: int

    def __call__(self, data: bytes) -> Features:
        report = self.report
        report.inputs += 1
        try:
            return self.judge(data)
        except (Exception, TookTooLong) as error:
            small = _shrunk(self.judge, data, error, self.shrink_runs)
            if self.failures is not None:
                keep(report.target, small, self.failures)
            raise Finding(
                report.target, report.seed, report.inputs, small, error
            ) from error


class _Judge:
    """
    A target's judgement, and two promises that hold everywhere: an input comes to an
    end, and nothing is logged as an error.
    """

    def __init__(
        self, target: Target, errors: list[LogEvent], input_seconds: float
    ) -> None:
        self._target = target
        self._errors = errors
        self._input_seconds = input_seconds

    def __call__(self, data: bytes) -> Features:
        self._errors.clear()
        with _bounded(self._input_seconds):
            features = self._target.judge(data)
        if self._errors:
            raise Broken(f"logged: {_told(self._errors[0])}")
        return features


def _told(event: LogEvent) -> str:
    failure = event.get("log_failure")
    return str(event.get("log_format")) if failure is None else failure.getTraceback()


@contextmanager
def _watched() -> Iterator[list[LogEvent]]:
    """The events of errors that are logged meanwhile."""
    errors: list[LogEvent] = []

    @provider(ILogObserver)
    def observe(event: LogEvent) -> None:
        if event["log_level"] >= LogLevel.error or "log_failure" in event:
            errors.append(event)

    globalLogPublisher.addObserver(observe)
    try:
        yield errors
    finally:
        globalLogPublisher.removeObserver(observe)


@contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    """
    Raises:
        TookTooLong: the block used more processor time. Main thread only.
    """

    def stop(number: int, frame: Any) -> None:
        raise TookTooLong(f"more than {seconds:g} s of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _shrunk(judge: _Judge, data: bytes, error: BaseException, runs_max: int) -> bytes:
    """A shorter input that fails in the same way, if one is found soon."""
    if isinstance(error, TookTooLong):
        return data
    runs, size = 0, max(1, len(data) // 2)
    while runs < runs_max:
        at, before = 0, data
        while at < len(data) and runs < runs_max:
            shorter = data[:at] + data[at + size :]
            runs += 1
            if _fails_alike(judge, shorter, error):
                data = shorter
            else:
                at += size
        if size == 1 and data == before:
            break
        size = max(1, size // 2)
    return data


def _fails_alike(judge: _Judge, data: bytes, error: BaseException) -> bool:
    try:
        judge(data)
    except TookTooLong:
        return False
    except Exception as other:
        return type(other) is type(error)
    return False
