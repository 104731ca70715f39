"""
The reference model's kernels (`device.md` §17) against docs/reference-model.md.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.device.reference_harness import CORPUS, Sequences, f32_bits
from tests.device.reference_oracle import Model, generate, q16
from twisted_aotx.device.reference import (
    CAUTION,
    FIXED_BYTES_MAX,
    REFERENCE_TOKENS_PER_TICK,
    VERVE,
)
from twisted_aotx.device.reference_sample import EXP2, LOG2, q16_of_f32
from twisted_aotx.device.reference_table import (
    CONTEXTS_MAX,
    CORPUS_BYTES_MAX,
    CORPUS_TOO_LARGE,
    LOADED,
    OTHER_CORPUS,
)

PROMPT = b"<|im_start|>user\nWhat is a good net worth?<|im_end|>\n"
SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def loaded() -> Sequences:
    """The shipped corpus for role 2, fixed outputs for the others."""
    sequences = Sequences()
    assert sequences.load(CORPUS) == LOADED
    assert sequences.load(CORPUS, role=3, fixed=b"\x00exact\xff") == LOADED
    assert sequences.load(CORPUS, role=4, rate=1000) == LOADED
    return sequences


@pytest.fixture(scope="module")
def oracle() -> Model:
    """The page's model of the shipped corpus."""
    return Model(CORPUS)


class TestTokens:
    """
    What comes out.
    """

    @pytest.mark.parametrize("temperature", [0.0, 1e-6, 0.3, 0.7, 1.0, 1.7, 2.0])
    @pytest.mark.parametrize("top_p", [1e-30, 0.1, 0.5, 0.95, 1.0])
    def test_equal_to_the_oracle(
        self, loaded: Sequences, oracle: Model, temperature: float, top_p: float
    ) -> None:
        """Bytes, tokens and finish are those of the page's algorithm."""
        draw = random.Random(f"{temperature} {top_p}")
        for _ in range(6):
            prompt = draw.randbytes(draw.randrange(80))
            seed, limit = draw.getrandbits(64), draw.randrange(1, 400)

            made = loaded.generate(
                prompt, temperature=temperature, top_p=top_p, seed=seed, limit=limit
            )

            assert made == generate(oracle, prompt, temperature, top_p, seed, limit)

    @pytest.mark.parametrize(
        "corpus",
        [
            b"",
            b"\n",
            b"\n\n\na",
            b"a",
            b"a\n\nb\n\n\n\nc",
            b"ab\nab\n",
            bytes(range(256)) * 8,
            b"a" * 5000,
        ],
    )
    def test_any_corpus_is_read_as_the_page_says(self, corpus: bytes) -> None:
        """Line feeds, counts above 1,023, rows with more than 16 symbols."""
        sequences, oracle = Sequences(), Model(corpus)

        assert sequences.load(corpus) == LOADED

        assert int(sequences.region["ref_contexts"][0, 0]) == len(oracle.rows)
        for temperature in (0.0, 1.3):
            made = sequences.generate(PROMPT, temperature=temperature, limit=300)
            assert made == generate(oracle, PROMPT, temperature, 1.0, 1, 300)

    def test_every_prompt_byte_matters(self, loaded: Sequences) -> None:
        """Each one-byte change gives another greedy output."""
        base = loaded.generate(PROMPT)
        for at in range(len(PROMPT)):
            changed = bytearray(PROMPT)
            changed[at] ^= 1

            assert loaded.generate(bytes(changed)) != base, at

    def test_prompt_length_matters(self, loaded: Sequences) -> None:
        """A NUL at the end of the prompt is no padding."""
        assert loaded.generate(PROMPT + b"\0") != loaded.generate(PROMPT)

    def test_greedy_ignores_seed_and_top_p(self, loaded: Sequences) -> None:
        """Temperature 0, and its negative, is one output whatever else is set."""
        outputs = {
            loaded.generate(PROMPT, temperature=zero, seed=seed, top_p=top_p)
            for zero in (0.0, -0.0)
            for seed in (0, 2**64 - 1)
            for top_p in (0.1, 1.0)
        }

        assert len(outputs) == 1

    @pytest.mark.parametrize(
        "other", [{"seed": 2}, {"temperature": 0.9}, {"top_p": 0.5}]
    )
    def test_sampling_depends_on(
        self, loaded: Sequences, other: dict[str, float]
    ) -> None:
        """Seed, temperature and top_p each change a sampled output."""
        options = {"temperature": 1.0, "top_p": 1.0, "seed": 1}

        base = loaded.generate(PROMPT, **options)

        assert loaded.generate(PROMPT, **options) == base
        assert loaded.generate(PROMPT, **{**options, **other}) != base

    def test_outputs_end_by_themselves_and_look_like_english(
        self, loaded: Sequences
    ) -> None:
        """Greedy outputs stop within 4,096 tokens; most of their words are English."""
        known = set(CORPUS.decode().replace("\n", " ").split(" "))
        for index in range(40):
            data, tokens, finish = loaded.generate(b"%d" % index, limit=4096)

            words = data.decode("ascii").split(" ")
            assert finish == 1
            assert tokens == len(data) + 1
            assert tokens > 96
            assert sum(word in known for word in words) > 0.8 * len(words)

    def test_prompt_tokens_are_its_bytes(self, loaded: Sequences) -> None:
        """Up to the largest prompt."""
        assert loaded.open(1, b"") == 0
        assert loaded.open(1, b"x" * 65408) == 65408


