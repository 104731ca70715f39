"""
What is another's costs the device what costs it what is nobody's [D22]: lines of
kernels that run, counted in plain Python.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.device.capacities import SMALL
from tests.device.driver import Driver
from tests.device.making import (
    EPOCH,
    P1,
    P2,
    grant,
    new_device,
    part,
    payload_of,
    played_engine,
    request_id,
)
from tests.device.visits import count_lines, from_plain_python
from tests.media_made import make_wav
from twisted_aotx.wire.media import BeginData, MediaFrame
from twisted_aotx.wire.numbers import MediaFormat, Operation, PartKind
from twisted_aotx.wire.packet import RequestHeader, join

#: Ids that P1 has, requests and sources both, and as many that nobody has.
COUNT: Final = 8
#: Those of them whose sources are ready, so that their digests could be found.
READY: Final = 2
KINDS: Final = ("foreign", "unknown")
ACTIONS: Final = (
    *("READ", "READ beyond", "CANCEL", "MEDIA_READ"),
    *("CHUNK", "END", "CANCEL of a source", "SUBMIT of a digest"),
)
SOURCE: Final = make_wav(400)

#: (module, line) → times.
Lines = Counter[tuple[str, int]]


def source(number: int) -> bytes:
    """Bytes that no other number has."""
    return SOURCE[:-2] + number.to_bytes(2, "little")


def send(driver: Driver, frame: MediaFrame, principal: bytes = P1) -> None:
    header = driver.header(Operation.MEDIA, principal, id=frame.head.transfer_id)
    assert driver.status(header, frame.pack()) == 200


def begin(driver: Driver, number: int, principal: bytes = P1) -> None:
    """A source that is being received."""
    data = source(number)
    head = BeginData(MediaFormat.WAV, hashlib.sha256(data).digest())
    send(driver, MediaFrame.begin(request_id(number), len(data), head), principal)


def make_ready(driver: Driver, number: int, principal: bytes = P1) -> None:
    """The same, ready."""
    begin(driver, number, principal)
    data, transfer = source(number), request_id(number)
    send(driver, MediaFrame.chunk(transfer, len(data), 0, data), principal)
    send(driver, MediaFrame.end(transfer, len(data)), principal)
    driver.step()
    driver.store()


def asked(driver: Driver, action: str, number: int) -> tuple[RequestHeader, bytes]:
    """What P2 asks about *number*."""
    name = request_id(number)
    match action:
        case "READ":
            return driver.header(Operation.READ, P2, epoch=EPOCH, id=name), b""
        case "READ beyond":
            header = driver.header(
                Operation.READ, P2, epoch=EPOCH, id=name, cursor=2**40
            )
            return header, b""
        case "CANCEL":
            return driver.header(Operation.CANCEL, P2, epoch=EPOCH, id=name), b""
        case "MEDIA_READ":
            return driver.header(Operation.MEDIA_READ, P2, id=name), b""
        case "SUBMIT of a digest":
            digest = hashlib.sha256(source(number)).digest()
            asks = part(digest, PartKind.AUDIO)
            payload = payload_of(b"\1\0\0\0\1\0\0\0" + asks)
            return driver.submit_header(99, P2), payload
    frames: dict[str, Callable[[], MediaFrame]] = {
        "CHUNK": lambda: MediaFrame.chunk(name, len(SOURCE), 0, b"abc"),
        "END": lambda: MediaFrame.end(name, len(SOURCE)),
        "CANCEL of a source": lambda: MediaFrame.cancel(name),
    }
    return driver.header(Operation.MEDIA, P2, id=name), frames[action]().pack()


def visits() -> dict[str, dict[str, list[list[tuple[str, int, int]]]]]:
    """Action → kind → lines of each question."""
    engine = played_engine(
        capacity=2, sequence_tokens=SMALL.sequence_tokens, modalities=5
    )
    driver = Driver(new_device(SMALL, [engine], "cpu"), SMALL)
    rows = (
        grant(P, actions=3, requests=COUNT + 1, media=COUNT + 1, media_bytes=1 << 16)
        for P in (P1, P2)
    )
    assert driver.install(*rows) == 200
    for number in range(1, COUNT + 1):
        assert driver.submit(number, P1) == 202
        (make_ready if number <= READY else begin)(driver, number)
    # The caller has something of its own, else nothing is looked for.
    assert driver.submit(40, P2) == 202
    make_ready(driver, 40, P2)
    found: dict[str, dict[str, list[Any]]] = {}
    for action in ACTIONS:
        found[action] = {kind: [] for kind in KINDS}
        count = READY if action == "SUBMIT of a digest" else COUNT
        for n in range(2 * count):
            kind = KINDS[n % 2]
            number = n // 2 + (1 if kind == "foreign" else 60)
            packet = join(*asked(driver, action, number))
            driver.device.publish(1, packet)
            driver.now += 1
            with count_lines() as counted:
                driver.device.tick(driver.now)
            assert driver.device.collect() == [1]
            assert driver.take(1)[8:12] == (404).to_bytes(4, "little")
            lines = [(*line, times) for line, times in counted.counts.items()]
            found[action][kind].append(lines)
    return found


@pytest.fixture(scope="module")
def counted() -> Any:
    return from_plain_python(__name__)


def over_base(all_lines: list[Lines]) -> list[int]:
    """
    How many rounds of one and the same loop each has more than the least; a question
    whose lines are anything else fails.

    The loop is that over a bucket of an index: how many entries share the bucket of
    what was asked for is chance, by a secret key [D6].
    """
    base = min(all_lines, key=Counter.total)
    more = [lines - base for lines in all_lines]
    assert all(base - lines == Counter() for lines in all_lines)
    loop = min((one for one in more if one), key=Counter.total, default=Counter())
    rounds = [one.total() // (loop.total() or 1) for one in more]
    for one, times in zip(more, rounds, strict=True):
        assert one == Counter({line: n * times for line, n in loop.items()})
    return rounds


@pytest.mark.slow
@pytest.mark.parametrize("action", ACTIONS)
def test_visits_do_not_tell(counted: Any, action: str) -> None:
    lines = {
        kind: [Counter({(m, at): n for m, at, n in one}) for one in asked_for]
        for kind, asked_for in counted[action].items()
    }
    rounds = over_base([*lines["foreign"], *lines["unknown"]])

    assert all(one.total() > 50 for one in lines["foreign"])
    count = len(lines["foreign"])
    for half in (rounds[:count], rounds[count:]):
        assert 0 in half
        assert max(half) <= 2


def test_another_loop_is_noticed() -> None:
    """A look at the owner that only a foreign id gets, once or in each round."""
    base = Counter({("requests", 1): 3})
    round_ = Counter({("requests", 2): 1, ("requests", 3): 1})
    look = Counter({("requests", 9): 1})

    assert over_base([base, base + round_, base + round_ + round_]) == [0, 1, 2]
    for broken in (base + look, base + round_ + look):
        with pytest.raises(AssertionError):
            over_base([base, base + round_, broken])


if __name__ == "__main__":
    sys.stdout.write(json.dumps(visits()))
