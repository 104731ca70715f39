"""
Continuous batching with small models: rows, limits, ends, cancels, chance.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import Counter
from typing import Any

import pytest

from tests.engines.llama.batches import Driven, RecordingLibrary, Row, driven
from tests.engines.llama.conftest import Make
from tests.engines.llama.tiny import END, Tiny, successors
from twisted_aotx.engines.llama.binding import Library
from twisted_aotx.engines.llama.model import Model, ModelError
from twisted_aotx.wire.numbers import Finish

PROMPTS = [b"first question", b"and another one", b"x", b"what is the sum of 1 and 2?"]
SAID = "é🦊日".encode()


def loaded(library: Library, tiny: Make, model: Tiny | None = None) -> Model:
    return Model(library, bytes(tiny(model or Tiny())))


@pytest.fixture
def recording(library: Library) -> RecordingLibrary:
    return RecordingLibrary(library)


@pytest.fixture
def batch(recording: RecordingLibrary, library: Library, tiny: Make) -> Driven:
    return driven(recording, loaded(library, tiny))


def indexes(rows: list[Row]) -> list[int]:
    return [index for index, *_ in rows]


def test_two_sequences_share_a_decode_call_and_a_cancelled_one_leaves_it(
    batch: Driven, recording: RecordingLibrary
) -> None:
    batch.attach(1, PROMPTS[0])
    batch.attach(2, PROMPTS[1])
    batch.step()
    batch.step()

    assert indexes(recording.calls[-1]) == [0, 1]
    batch.engine.release(1, 1)
    calls = len(recording.calls)
    batch.run()

    assert len(recording.calls) > calls
    assert all(indexes(rows) == [1] for rows in recording.calls[calls:])
    assert batch.answers[1, 1].finish == Finish.NONE
    assert batch.answers[2, 1].finish == Finish.LENGTH


def test_greedy_text_is_the_same_alone_in_a_batch_and_in_a_slot_used_again(
    batch: Driven,
) -> None:
    alone = [batch.answer(1, prompt, generation=n) for n, prompt in enumerate(PROMPTS)]
    assert len({answer.data for answer in alone}) == len(PROMPTS)
    for slot in range(1, 9):
        batch.attach(slot, PROMPTS[slot % 4], generation=10, limit=100)
    for _ in range(7):
        batch.step()
    for slot in (1, 4, 5):
        batch.engine.release(slot, 10)
    for slot in (1, 4, 5):
        batch.attach(slot, PROMPTS[slot % 4], generation=11)
    batch.run()

    for slot in range(1, 9):
        generation = 11 if slot in (1, 4, 5) else 10
        assert batch.answers[slot, generation].data.startswith(alone[slot % 4].data)


def test_what_is_emitted_is_exact_to_the_byte(library: Library, tiny: Make) -> None:
    """Characters are cut between tokens; the end token counts, without bytes."""
    batch = driven(library, loaded(library, tiny, Tiny(successors=successors(SAID))))
    batch.attach(1, b"say it\n")
    pieces = []
    while not batch.engine.is_idle:
        pieces += [each.data for each in batch.step()]

    assert pieces == [bytes([byte]) for byte in SAID] + [b""]
    assert batch.answers[1, 1].tokens == len(SAID) + 1
    assert batch.answers[1, 1].finish == Finish.STOP


@pytest.mark.parametrize(
    ("limit", "finish"),
    [
        (1, Finish.LENGTH),
        (len(SAID), Finish.LENGTH),
        # The end token is the last one that the limit allows.
        (len(SAID) + 1, Finish.STOP),
        (len(SAID) + 2, Finish.STOP),
    ],
)
def test_the_limit_counts_the_end_token(
    library: Library, tiny: Make, limit: int, finish: Finish
) -> None:
    batch = driven(library, loaded(library, tiny, Tiny(successors=successors(SAID))))

    answer = batch.answer(1, b"\n", limit=limit)

    assert answer.data == SAID[:limit]
    assert answer.tokens == min(limit, len(SAID) + 1)
    assert answer.finish == finish


def test_a_long_prompt_waits_behind_no_row_that_is_due(
    batch: Driven, recording: RecordingLibrary
) -> None:
    """Running sequences go on in every step, and prompts take 64 rows at most."""
    batch.attach(1, b"short", limit=100)
    batch.step()
    batch.attach(2, b"long " * 60, limit=2)
    batch.attach(3, b"tiny", limit=2)
    recording.calls.clear()
    batch.step()

    counts = Counter(indexes(recording.calls[0]))
    # The short prompt is whole; what it left over went to the long one.
    assert counts == {0: 1, 1: 60, 2: 4}
    assert batch.answers[3, 1].tokens == 1
    while not batch.answers[2, 1].tokens:
        batch.step()
    for rows in recording.calls:
        counts = Counter(indexes(rows))
        assert counts[0] == 1
        assert counts[1] <= 64
    assert len(recording.calls) == 5


def test_prompts_share_rows_evenly(batch: Driven, recording: RecordingLibrary) -> None:
    for slot in (1, 2, 3):
        batch.attach(slot, b"x" * 200)
    batch.step()

    assert Counter(indexes(recording.calls[0])) == {0: 22, 1: 21, 2: 21}


def test_rows_stand_in_the_order_of_sequences(
    batch: Driven, recording: RecordingLibrary
) -> None:
    """Positions too; logits are computed where something is sampled, only there."""
    batch.attach(1, b"ab", limit=100)
    batch.step()
    batch.attach(2, b"cd" * 40)
    batch.attach(3, b"ef", limit=100)
    batch.step()

    rows = recording.calls[-1]
    assert indexes(rows) == sorted(indexes(rows))
    assert [position for index, position, *_ in rows if index == 1] == [*range(62)]
    assert [wants for *_, wants in rows] == [True] + [False] * 62 + [False, True]


def test_seeds_decide_and_halves_are_mixed(batch: Driven) -> None:
    def said(seed: int, **changes: Any) -> bytes:
        generation = len(batch.answers)
        settings = {"temperature": 1.0, "seed": seed, "generation": generation}
        return batch.answer(1, PROMPTS[0], **{**settings, **changes}).data

    assert said(7) == said(7)
    assert len({said(seed) for seed in (0, 1, 7, 3 << 32, 9 << 32, 5 << 40)}) == 6
    # All ones would let the library choose.
    assert said(0xFFFFFFFF) == said(0xFFFFFFFF) == said(0)
    greedy = said(3, temperature=0.0)
    assert greedy == said(4, temperature=0.0)
    assert greedy == said(5, temperature=2.0, top_p=0.0)
    assert greedy == said(6, temperature=1e-30)
    assert greedy != said(7, temperature=2.0)


def test_chances_are_those_of_the_weights(library: Library, tiny: Make) -> None:
    """No hidden filter: 3,000 samples of one token against the softmax by hand."""
    model = loaded(library, tiny)
    batch = driven(library, model, capacity=1)
    logits = logits_after(library, batch, b"x")
    weights = [2.718281828 ** (each / 0.7 - max(logits) / 0.7) for each in logits]
    total = sum(weights)
    found: Counter[bytes] = Counter()
    for seed in range(3000):
        answer = batch.answer(
            1, b"x", generation=seed, limit=1, temperature=0.7, seed=seed
        )
        found[answer.data] += 1

    for token in range(256):
        share = weights[token] / total
        if share > 0.01:
            error = abs(found[bytes([token])] / 3000 - share)
            # Five deviations: by chance once in a million.
            assert error < 5 * (share * (1 - share) / 3000) ** 0.5, token


def logits_after(library: Library, batch: Driven, prompt: bytes) -> list[float]:
    """Of the next token, from the context itself."""
    function = library._shared["llama_get_logits_ith"]
    function.restype = ctypes.POINTER(ctypes.c_float)
    function.argtypes = (ctypes.c_void_p, ctypes.c_int32)
    batch.attach(1, prompt, generation=10**6, limit=2)
    batch.step()
    found = function(batch.engine._context, len(prompt) - 1)[:259]
    batch.engine.release(1, 10**6)
    return list(found)


def test_sequences_run_out_and_slots_are_taken_once(batch: Driven) -> None:
    for slot in range(1, 9):
        batch.attach(slot, b"x")

    fields = {"limit": 1, "temperature": 0.0, "top_p": 1.0, "seed": 0}
    assert not batch.engine.attach(9, 1, [1], **fields)  # type: ignore[arg-type]
    batch.engine.release(3, 1)
    assert not batch.engine.attach(2, 2, [1], **fields)  # type: ignore[arg-type]
    batch.attach(9, b"y")
    batch.run()
    assert batch.answers[9, 1].tokens == 20


def test_a_late_stop_of_an_earlier_lease_changes_nothing(batch: Driven) -> None:
    batch.attach(1, b"x", generation=2)
    batch.engine.release(1, 1)
    batch.engine.release(2, 1)
    batch.run()

    assert batch.answers[1, 2].tokens == 20


def test_a_sequence_fills_its_context(library: Library, tiny: Make) -> None:
    """Prompt and limit together; the neighbours' memory is not touched."""
    batch = driven(library, loaded(library, tiny), capacity=2, context=256)
    expected = batch.answer(1, b"other", generation=5, limit=250).data
    batch.attach(2, b"other", limit=250)
    batch.attach(1, b"x" * 200, limit=56)
    batch.run()

    assert batch.engine.context_tokens == 256
    assert batch.answers[1, 1].tokens == 56
    assert batch.answers[2, 1].data == expected