class TestControls:
    """
    What a selection changes (docs/reference-model.md, Controls).
    """

    DOSES = (-10000, -5000, 5000, 10000)

    @pytest.mark.parametrize("dose", DOSES)
    @pytest.mark.parametrize("control", [CAUTION, VERVE])
    @pytest.mark.parametrize("temperature", [0.0, 1e-6, 0.8, 2.0])
    def test_equal_to_the_oracle(
        self,
        loaded: Sequences,
        oracle: Model,
        control: int,
        dose: int,
        temperature: float,
    ) -> None:
        """Bytes, tokens and finish are those of the page's algorithm."""
        name = {CAUTION: "caution", VERVE: "verve"}[control]
        for seed in range(3):
            prompt = b"%d" % seed
            made = loaded.generate(
                prompt,
                temperature=temperature,
                top_p=0.9,
                seed=seed,
                limit=200,
                control=control,
                dose=dose,
            )

            assert made == generate(
                oracle, prompt, temperature, 0.9, seed, 200, **{name: dose}
            )

    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    @pytest.mark.parametrize("control", [CAUTION, VERVE])
    def test_each_dose_has_its_own_output(
        self, loaded: Sequences, control: int, temperature: float
    ) -> None:
        """And none of them is that without a selection; eight prompts tell."""
        chosen = [(control, dose) for dose in self.DOSES]
        outputs = {
            tuple(
                loaded.generate(
                    b"%d" % n, temperature=temperature, control=row, dose=dose
                )
                for n in range(8)
            )
            for row, dose in [(-1, 0), *chosen]
        }

        assert len(outputs) == 5

    def test_verve_makes_words_shorter(self, loaded: Sequences) -> None:
        """More spaces with every step of the dose, over many prompts."""
        counts = []
        for dose in (-10000, -5000, 5000, 10000):
            outputs = [
                loaded.generate(b"%d" % n, limit=90, control=VERVE, dose=dose)[0]
                for n in range(60)
            ]
            counts.append(sum(output.count(b" ") for output in outputs))

        assert counts == sorted(set(counts))

    def test_caution_agrees_more(self, loaded: Sequences) -> None:
        """Prompts that differ say more of the same with every step of the dose."""
        counts = []
        for dose in (-10000, -5000, 5000, 10000):
            outputs = [
                loaded.generate(b"%d" % n, limit=20, control=CAUTION, dose=dose)[0]
                for n in range(120)
            ]
            counts.append(len({output[:6] for output in outputs}))

        assert counts == sorted(set(counts), reverse=True)

    def test_a_selection_ends_with_its_sequence(self, loaded: Sequences) -> None:
        """The slot's next sequence begins without."""
        base = loaded.generate(PROMPT)
        loaded.generate(PROMPT, control=VERVE, dose=10000)

        assert loaded.generate(PROMPT) == base

    def test_a_fixed_output_stays(self, loaded: Sequences) -> None:
        made = loaded.generate(PROMPT, role=3, control=CAUTION, dose=-10000)

        assert made == (b"\x00exact\xff", 8, 1)


