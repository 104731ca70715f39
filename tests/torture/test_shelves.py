"""
What an uploader knows is held against a list.
"""

from __future__ import annotations

from tests.torture.shelves import Shelf, Stored

ONE = Stored("media-1", "11", 100, "image/jpeg", 64)
TWO = Stored("media-2", "22", 200, "audio/wav", 10)
LISTED = {"media-1": ("11", 100), "media-2": ("22", 200)}


def test_what_was_acknowledged_must_be_there_as_it_was() -> None:
    shelf = Shelf(ready={"media-1": ONE, "media-2": TWO})
    assert shelf.judge(LISTED) == []
    (lost,) = shelf.judge({"media-1": ("11", 100)})
    assert "is lost" in lost
    (other,) = shelf.judge({**LISTED, "media-2": ("23", 200)})
    assert "is another" in other


def test_what_was_deleted_must_not_be_there() -> None:
    shelf = Shelf(ready={"media-1": ONE}, deleted={"media-2"})
    assert shelf.judge({"media-1": ("11", 100)}) == []
    (back,) = shelf.judge(LISTED)
    assert "deleted, and is back" in back


def test_what_nobody_sent_must_not_be_there() -> None:
    shelf = Shelf(ready={"media-1": ONE})
    (foreign,) = shelf.judge(LISTED)
    assert "never sent" in foreign


def test_what_was_not_answered_may_be_there_or_not_and_is_settled_once() -> None:
    for found in (LISTED, {}):
        shelf = Shelf(unsure={"media-1": ONE}, unanswered={"22": 200})
        assert shelf.judge(found) == []
        shelf.settle(found)
        assert shelf.judge(found) == []
        assert shelf.judge({} if found else LISTED) != []
