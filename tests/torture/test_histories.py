"""
The judge of histories finds what is wrong, and nothing in what is right.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from tests.torture.expected import ANSWERING, RECITED, RECITING, Oracle, Source, Task
from tests.torture.histories import History, Life, Reading, State, World, judge

TASK = Task(RECITING, "Say it.", 100)
HANDLE = "req-0000000000000002-" + "ab" * 16
PROMPT = len(TASK.rendered)
RUNNING = State("running", False, 0, PROMPT, 30, None)
DONE = State("completed", False, 0, PROMPT, 100, "length")
CANCELLED = State("cancelled", True, 409, PROMPT, 40, None)
#: The first epoch is over, the second serves.
LIVES = {1: Life(1, 0.0, 1.0, 5.0, 5.5), 2: Life(2, 6.0, 8.0)}
ORACLE = Oracle()
WORLD = World(LIVES, ORACLE, entries=128)


def pieces(start: int, *ends: int) -> list[tuple[int, bytes]]:
    """What the recited text has from *start* to each of *ends*."""
    found = []
    for end in ends:
        found.append((start, RECITED[start:end]))
        start = end
    return found


def history() -> History:
    """A stream that broke, the rest from the other gateway, a look at the end."""
    return History(
        owner=3,
        task=TASK,
        asked=10.0,
        answered=10.1,
        handle=HANDLE,
        readings=[
            Reading(
                "stream", 10.2, 0, 11.0, pieces=pieces(0, 10, 30), states=[RUNNING]
            ),
            Reading(
                how="stream",
                asked=12.0,
                cursor=30,
                answered=13.0,
                pieces=pieces(30, 64, 100),
                states=[RUNNING, DONE],
                is_over=True,
            ),
            Reading("read", 14.0, 100, 14.1, states=[DONE], is_over=True),
        ],
    )


def cancelled() -> History:
    whole = history()
    return History(
        whole.owner,
        whole.task,
        whole.asked,
        whole.answered,
        HANDLE,
        readings=[
            Reading("cancel", 11.0, 0, 11.1, pieces=pieces(0, 40), states=[CANCELLED]),
            Reading("read", 12.0, 0, 12.1, pieces=pieces(0, 40), states=[CANCELLED]),
        ],
        cancels=[11.0],
    )


def gone() -> History:
    """Of the first epoch, which ended under it."""
    return History(
        3,
        TASK,
        2.0,
        2.1,
        HANDLE.replace("2-", "1-"),
        [
            Reading("stream", 2.2, 0, 5.2, pieces=pieces(0, 50), states=[RUNNING]),
            Reading("read", 9.0, 50, 9.1, status=410, code="device_refused"),
        ],
    )


@pytest.mark.parametrize("make", [history, cancelled, gone])
def test_what_is_right_is_not_blamed(make: Callable[[], History]) -> None:
    assert judge([make()], WORLD) == []


def test_a_read_while_the_runtime_died_may_be_answered_either_way() -> None:
    for status in (200, 410):
        made = gone()
        made.readings.insert(1, Reading("read", 4.9, 0, 5.6, status=status))
        assert judge([made], WORLD) == []


Doctor = Callable[[History], None]


def repeat_a_chunk(made: History) -> None:
    made.readings[1].pieces.insert(0, made.readings[0].pieces[-1])


def repeat_a_chunk_under_a_new_offset(made: History) -> None:
    _, data = made.readings[0].pieces[0]
    made.readings[0].pieces.append((30, data))


def lose_a_chunk(made: History) -> None:
    del made.readings[1].pieces[0]


def lose_the_last_chunk(made: History) -> None:
    del made.readings[1].pieces[-1]


def put_in_foreign_text(made: History) -> None:
    offset, data = made.readings[0].pieces[1]
    made.readings[0].pieces[1] = (offset, data[:-1] + bytes([data[-1] ^ 1]))


def append_bytes_after_the_last(made: History) -> None:
    made.readings[1].pieces.append((100, RECITED[100:110]))


def send_an_empty_chunk(made: History) -> None:
    made.readings[0].pieces.append((30, b""))


def end_twice(made: History) -> None:
    made.readings[1].states.append(DONE)


def end_without_a_status(made: History) -> None:
    made.readings[1].states.pop()


def go_back_to_queued(made: History) -> None:
    made.readings[2].states = [State("queued", False, 0, 0, 0, None)]


def change_the_end(made: History) -> None:
    made.readings[2].states = [attrs.evolve(DONE, tokens=99)]


def count_a_token_more(made: History) -> None:
    for reading in made.readings:
        reading.states = [
            attrs.evolve(state, tokens=101) if state.is_end else state
            for state in reading.states
        ]


def be_cancelled_by_nobody(made: History) -> None:
    made.readings = [Reading("read", 12.0, 0, 12.1, pieces=pieces(0, 40))]
    made.readings[0].states = [CANCELLED]


def complete_although_cancelled(made: History) -> None:
    end = attrs.evolve(DONE, cancel_requested=True)
    made.readings[1].states[-1] = end
    made.readings[2].states = [end]


def fail(made: History) -> None:
    end = State("failed", False, 503, PROMPT, 30, None)
    made.readings = [Reading("read", 12.0, 0, 12.1, pieces=pieces(0, 30), states=[end])]


def never_end(made: History) -> None:
    del made.readings[1:]


def answer_from_an_old_epoch(made: History) -> None:
    made.handle = HANDLE.replace("2-", "1-")
    made.asked, made.answered = 2.0, 2.1


def deny_a_living_epoch(made: History) -> None:
    made.readings[2].status = 410
    made.readings[2].states = []


def lose_the_result(made: History) -> None:
    made.readings[2].status = 404
    made.readings[2].states = []


def be_of_no_epoch(made: History) -> None:
    made.handle = HANDLE.replace("2-", "3-")


@pytest.mark.parametrize(
    ("doctor", "told"),
    [
        (repeat_a_chunk, "repeated"),
        (repeat_a_chunk_under_a_new_offset, "foreign"),
        (lose_a_chunk, "missing"),
        (lose_the_last_chunk, "ended after 64 of 100 bytes"),
        (put_in_foreign_text, "foreign"),
        (append_bytes_after_the_last, "foreign"),
        (send_an_empty_chunk, "an empty piece"),
        (end_twice, "something followed the end"),
        (end_without_a_status, "over without an end"),
        (go_back_to_queued, "completed became queued"),
        (change_the_end, "different ends"),
        (count_a_token_more, "completed with"),
        (be_cancelled_by_nobody, "nobody asked for it"),
        (complete_although_cancelled, "although its cancel was accepted"),
        (fail, "an end that the tables do not allow"),
        (never_end, "never ended"),
        (answer_from_an_old_epoch, "200 although epoch 1 was over"),
        (deny_a_living_epoch, "410 although epoch 2 was alive"),
        (lose_the_result, "404 after 0 others"),
        (be_of_no_epoch, "an epoch that never was"),
    ],
)
def test_what_is_wrong_is_found(doctor: Doctor, told: str) -> None:
    made = history()
    doctor(made)
    found = judge([made], WORLD)
    assert any(told in problem for problem in found), found


def test_a_cancelled_request_that_went_on_is_found() -> None:
    made = cancelled()
    made.readings.append(
        Reading("read", 13.0, 0, 13.1, pieces=pieces(0, 70), states=[CANCELLED])
    )
    assert any("different lengths" in each for each in judge([made], WORLD))


def test_two_requests_of_one_name_are_found() -> None:
    assert any("two requests" in each for each in judge([history()] * 2, WORLD))


def test_a_result_that_newer_ones_displaced_may_be_gone() -> None:
    made = history()
    lose_the_result(made)
    newer = [
        attrs.evolve(history(), handle=f"req-{2:016x}-{n:032x}") for n in range(1, 128)
    ]
    assert judge([made, *newer], WORLD) == []
    assert judge([made, *newer[1:]], WORLD) != []


def test_the_oracle_counts_the_rows_and_digests_of_sources() -> None:
    plain = ORACLE(Task(ANSWERING, "Hello.", 1000))
    source = Source("media-" + "0" * 32, "image", "11" * 32, 64)
    other = attrs.evolve(source, sha256="22" * 32)
    with_source = ORACLE(Task(ANSWERING, "Hello.", 1000, (source,)))
    assert with_source.prompt_tokens == plain.prompt_tokens + 72 + 64
    assert with_source.data != plain.data
    assert ORACLE(Task(ANSWERING, "Hello.", 1000, (other,))).data != with_source.data


def test_a_limit_cuts_what_the_oracle_says() -> None:
    whole = ORACLE(Task(ANSWERING, "Hello.", 1000))
    assert (whole.finish, whole.tokens) == ("stop", len(whole.data) + 1)
    for limit in (1, len(whole.data)):
        cut = ORACLE(Task(ANSWERING, "Hello.", limit))
        assert (cut.data, cut.tokens) == (whole.data[:limit], limit)
        assert cut.finish == "length"
    exact = ORACLE(Task(ANSWERING, "Hello.", whole.tokens))
    assert exact == whole
