"""
Thousands of connections that say nothing, and what becomes of each of them.
"""

from __future__ import annotations

import errno
import resource
import select
import socket
import time
from collections import Counter
from typing import Final
from urllib.parse import urlsplit

import attrs

#: Descriptors that this process needs besides.
OWN_DESCRIPTORS: Final = 1500
#: Connections under way at once: fewer than a gateway's backlog.
AT_ONCE: Final = 400
#: Seconds that the whole flood may take, deadlines of the last ones included.
FLOOD_SECONDS: Final = 120.0
#: Seconds between two tries to a packet socket whose backlog is full.
_FULL_PAUSE: Final = 0.002


def raise_descriptors() -> int:
    """Raise the soft limit to the hard one, which is returned."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def affordable(wanted: int) -> int:
    """As many of *wanted* as the limit of descriptors allows."""
    return max(0, min(wanted, raise_descriptors() - OWN_DESCRIPTORS))


@attrs.frozen
class Flooded:
    """
    What became of a flood.

    Attributes:
        ends: `closed` without a byte, `reset`, `answered`, `open` at the end.
        open_max: The most that were open at once, as seen from here.
    """

    ends: Counter[str]
    open_max: int


@attrs.define
class Flood:
    """
    *count* connections to the gateway at *url*, none of which ever says anything.
    """

    url: str
    count: int
    ends: Counter[str] = attrs.field(factory=Counter)
    _open: dict[int, socket.socket] = attrs.field(factory=dict)
    _connecting: set[int] = attrs.field(factory=set)
    _poll: select.epoll = attrs.field(factory=select.epoll)
    _open_max: int = 0

    def run(self) -> Flooded:
        """Until every one of them is closed by the gateway."""
        deadline = time.monotonic() + FLOOD_SECONDS
        begun = 0
        while (begun < self.count or self._open) and time.monotonic() < deadline:
            while begun < self.count and len(self._connecting) < AT_ONCE:
                self._begin()
                begun += 1
            self._open_max = max(self._open_max, len(self._open))
            for number, events in self._poll.poll(0.2):
                self._look(number, events)
        self.ends["open"] += len(self._open)
        for sock in self._open.values():
            sock.close()
        self._poll.close()
        return Flooded(self.ends, self._open_max)

    def _begin(self) -> None:
        place = urlsplit(self.url)
        sock = socket.socket()
        sock.setblocking(False)
        failed = sock.connect_ex((place.hostname, place.port))
        if failed not in (0, errno.EINPROGRESS):
            self.ends[errno.errorcode[failed]] += 1
            sock.close()
            return
        number = sock.fileno()
        self._open[number] = sock
        self._connecting.add(number)
        self._poll.register(number, select.EPOLLIN | select.EPOLLOUT)

    def _look(self, number: int, events: int) -> None:
        if events & select.EPOLLOUT and number in self._connecting:
            self._connecting.discard(number)
            self._poll.modify(number, select.EPOLLIN)
        if not events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            return
        try:
            end = "answered" if self._open[number].recv(64) else "closed"
        except ConnectionResetError:
            end = "reset"
        except OSError as error:
            end = errno.errorcode[error.errno or 0]
        self.ends[end] += 1
        self._connecting.discard(number)
        self._poll.unregister(number)
        self._open.pop(number).close()


def flood_packets(path: str, count: int, channels: int) -> Counter[str]:
    """
    *count* connections to the packet socket at *path*, until at most *channels* of them
    are open; those are left.
    """
    ends: Counter[str] = Counter()
    opened: list[socket.socket] = []
    deadline = time.monotonic() + FLOOD_SECONDS
    begun = 0
    while (begun < count or len(opened) > channels) and time.monotonic() < deadline:
        if begun < count:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            sock.setblocking(False)
            failed = sock.connect_ex(path)
            if not failed:
                opened.append(sock)
                begun += 1
                continue
            sock.close()
            if failed != errno.EAGAIN:
                ends[errno.errorcode[failed]] += 1
                begun += 1
                continue
        # The backlog is full, or all were begun: see who was closed meanwhile.
        opened = [sock for sock in opened if not _closed(sock, ends)]
        time.sleep(_FULL_PAUSE)
    ends["left open"] += len(opened)
    for sock in opened:
        sock.close()
    return ends


def _closed(sock: socket.socket, ends: Counter[str]) -> bool:
    try:
        end = "answered" if sock.recv(64) else "closed"
    except BlockingIOError:
        return False
    except ConnectionResetError:
        end = "reset"
    ends[end] += 1
    sock.close()
    return True
