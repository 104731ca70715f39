"""
Levels of processes: what is more than before is told.
"""

from __future__ import annotations

import os
import threading

import attrs

from tests.torture.levels import Level, leaks, settled

BEFORE = Level(("/dev/null", "pipe", "socket", "socket"), 3, 100 << 20)


def test_a_level_that_is_back_is_no_leak() -> None:
    assert list(leaks(BEFORE, BEFORE)) == []
    assert list(leaks(BEFORE, Level(("socket",), 1, 50 << 20))) == []


def test_a_descriptor_more_is_told_with_its_kind() -> None:
    # One more of a kind, and one fewer of another, which does not make up for it.
    after = attrs.evolve(BEFORE, descriptors=("pipe", "socket", "socket", "socket"))
    assert list(leaks(BEFORE, after)) == ["1 more descriptors: ['socket']"]


def test_a_thread_more_is_told() -> None:
    after = attrs.evolve(BEFORE, threads=4)
    assert list(leaks(BEFORE, after)) == ["1 more threads"]


def test_a_child_more_is_told() -> None:
    after = attrs.evolve(BEFORE, children=1)
    assert list(leaks(BEFORE, after)) == ["1 more children"]


def test_memory_beyond_the_slack_is_told() -> None:
    grown = attrs.evolve(BEFORE, rss_bytes=130 << 20)
    assert list(leaks(BEFORE, grown)) == []
    grown = attrs.evolve(BEFORE, rss_bytes=150 << 20)
    assert list(leaks(BEFORE, grown)) == ["memory grew from 100 to 150 MiB"]


def test_what_this_process_opens_and_starts_is_seen_until_it_is_closed() -> None:
    pid = os.getpid()
    before = Level.of(pid)
    go_on = threading.Event()
    thread = threading.Thread(target=go_on.wait)
    thread.start()
    reader, writer = os.pipe()
    try:
        found = list(leaks(before, Level.of(pid)))
        assert any("more descriptors: ['pipe', 'pipe']" in each for each in found)
        assert "1 more threads" in found
    finally:
        go_on.set()
        thread.join()
        os.close(reader)
        os.close(writer)
    assert not any(leaks(before, settled(pid, before)))