# --- aborted steps ------------------------------------------------------------------

#: Wide enough that a step of many rows takes a good part of a second.
WIDE = Tiny(embedding=256, feed_forward=4096, layers=2)


@pytest.fixture
def wide(recording: RecordingLibrary, library: Library, tiny: Make) -> Driven:
    model = loaded(library, tiny, WIDE)
    return driven(recording, model, capacity=2, context=4096, prefill_rows=2048)


def interrupted(batch: Driven, slot: int) -> bool:
    """Step, and interrupt *slot* as soon as the step runs; whether it was aborted."""
    before, progress = batch.answers[slot, 1].tokens, batch.engine.progress

    def interrupt() -> None:
        while batch.engine.progress == progress:
            time.sleep(0.0005)
        batch.engine.interrupt(slot, 1)

    thread = threading.Thread(target=interrupt)
    thread.start()
    found = batch.step()
    thread.join()
    return not found and batch.answers[slot, 1].tokens == before


def test_an_interrupted_step_changes_nothing(
    wide: Driven, recording: RecordingLibrary
) -> None:
    expected = wide.answer(1, b"neighbour", generation=9, limit=30).data
    wide.attach(1, b"neighbour", limit=30)
    wide.step()
    wide.attach(2, b"long " * 400, limit=3)
    calls = len(recording.calls)

    assert interrupted(wide, 2)
    wide.engine.release(2, 1)
    wide.run()

    # The neighbour's row was decoded again.
    assert recording.calls[calls][0] == recording.calls[calls + 1][0]
    assert indexes(recording.calls[calls + 1]) == [0]
    assert wide.answers[1, 1].data == expected


