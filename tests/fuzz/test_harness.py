"""
The loop of the fuzzers: what it keeps, what it takes for a failure, what it leaves.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from twisted.logger import Logger

from tests.fuzz.harness import (
    SHRINK_RUNS,
    Broken,
    Features,
    Finding,
    Target,
    TookTooLong,
    run,
)
from tests.fuzz.mutations import changed
from tests.fuzz.packets import STEPS_MAX, Event, Packet, Step, pack, unpack
from tests.fuzz.targets import TARGETS

_log = Logger()


class _Made(Target):
    """
    Judges by a function; draws bytes.
    """

    name: ClassVar[str] = "made"
    count: ClassVar[int] = 1

    def __init__(self, judged: Callable[[bytes], Features]) -> None:
        self._judged = judged
        self.runs = 0

    def seeds(self) -> Sequence[bytes]:
        return [b"seed"]

    def draw(self, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
        return changed(rng, rng.choice(corpus))

    def judge(self, data: bytes) -> Features:
        self.runs += 1
        return self._judged(data)


def refuse_x(data: bytes) -> Features:
    if b"\xff" in data:
        raise Broken("an ff")
    return frozenset({len(data)})


def endless(data: bytes) -> Features:
    while data:
        pass
    return frozenset()


def complain(data: bytes) -> Features:
    _log.error("something is wrong")
    return frozenset()


def test_the_same_seed_draws_the_same_inputs() -> None:
    seen: list[list[bytes]] = []
    for seed in ("1", "1", "2"):
        target = _Made(lambda data: frozenset({data}))
        report = run(target, seed, count=50)
        seen.append(report.kept)

    assert seen[0] == seen[1] != seen[2]


def test_inputs_that_do_something_new_are_kept() -> None:
    report = run(_Made(lambda data: frozenset({len(data) > 9})), "1", count=200)

    assert report.inputs == 201
    assert len(report.kept) == 1
    assert len(report.kept[0]) > 9


def test_a_finding_tells_all_and_leaves_a_small_file(tmp_path: Path) -> None:
    target = _Made(refuse_x)
    with pytest.raises(Finding) as caught:
        run(target, "7", count=10_000, failures=tmp_path)

    (path,) = (tmp_path / "made").iterdir()
    assert path.read_bytes() == caught.value.data == b"\xff"
    said = str(caught.value)
    assert said.startswith("fuzz made, seed 7, input ")
    assert "Broken: an ff" in said
    assert said.endswith(base64.b64encode(b"\xff").decode())
    assert target.runs < 10_000 + SHRINK_RUNS


def test_an_input_that_does_not_end_is_a_finding() -> None:
    with pytest.raises(Finding) as caught:
        run(_Made(endless), "1", count=1, failures=None, input_seconds=0.05)

    assert isinstance(caught.value.cause, TookTooLong)


def test_an_error_that_is_logged_is_a_finding() -> None:
    with pytest.raises(Finding, match="logged: something is wrong"):
        run(_Made(complain), "1", count=1, failures=None)


def test_any_bytes_are_a_script() -> None:
    steps: list[Step] = [Packet(3, b"abc"), Event(1, 2**40), Packet(1, bytes(65537), 5)]

    assert unpack(pack(steps)) == steps
    rng = random.Random(1)
    for _ in range(500):
        assert len(unpack(rng.randbytes(rng.randrange(400)))) <= STEPS_MAX


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_drawn_depends_on_the_seed_alone(name: str) -> None:
    target = TARGETS[name]()
    try:
        drawn = [
            [target.draw(rng, target.seeds()) for _ in range(20)]
            for rng in (random.Random(5), random.Random(5))
        ]
    finally:
        target.close()

    assert drawn[0] == drawn[1]
