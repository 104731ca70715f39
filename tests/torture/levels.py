"""
Descriptors, threads and memory of a process, as the kernel tells them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import psutil  # type: ignore[import-untyped]  # it ships no types

#: Resident memory may grow by this factor and so many bytes: what allocators keep.
GROWTH: Final = 1.15
SLACK_BYTES: Final = 24 << 20
#: Seconds that a process has to let go: idle connections of a pool take ten.
SETTLE_SECONDS: Final = 45.0
#: Seconds without a change after which a process is taken for quiet.
QUIET_SECONDS: Final = 11.0
_PAUSE: Final = 0.1


@attrs.frozen
class Level:
    """
    One look at a process; descriptors by what they are, numbers taken out.
    """

    descriptors: tuple[str, ...]
    threads: int
    rss_bytes: int
    #: Processes that it has started.
    children: int = 0

    @classmethod
    def of(cls, pid: int) -> Level:
        """
        That of *pid* now.

        Raises:
            OSError: there is no such process.
        """
        kinds = []
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(entry)
            except FileNotFoundError:
                continue
            # Sockets and pipes: their inode is another each time.
            kinds.append(target.split(":[")[0])
        fields = dict(
            line.split(":", 1)
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
        rss = int(fields["VmRSS"].split()[0]) * 1024
        count = len(psutil.Process(pid).children())
        return cls(tuple(sorted(kinds)), int(fields["Threads"]), rss, count)

    @property
    def size(self) -> tuple[int, int]:
        """Descriptors and threads."""
        return len(self.descriptors), self.threads

    def __str__(self) -> str:
        size = self.rss_bytes / (1 << 20)
        count = len(self.descriptors)
        counts = f"{count} descriptors, {self.threads} threads"
        return f"{counts}, {self.children} children, {size:.0f} MiB"


def leaks(before: Level, after: Level) -> Iterator[str]:
    """What *after* has more than *before*, in words."""
    rest = list(before.descriptors)
    more = []
    for kind in after.descriptors:
        if kind in rest:
            rest.remove(kind)
        else:
            more.append(kind)
    if more:
        yield f"{len(more)} more descriptors: {more[:8]}"
    if after.threads > before.threads:
        yield f"{after.threads - before.threads} more threads"
    if after.children > before.children:
        yield f"{after.children - before.children} more children"
    allowed = before.rss_bytes * GROWTH + SLACK_BYTES
    if after.rss_bytes > allowed:
        grown = f"{before.rss_bytes >> 20} to {after.rss_bytes >> 20} MiB"
        yield f"memory grew from {grown}"


def settled(pid: int, before: Level, seconds: float = SETTLE_SECONDS) -> Level:
    """The level of *pid* once it is back at *before*, or when the time is over."""
    return once(lambda: Level.of(pid), lambda now: not any(leaks(before, now)), seconds)


def quiet(pids: Sequence[int], seconds: float = SETTLE_SECONDS) -> list[Level]:
    """The levels of *pids* once none has let go of anything for a while."""
    levels = [Level.of(pid) for pid in pids]
    since = time.monotonic()
    deadline = since + seconds
    while time.monotonic() < min(since + QUIET_SECONDS, deadline):
        time.sleep(_PAUSE)
        now = [Level.of(pid) for pid in pids]
        if any(new.size < old.size for new, old in zip(now, levels, strict=True)):
            levels, since = now, time.monotonic()
    return [Level.of(pid) for pid in pids]


def once(
    look: Callable[[], Level], good: Callable[[Level], bool], seconds: float
) -> Level:
    """What *look* gives as soon as it is *good*, or when the time is over."""
    deadline = time.monotonic() + seconds
    while not good(level := look()) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    return level
