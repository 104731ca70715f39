"""
Names, owners and digests of media in the indexes: whatever bucket they share, each goes
by itself, in any order (D6, D22).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.device.capacities import SMALL
from tests.device.cases.starting import Start
from tests.device.cases.uploading import (
    WAV_FILE,
    begin,
    cancel,
    look,
    make_ready,
    question,
    reference,
    remove,
    seeing_engine,
    with_media,
)
from tests.device.making import grant
from tests.media_made import make_wav

COUNT = SMALL.media_objects

Order = Callable[[list[int]], Iterator[int]]
orders = pytest.mark.parametrize("order", [iter, reversed], ids=["first", "last"])


@orders
def test_names_go_in_any_order(start: Start, order: Order) -> None:
    """As many as there are descriptors, again and again, with other ids each time."""
    driver = with_media(start)
    for base in range(100, 100 + 3 * COUNT, COUNT):
        numbers = list(range(base, base + COUNT))
        for number in numbers:
            assert begin(driver, number, WAV_FILE)[0] == 200
        for number in order(numbers):
            assert look(driver, number)[0] == 200
            assert cancel(driver, number)[0] == 200


@orders
def test_owners_go_in_any_order(start: Start, order: Order) -> None:
    """Each principal has one source; a row of owners is free once it has gone."""
    driver = start(SMALL, engines=[seeing_engine()])
    for base in range(100, 100 + 3 * COUNT, COUNT):
        numbers = list(range(base, base + COUNT))
        rows = [
            grant(number.to_bytes(16, "big"), actions=2, media=1, media_bytes=9999)
            for number in numbers
        ]
        assert driver.install(*rows) == 200
        for number in numbers:
            owner = number.to_bytes(16, "big")
            assert begin(driver, 1, WAV_FILE, owner)[0] == 200
        for number in order(numbers):
            owner = number.to_bytes(16, "big")
            assert cancel(driver, 1, owner)[0] == 200


#: Judged after the digests of a payload, and of no version that there is.
ODD_SELECTOR = (2).to_bytes(4, "little") + bytes(44)


@orders
def test_digests_go_in_any_order(start: Start, order: Order) -> None:
    """What is removed is not found any more; what is not, is."""
    driver = with_media(start)
    files = {number: make_wav(330 + number) for number in range(1, COUNT + 1)}
    for number, data in files.items():
        make_ready(driver, number, data)
    left = set(files)
    for number in order(list(files)):
        assert remove(driver, number)[0] == 200
        left.remove(number)
        for other, data in files.items():
            payload = question(reference(data)) + ODD_SELECTOR
            status = driver.submit(1, payload=payload, selector_bytes=48)
            assert status == (400 if other in left else 404)
