"""
`watch.sock`: whoever watches learns of its own requests only, and a watch of another's
is one of nobody's (docs/wire/watch.md, D22).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.access.front import account, request_bytes, token_of
from tests.access.owned import (
    OUTPUT,
    OWNER,
    REQUESTS,
    STRANGER,
    request_handle,
    running,
)
from tests.access.served import Served
from tests.device.making import DONE, EPOCH
from twisted_aotx.seqpacket import PacketSocket
from twisted_aotx.testing import read_packet
from twisted_aotx.wire.numbers import Phase
from twisted_aotx.wire.watch import Notice, Watch, split_records, watch_path

NOBODY = bytes([0xAB] * 16)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path, account(OWNER), account(STRANGER))
    made.plays = None
    yield made
    made.close()


class Peer:
    """
    A raw peer of `watch.sock`.
    """

    def __init__(self, served: Served) -> None:
        self._served = served
        self._socket: PacketSocket = served.world.system.makeSocket()
        path = watch_path(served.settings.socket).encode()
        assert self._socket.connect_ex(path) == 0
        served.world.settle()

    def watch(self, number: int, request_id: bytes, epoch: int = EPOCH) -> None:
        packed = Watch(number.to_bytes(16, "big"), request_id, epoch, 0, 1).pack()
        self._socket.send(packed, 0)
        self._served.step()

    def told(self) -> list[tuple[int, int]]:
        """Phase and total of every notice that waits."""
        found: list[tuple[int, int]] = []
        while packet := read_packet(self._socket):
            notices = split_records(packet, Notice)
            found += [(one.phase, one.total_bytes) for one in notices]
        return found


@pytest.mark.parametrize("epoch", [EPOCH, EPOCH - 1])
@pytest.mark.parametrize("state", REQUESTS)
def test_a_watch_of_another_s(served: Served, state: str, epoch: int) -> None:
    """Answered like one of nobody's, at once and later: that nothing is known."""
    theirs = REQUESTS[state](served)
    peers = {}
    for name in (theirs, NOBODY):
        peers[name] = Peer(served)
        for _ in range(3):
            peers[name].watch(STRANGER, name, epoch)
    for order in list(served.engine.leases.values()):
        served.engine.end(order, 5, 503)
    served.step(5)

    told = [peer.told() for peer in peers.values()]

    assert told[0] == told[1]
    assert set(told[0]) == {(0, 0)}


def test_its_owner_is_told(served: Served) -> None:
    """So the test before sees what there is to see."""
    theirs = running(served)
    own, other = Peer(served), Peer(served)
    for _ in range(2):
        own.watch(OWNER, theirs)
        other.watch(STRANGER, theirs)
    own.told()
    other.told()
    served.engine.end(served.leases[-1], DONE, 1)
    served.step(2)

    assert own.told() == [(Phase.COMPLETED, len(OUTPUT))]
    assert other.told() == []


def test_a_gateway_watches_what_it_has_read(served: Served) -> None:
    """
    A stream of another's request ends before there is a watch: the device is not asked
    to tell.
    """
    handles = [request_handle(running(served)), request_handle(NOBODY)]
    for handle in handles:
        path = f"/aotx/v1/requests/{handle}/events"
        assert served.ask("GET", path, token_of(STRANGER)).status == 404
        assert served.device.snapshot()["watched"] == 0
    own = served.connect()
    path = f"/aotx/v1/requests/{handles[0]}/events"
    own.send(request_bytes("GET", path, token=token_of(OWNER)))
    served.step(5)

    assert served.device.snapshot()["watched"] == 1
