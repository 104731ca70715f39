"""
The pools of media sources, and how their bytes are read from the host.

What frames do to sources is held to the oracle in `cases/test_media_*.py`.
"""

from __future__ import annotations

import hashlib
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.device.capacities import SMALL
from tests.device.driver import Driver
from tests.device.making import P1, grant, new_device, played_engine, request_id
from tests.media_made import make_wav
from twisted_aotx.device import pool
from twisted_aotx.device.host import Device
from twisted_aotx.errors import SourceGone
from twisted_aotx.wire.media import BeginData, MediaFrame
from twisted_aotx.wire.numbers import MediaFormat, Operation
from twisted_aotx.wire.packet import join

#: Long enough for a few spans, short enough to be full often.
_PLACES = 40
_MEMBERS = 8


class Pool(RuleBasedStateMachine):
    """
    `device.md` §12: one span per source, first fit, what is given back joins.

    Beside it a row of places, each with its owner.
    """

    def __init__(self) -> None:
        super().__init__()
        capacities = attrs.evolve(SMALL, media_objects=_MEMBERS)
        dtype = np.dtype(pool.pool_fields(capacities), align=True)
        self.device: Any = np.zeros(1, dtype).view(np.recarray)[0]
        pool.reset_pool(self.device, pool.POOL_IMAGE, _PLACES)
        self.places: list[int | None] = [None] * _PLACES

    def _first_fit(self, size: int) -> int:
        for at in range(_PLACES - size + 1):
            if self.places[at : at + size] == [None] * size:
                return at
        return -1

    @precondition(lambda self: len({*self.places} - {None}) < _MEMBERS)
    @rule(data=st.data(), size=st.integers(1, _PLACES + 1))
    def take(self, data: st.DataObject, size: int) -> None:
        free = sorted(set(range(_MEMBERS)) - set(self.places))
        index = data.draw(st.sampled_from(free))
        wanted = self._first_fit(size)
        assert pool.find_gap(self.device, pool.POOL_IMAGE, size)[0] == wanted
        assert pool.take_span(self.device, pool.POOL_IMAGE, index, size) == wanted
        if wanted >= 0:
            self.places[wanted : wanted + size] = [index] * size

    @rule(index=st.integers(0, _MEMBERS - 1))
    def give(self, index: int) -> None:
        """Also by one that has none."""
        pool.give_span(self.device, pool.POOL_IMAGE, index)
        self.places = [None if p == index else p for p in self.places]

    @precondition(lambda self: any(p is not None for p in self.places))
    @rule(data=st.data())
    def shrink(self, data: st.DataObject) -> None:
        there = sorted({p for p in self.places if p is not None})
        index = data.draw(st.sampled_from(there))
        size = data.draw(st.integers(1, self.places.count(index)))
        pool.shrink_span(self.device, pool.POOL_IMAGE, index, size)
        at = self.places.index(index)
        self.places = [None if p == index else p for p in self.places]
        self.places[at : at + size] = [index] * size

    @invariant()
    def same(self) -> None:
        D = self.device
        for index in range(_MEMBERS):
            count = self.places.count(index)
            assert D["p_count"][pool.POOL_IMAGE][index] == count
            if count:
                at = self.places.index(index)
                assert D["p_at"][pool.POOL_IMAGE][index] == at
        used = _PLACES - self.places.count(None)
        assert D["p_used"][pool.POOL_IMAGE] == used


TestPool = Pool.TestCase
TestPool.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)


SOURCE = make_wav(400)


def _media(driver: Driver, frame: MediaFrame) -> int:
    header = driver.header(Operation.MEDIA, P1, id=frame.head.transfer_id)
    return driver.status(header, frame.pack())


@pytest.fixture
def uploaded() -> tuple[Driver, Device]:
    """A device whose descriptor 0, generation 1, has the whole SOURCE, ended."""
    engine = played_engine(capacity=2, sequence_tokens=8192, modalities=5)
    device = new_device(SMALL, [engine])
    driver = Driver(device, SMALL)
    driver.install(grant(actions=3, media=4, media_bytes=SMALL.media_bytes))
    upload(driver, 1, SOURCE)
    return driver, device


def upload(driver: Driver, number: int, data: bytes) -> None:
    """BEGIN, one CHUNK, END."""
    transfer = request_id(number)
    begin = BeginData(MediaFormat.WAV, hashlib.sha256(data).digest())
    for frame in (
        MediaFrame.begin(transfer, len(data), begin),
        MediaFrame.chunk(transfer, len(data), 0, data),
        MediaFrame.end(transfer, len(data)),
    ):
        assert _media(driver, frame) == 200


def test_bytes_are_read_by_descriptor_and_generation(
    uploaded: tuple[Driver, Device],
) -> None:
    """D12: any part of a source, and of no other generation."""
    _, device = uploaded
    assert device.source_bytes(0, 1, 0, len(SOURCE)) == SOURCE
    assert device.source_bytes(0, 1, 44, 10) == SOURCE[44:54]
    for index, generation in ((0, 2), (0, 0), (1, 1)):
        with pytest.raises(SourceGone):
            device.source_bytes(index, generation, 0, len(SOURCE))


def test_bytes_are_gone_with_the_source(uploaded: tuple[Driver, Device]) -> None:
    """Also once another source has taken their place."""
    driver, device = uploaded
    driver.step()
    for _ in device.records():
        device.finish_record(True)
    driver.step()
    frame = MediaFrame.cancel(request_id(1))
    header = driver.header(Operation.MEDIA, P1, id=request_id(1))
    device.publish(1, join(header, frame.pack()))
    driver.step()
    assert device.source_bytes(0, 1, 0, len(SOURCE)) == SOURCE
    device.finish_record(True)
    driver.step()
    with pytest.raises(SourceGone):
        device.source_bytes(0, 1, 0, len(SOURCE))
    device.collect()
    driver.take(1)
    other = make_wav(401)
    upload(driver, 2, other)
    with pytest.raises(SourceGone):
        device.source_bytes(0, 1, 0, len(SOURCE))
    assert device.source_bytes(1, 2, 0, len(other)) == other


def test_the_device_tells_of_its_sources(uploaded: tuple[Driver, Device]) -> None:
    """D10, metrics: sources in phases 1 to 6, and what the pool has left."""
    _, device = uploaded
    stats = device.stats()
    assert stats.media_objects == 1
    assert stats.media_bytes_free == SMALL.media_bytes - len(SOURCE)
