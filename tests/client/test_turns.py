"""
Waiters in turn per principal (D29).
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twisted_aotx.client import Turns


def _drain(turns: Turns[str]) -> list[str]:
    drained = []
    while (waiter := turns.take()) is not None:
        drained.append(waiter)
    return drained


def test_in_turn() -> None:
    """One principal's many waiters do not stand before another's first."""
    turns: Turns[str] = Turns(10)
    for waiter in ("a1", "a2", "a3", "b1", "c1", "c2"):
        turns.add(waiter[:1].encode(), waiter)

    assert _drain(turns) == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_newcomer_waits_for_those_before() -> None:
    """A principal that was just served goes behind the others."""
    turns: Turns[str] = Turns(10)
    turns.add(b"a", "a1")
    turns.add(b"a", "a2")
    turns.take()
    turns.add(b"b", "b1")

    assert _drain(turns) == ["a2", "b1"]


def test_bound() -> None:
    """At the limit everything is queued, one past it nothing changes."""
    turns: Turns[str] = Turns(2)

    added = [turns.add(b"a", "a1"), turns.add(b"b", "b1"), turns.add(b"c", "c1")]
    turns.take()
    again = turns.add(b"c", "c1")

    assert added == [True, True, False]
    assert again
    assert _drain(turns) == ["b1", "c1"]


def test_removal() -> None:
    """Whoever leaves the queue is not served, and makes room."""
    turns: Turns[str] = Turns(2)
    turns.add(b"a", "a1")
    turns.add(b"b", "b1")

    turns.remove(b"a", "a1")
    turns.remove(b"a", "a1")
    turns.remove(b"x", "x1")

    assert len(turns) == 1
    assert turns.add(b"c", "c1")
    assert _drain(turns) == ["b1", "c1"]
    assert turns.take() is None


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.sampled_from("abc")),
            st.tuples(st.just("take"), st.just("")),
            st.tuples(st.just("remove"), st.sampled_from("abc")),
        ),
        max_size=60,
    )
)
def test_against_lists(steps: list[tuple[str, str]]) -> None:
    """The same as an obvious model: a list of principals and a list for each."""
    turns: Turns[str] = Turns(8)
    order: list[str] = []
    queues: dict[str, list[str]] = {}
    for number, (step, key) in enumerate(steps):
        waiting = sum(map(len, queues.values()))
        if step == "add":
            waiter = f"{key}{number}"
            assert turns.add(key.encode(), waiter) == (waiting < 8)
            if waiting < 8:
                if not queues.get(key):
                    order.append(key)
                queues.setdefault(key, []).append(waiter)
        elif step == "take":
            expected = None
            if order:
                turn = order.pop(0)
                expected = queues[turn].pop(0)
                if queues[turn]:
                    order.append(turn)
            assert turns.take() == expected
        elif queues.get(key):
            waiter = queues[key].pop()
            turns.remove(key.encode(), waiter)
            if not queues[key]:
                order.remove(key)
        assert len(turns) == sum(map(len, queues.values()))