class TestEnds:
    """
    Limit and end token.
    """

    def test_limit_is_finish_2(self, loaded: Sequences) -> None:
        """The last token that the limit allows is a byte."""
        data, tokens, finish = loaded.generate(PROMPT, limit=7)

        assert (len(data), tokens, finish) == (7, 7, 2)

    def test_end_token_exactly_at_the_limit_is_finish_1(
        self, loaded: Sequences
    ) -> None:
        """cases D 68, on the model's own end."""
        data, tokens, _ = loaded.generate(PROMPT, limit=4096)

        assert loaded.generate(PROMPT, limit=tokens) == (data, tokens, 1)
        assert loaded.generate(PROMPT, limit=tokens - 1) == (data, tokens - 1, 2)

    def test_fixed_output_is_exact_and_then_ends(self, loaded: Sequences) -> None:
        """Bytes that are no text come out as they are, whatever the request says."""
        for options in ({}, {"temperature": 2.0, "seed": 9}):
            made = loaded.generate(PROMPT, role=3, **options)

            assert made == (b"\x00exact\xff", 8, 1)

    @pytest.mark.parametrize(
        ("limit", "result"),
        [(6, (b"\x00exact", 6, 2)), (7, (b"\x00exact\xff", 7, 2))],
    )
    def test_fixed_output_is_cut_at_the_limit(
        self, loaded: Sequences, limit: int, result: tuple[bytes, int, int]
    ) -> None:
        """The end token needs a token of the limit."""
        assert loaded.generate(PROMPT, role=3, limit=limit) == result
        assert loaded.generate(PROMPT, role=3, limit=8)[2] == 1

    def test_largest_and_empty_fixed_output(self) -> None:
        """65,536 bytes, and none: the end token alone."""
        sequences, data = Sequences(), random.Random(1).randbytes(FIXED_BYTES_MAX)
        sequences.load(CORPUS, role=2, fixed=data)
        sequences.load(CORPUS, role=4, fixed=b"")

        assert sequences.generate(b"", limit=2**30) == (data, len(data) + 1, 1)
        assert sequences.generate(b"", role=4) == (b"", 1, 1)

    def test_an_ended_sequence_makes_nothing(self, loaded: Sequences) -> None:
        """Until the slot is opened again."""
        loaded.generate(PROMPT, limit=3)

        assert loaded.step(1) == (b"", 0, 0)
        assert loaded.step(3) == (b"", 0, 0)

    def test_slots_do_not_mix(self, loaded: Sequences, oracle: Model) -> None:
        """Three sequences of three roles, stepped in turns, equal those run alone."""
        loaded.open(1, b"one", temperature=1.0, seed=5, limit=200)
        loaded.open(2, b"two", role=3)
        loaded.open(3, b"three", role=4, limit=100)
        outputs = {1: b"", 2: b"", 3: b""}
        for turn in range(400):
            for slot in outputs:
                outputs[slot] += loaded.step(slot, turn * 10_000_000)[0]

        assert outputs[1] == generate(oracle, b"one", 1.0, 1.0, 5, 200)[0]
        assert outputs[2] == b"\x00exact\xff"
        assert outputs[3] == generate(oracle, b"three", 0.0, 1.0, 1, 100)[0]


