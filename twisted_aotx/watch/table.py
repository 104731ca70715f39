"""
Who watches what, and who is to be told.

Sans-IO. The rules:

1. A watch is one peer's for one request. It is new, *armed* (its next news is sent), or
   *told* (a notice is on its way, until it is renewed).
2. A new watch is answered at once, with whatever it knows: what happened before it was
   there was told to nobody. Whoever reads after that answer and renews the watch with
   what it read misses nothing.
3. A renewed watch is answered at once if the request stands further than the peer
   knows, else it is armed. Standing further is more bytes or a later phase; both only
   grow, so a notice that arrives late can do no harm.
4. Each watch has at most one notice that its peer has not asked for again, so what can
   wait for a peer is bounded by its watches.
5. When notices were lost, all that is armed is told, and all that is told is answered
   at once when it is renewed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

import attrs

from twisted_aotx.devices import Progress
from twisted_aotx.limits import WATCHES_MAX
from twisted_aotx.wire.watch import Notice, Watch

Peer = TypeVar("Peer", bound=Hashable)
#: Principal and request id.
Key = tuple[bytes, bytes]

_NOWHERE: Final = (0, 0)


@attrs.define
class _Entry:
    """
    One watch. Where a request stands is (phase, total bytes).
    """

    told: tuple[int, int] = _NOWHERE
    #: What its peer knows while it is armed.
    known: tuple[int, int] | None = None
    #: Whether something may have been missed since `told`.
    is_doubtful: bool = False


class WatchTable(Generic[Peer]):
    """
    The watches of all peers, for the runtime of *epoch*.
    """

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._of_key: dict[Key, dict[Peer, _Entry]] = {}
        #: Those of each peer in the order in which they were renewed.
        self._of_peer: dict[Peer, dict[Key, _Entry]] = {}

    def __len__(self) -> int:
        """Requests that are watched."""
        return len(self._of_key)

    def make_room(self, peer: Peer, key: Key) -> Key | None:
        """
        Before *peer* watches *key*: which of its `WATCHES_MAX` is over therefore, the
        one that was renewed first; None if there is room.
        """
        own = self._of_peer.get(peer, {})
        if key in own or len(own) < WATCHES_MAX:
            return None
        first = next(iter(own))
        self.forget(peer, first)
        return first

    def watch(self, peer: Peer, watch: Watch) -> Notice | None:
        """
        *peer* watches; what it is to be told at once. Ask `make_room` first.
        """
        key = watch.principal, watch.id
        if watch.epoch != self._epoch:
            # Gone with its runtime: whoever reads learns that.
            return self._notice(key, _NOWHERE)
        own = self._of_peer.setdefault(peer, {})
        entry = own.pop(key, None)
        if entry is None:
            entry = own[key] = _Entry()
            self._of_key.setdefault(key, {})[peer] = entry
            return self._notice(key, entry.told)
        own[key] = entry  # the last renewed
        known = watch.phase, watch.total_bytes
        if entry.is_doubtful or _is_further(entry.told, known):
            entry.known, entry.is_doubtful = None, False
            return self._notice(key, entry.told)
        entry.known = known
        return None

    def progressed(self, progress: Progress) -> Iterator[tuple[Peer, Notice]]:
        """
        A request stands further; who is to be told.
        """
        key = progress.principal, progress.id
        stands = progress.phase, progress.total_bytes
        for peer, entry in self._of_key.get(key, {}).items():
            entry.told = stands
            if entry.known is not None and _is_further(stands, entry.known):
                entry.known = None
                yield peer, self._notice(key, stands)

    def lost(self) -> Iterator[tuple[Peer, Notice]]:
        """
        Anything may have changed; who is to be told.
        """
        for key, entries in self._of_key.items():
            for peer, entry in entries.items():
                if entry.known is None:
                    entry.is_doubtful = True
                else:
                    entry.known = None
                    yield peer, self._notice(key, entry.told)

    def forget(self, peer: Peer, key: Key) -> None:
        """
        The watch is over. One that is not there is fine.
        """
        own = self._of_peer.get(peer, {})
        if own.pop(key, None) is not None:
            self._unlist(peer, key)
            if not own:
                del self._of_peer[peer]

    def forget_peer(self, peer: Peer) -> list[Key]:
        """
        *peer* is gone; the watches that it had.
        """
        keys = list(self._of_peer.pop(peer, {}))
        for key in keys:
            self._unlist(peer, key)
        return keys

    def _unlist(self, peer: Peer, key: Key) -> None:
        entries = self._of_key[key]
        del entries[peer]
        if not entries:
            del self._of_key[key]

    def _notice(self, key: Key, stands: tuple[int, int]) -> Notice:
        phase, total_bytes = stands
        return Notice(*key, self._epoch, total_bytes, phase)


def _is_further(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] > other[0] or one[1] > other[1]