def test_no_two_steps_in_a_row_are_aborted(wide: Driven) -> None:
    """Whoever cancels prompts again and again holds nobody up for ever."""
    wide.attach(1, b"neighbour", limit=30)
    wide.step()
    wide.attach(2, b"long " * 400, limit=3)
    assert interrupted(wide, 2)

    assert not interrupted(wide, 2)
    assert wide.answers[1, 1].tokens == 2


def test_a_step_with_others_prompts_is_not_aborted(wide: Driven) -> None:
    wide.attach(1, b"also long " * 100)
    wide.attach(2, b"long " * 100)

    assert not interrupted(wide, 2)


def test_an_interrupt_that_comes_too_late_does_nothing(wide: Driven) -> None:
    wide.attach(1, b"x")
    wide.step()
    wide.engine.interrupt(1, 1)
    wide.engine.interrupt(2, 7)

    wide.run()
    assert wide.answers[1, 1].tokens == 20


# --- what cannot be made -------------------------------------------------------------


def test_more_tokens_than_the_library_counts_are_refused(
    library: Library, tiny: Make
) -> None:
    with pytest.raises(ModelError, match="4,294,967,296 tokens"):
        driven(library, loaded(library, tiny), capacity=2, context=2**31)


def test_no_end_token_is_drawn_where_it_has_no_chance(batch: Driven) -> None:
    """So that these tests test what they say: outputs of Tiny are long."""
    answer = batch.answer(1, PROMPTS[0], limit=500)

    assert answer.finish == Finish.LENGTH
    assert not batch.model.is_end(0)
    assert batch.model.is_end(END)