class TestSteps:
    """
    How much one step makes.
    """

    def test_a_step_makes_at_most_32_tokens(self, loaded: Sequences) -> None:
        """A tick's work for a slot is bounded."""
        loaded.open(1, PROMPT, limit=REFERENCE_TOKENS_PER_TICK + 1)

        assert [loaded.step(1)[1:] for _ in range(2)] == [(32, 0), (1, 2)]

    def test_room_is_kept(self, loaded: Sequences) -> None:
        """No byte is written past it, and none is lost."""
        whole, _, _ = loaded.generate(PROMPT, limit=20)
        loaded.open(1, PROMPT, limit=20)

        assert loaded.step(1, room=0) == (b"", 0, 0)
        assert loaded.step(1, room=1) == (whole[:1], 1, 0)
        assert loaded.step(1, room=19) == (whole[1:], 19, 2)

    def test_rate_counts_from_the_first_step(self, loaded: Sequences) -> None:
        """1,000 tokens/s: one at once, then one each ms, none 1 ns too early."""
        ms = SECOND // 1000
        start = 5 * SECOND
        loaded.open(1, PROMPT, role=4)

        assert loaded.due_ns(1, start) == start
        assert loaded.step(1, start)[1] == 1
        assert loaded.due_ns(1, start) == start + ms
        assert loaded.step(1, start + ms - 1)[1] == 0
        assert loaded.step(1, start + ms)[1] == 1
        assert loaded.step(1, start + 6 * ms)[1] == 5
        assert loaded.step(1, start + 600 * ms)[1] == REFERENCE_TOKENS_PER_TICK
        assert loaded.due_ns(1, start + 600 * ms) == start + 39 * ms

    @pytest.mark.parametrize("rate", [1, 3, 999_999, 1_000_000])
    def test_due_is_rounded_up(self, rate: int) -> None:
        """Token k is due ceil(k · 10^9 / rate) ns after the first step."""
        sequences = Sequences()
        sequences.load(CORPUS[:200], rate=rate)
        sequences.open(1, PROMPT, limit=1000)
        now, made = 7, 0
        while made < 100:
            tokens = sequences.step(1, now)[1]
            made += tokens
            assert tokens >= 1
            now = sequences.due_ns(1, now)
            assert now == 7 + -(-made * SECOND // rate)

    def test_without_a_rate_the_next_token_is_due_now(self, loaded: Sequences) -> None:
        """Before and after the first step."""
        loaded.open(1, PROMPT)
        assert loaded.due_ns(1, 77) == 77
        loaded.step(1, 77)
        assert loaded.due_ns(1, 78) == 78


class TestTable:
    """
    Loading a corpus.
    """

    def test_second_role_shares_the_table(self, loaded: Sequences) -> None:
        """The same corpus again is no work and changes nothing."""
        before = loaded.region.tobytes()

        assert loaded.load(CORPUS, role=3, fixed=b"\x00exact\xff") == LOADED
        assert loaded.region.tobytes() == before

    def test_another_corpus_is_refused(self, loaded: Sequences) -> None:
        """Nothing changes, the role's options neither."""
        before = loaded.region.tobytes()

        assert loaded.load(CORPUS + b"x", rate=9) == OTHER_CORPUS
        assert loaded.region.tobytes() == before

    def test_corpus_bytes_limit(self) -> None:
        """65,536 bytes are taken, one more is refused."""
        assert Sequences().load(b"ab" * (CORPUS_BYTES_MAX // 2)) == LOADED
        sequences = Sequences()
        before = sequences.region.tobytes()

        assert sequences.load(b"a" * (CORPUS_BYTES_MAX + 1)) == CORPUS_TOO_LARGE
        assert sequences.region.tobytes() == before

    def test_contexts_limit(self) -> None:
        """24,576 contexts are taken; a corpus that makes more leaves nothing behind."""
        exact, over = _corpora_at_the_context_limit()
        sequences = Sequences()
        before = sequences.region.tobytes()

        assert sequences.load(over) == CORPUS_TOO_LARGE
        assert sequences.region.tobytes() == before
        assert sequences.load(exact) == LOADED
        assert int(sequences.region["ref_contexts"][0, 0]) == CONTEXTS_MAX


def _corpora_at_the_context_limit() -> tuple[bytes, bytes]:
    """A corpus of exactly CONTEXTS_MAX contexts, and one of more."""
    draw = random.Random(2)
    while True:
        data = bytes(draw.randrange(11, 256) for _ in range(6200))
        low, high = 0, len(data)
        while high - low > 1:
            middle = (low + high) // 2
            if len(Model(data[:middle]).rows) > CONTEXTS_MAX:
                high = middle
            else:
                low = middle
        if len(Model(data[:low]).rows) == CONTEXTS_MAX:
            return data[:low], data[:high]


class TestNumbers:
    """
    Fixed-point numbers.
    """

    @given(st.floats(0, 2, width=32))
    def test_q16_is_exact(self, value: float) -> None:
        """floor(65536 · x), at least 1 unless x is 0."""
        assert q16_of_f32(f32_bits(value)) == q16(value)

    @pytest.mark.parametrize(
        ("value", "result"),
        [
            (0.0, 0),
            (-0.0, 0),
            (1e-45, 1),
            (2**-17, 1),
            (2**-16, 1),
            (2**-15, 2),
            (1.0, 65536),
            (2.0, 131072),
        ],
    )
    def test_q16_edges(self, value: float, result: int) -> None:
        """The smallest denormal, both sides of one unit, the ends of the range."""
        assert q16_of_f32(f32_bits(value)) == result

    def test_tables(self) -> None:
        """Each entry is the floor of the real number."""
        for index, entry in enumerate(EXP2):
            assert 0 <= 65536 * 2 ** (-index / 256) - entry < 1.0001
        for count in range(1, 1024):
            assert 2 ** (LOG2[count] / 256) <= count * 1.000001
            assert 2 ** ((LOG2[count] + 1) / 256) > count * 0.999999


@pytest.mark.parametrize("simulator", ["0", "1"])
def test_targets_agree(simulator: str) -> None:
    """
    Compiled, as plain Python and in the CUDA simulator: the same bytes of output and
    the same device memory, without one overflow warning.
    """
    shown = []
    for flags in ({}, {"NUMBA_DISABLE_JIT": "1", "NUMBA_ENABLE_CUDASIM": simulator}):
        done = subprocess.run(
            [
                sys.executable,
                "-W",
                "error::RuntimeWarning",
                "-m",
                "tests.device.reference_harness",
            ],
            env={**os.environ, **flags},
            capture_output=True,
            check=False,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        shown.append(json.loads(done.stdout))

    assert shown[0] == shown[1]
    assert len({output for output, _, _ in shown[0]["outputs"]}) == 5
