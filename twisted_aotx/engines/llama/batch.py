"""
Continuous batching: each step decodes one row of every running sequence and, with what
room is left, rows of the prompts that wait.

Theory of operation. A sequence has an index in the context's memory, its tokens so far
in there (`position`), and one token that was sampled and is not in there yet. A step
plans its rows, decodes them in one call, and only then moves positions and samples: a
step that was aborted changes nothing that matters.

Rules:
1. Running sequences come first: a step holds a row of each. Prompts share at most
   `prefill_rows` more, evenly, so that a long one delays no short one behind it.
2. Every sequence has a sampler chain of its own; nothing of it depends on others.
3. The last sampled token is an end token or the limit's, never both: an end token is
   emitted without bytes, and finishes with STOP also exactly at the limit.
4. Rows stand in the order of their indexes: the library computes neighbours together.
5. `interrupt` aborts a step only when its prompt rows are all of that one sequence, and
   never two steps in a row, so that nobody can keep others from going on.

One thread calls everything but `interrupt`, which any thread may call.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Final

import attrs

from twisted_aotx.engines.llama.binding import Library
from twisted_aotx.engines.llama.context import make_context
from twisted_aotx.engines.llama.model import Model, ModelError
from twisted_aotx.engines.llama.sampling import sampler_chain
from twisted_aotx.engines.llama.structures import ABORT_CALLBACK
from twisted_aotx.wire.numbers import Finish

#: Sequences that the library can hold (`LLAMA_MAX_SEQ`).
SEQUENCES_MAX: Final = 256
#: What `llama_decode` gives back when it was aborted.
_ABORTED: Final = 2


class BatchFault(ModelError):
    """
    The library failed in a way that leaves its context unusable.
    """


@attrs.frozen
class Emission:
    """
    What a sequence sampled in a step: one token.
    """

    slot: int
    generation: int
    data: bytes = attrs.field(repr=False)
    #: `Finish.NONE` while it goes on; else the sequence is freed.
    finish: Finish


@attrs.define(eq=False)
class _Sequence:
    slot: int
    generation: int
    #: In the context's memory.
    index: int
    #: Tokens, which are as good as its text.
    prompt: list[int] = attrs.field(repr=False)
    limit: int
    chain: Any
    #: Rows in memory.
    position: int = 0
    #: Sampled, but not in memory yet; −1 while the prompt is not.
    pending: int = -1
    sampled: int = 0

    @property
    def waiting(self) -> int:
        """Rows of the prompt that are not in memory yet."""
        return len(self.prompt) - self.position if self.pending < 0 else 0


class BatchEngine:
    """
    Sequences of one model.

    Args:
        library, model: As loaded.
        capacity: Sequences at once, 1..SEQUENCES_MAX.
        context: Tokens of one sequence; the library rounds it up.
        prefill_rows: Prompt rows in one step, 1 or more.

    Raises:
        ModelError: there is no memory for it, or the library does otherwise than asked.
    """

    def __init__(
        self,
        library: Library,
        model: Model,
        *,
        capacity: int,
        context: int,
        threads: int,
        prefill_rows: int,
    ) -> None:
        self._library = library
        self._model = model
        self._prefill_rows = prefill_rows
        rows = capacity + prefill_rows
        self._context = make_context(library, model, capacity, context, threads, rows)
        self._memory = library.get_memory(self._context)
        self._rows = library.batch_init(rows, 0, 1)
        self._free = list(range(capacity))
        self._sequences: dict[int, _Sequence] = {}
        #: Steps begun and ended.
        self.progress = 0
        #: Who may interrupt the step that runs; changed with the lock held.
        self._interruptible: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self._was_aborted = False
        # C code asks the flag in the middle of a step: no Python, no GIL.
        self._flag = ctypes.create_string_buffer(b"0", 2)
        self._asked = ctypes.cast(ctypes.CDLL(None).atoi, ABORT_CALLBACK)
        library.set_abort_callback(
            self._context, self._asked, ctypes.cast(self._flag, ctypes.c_void_p)
        )

    @property
    def context_tokens(self) -> int:
        """Tokens that a sequence can hold."""
        tokens: int = self._library.n_ctx_seq(self._context)
        return tokens

    @property
    def is_idle(self) -> bool:
        """Whether a step would do nothing."""
        return not self._sequences

    def attach(
        self,
        slot: int,
        generation: int,
        prompt: list[int],
        *,
        limit: int,
        temperature: float,
        top_p: float,
        seed: int,
    ) -> bool:
        """
        Begin a sequence; False if all are taken or its slot's is.

        Args:
            prompt: 1 token or more; with *limit*, at most `context_tokens`.
            seed: 64 bits.
        """
        if not self._free or slot in self._sequences:
            return False
        index = self._free.pop(0)
        chain = sampler_chain(self._library, temperature, top_p, seed)
        self._sequences[slot] = _Sequence(slot, generation, index, prompt, limit, chain)
        return True

    def release(self, slot: int, generation: int) -> None:
        """Free a sequence, if it is still there."""
        sequence = self._sequences.get(slot)
        if sequence is None or sequence.generation != generation:
            return
        del self._sequences[slot]
        self._library.memory_seq_rm(self._memory, sequence.index, -1, -1)
        self._library.sampler_free(sequence.chain)
        self._free.append(sequence.index)
        # The lowest first keeps the indexes in use close together (rule 4).
        self._free.sort()

    def interrupt(self, slot: int, generation: int) -> None:
        """
        Let the step that runs end early, if it works on this prompt alone (rule 5).
        """
        with self._lock:
            if self._interruptible == (slot, generation):
                self._flag.value = b"1"

    def step(self) -> list[Emission]:
        """
        Decode once; what was sampled, in no special order. Nothing if it was aborted.

        Raises:
            BatchFault: the engine cannot go on.
        """
        plan = self._plan()
        if not plan:
            return []
        self._rows.n_tokens = self._fill(plan)
        waiting = [each for each, _ in plan if each.waiting]
        if len(waiting) == 1 and self._model.can_forget and not self._was_aborted:
            with self._lock:
                self._interruptible = (waiting[0].slot, waiting[0].generation)
        self.progress += 1
        code = self._library.decode(self._context, self._rows)
        self.progress += 1
        with self._lock:
            self._interruptible = None
            self._flag.value = b"0"
        self._was_aborted = code == _ABORTED
        if self._was_aborted:
            self._take_back(plan)
            return []
        if code != 0:
            reason = self._library.complaint or "no reason given"
            raise BatchFault(f"llama_decode gave {code}: {reason}")
        return self._sample(plan)

    def close(self) -> None:
        """Free all but the model."""
        for sequence in list(self._sequences.values()):
            self.release(sequence.slot, sequence.generation)
        self._library.batch_free(self._rows)
        self._library.free(self._context)

    # --- a step ---------------------------------------------------------------

    def _plan(self) -> list[tuple[_Sequence, int]]:
        """(sequence, rows) of the next step (rules 1 and 4)."""
        rows: dict[int, tuple[_Sequence, int]] = {}
        waiting = []
        for each in self._sequences.values():
            if each.waiting:
                waiting.append(each)
            else:
                rows[each.index] = (each, 1)
        room = self._prefill_rows
        waiting.sort(key=lambda each: each.waiting)
        for place, each in enumerate(waiting):
            share = min(each.waiting, -(-room // (len(waiting) - place)))
            if share:
                rows[each.index] = (each, share)
            room -= share
        return [rows[index] for index in sorted(rows)]

    def _fill(self, plan: list[tuple[_Sequence, int]]) -> int:
        """Write the rows of *plan*; their number."""
        batch, row = self._rows, 0
        for each, count in plan:
            for place in range(count):
                position = each.position + place
                is_prompt = each.pending < 0
                batch.token[row] = each.prompt[position] if is_prompt else each.pending
                batch.pos[row] = position
                batch.n_seq_id[row] = 1
                batch.seq_id[row][0] = each.index
                batch.logits[row] = not is_prompt or position + 1 == len(each.prompt)
                row += 1
        return row

    def _take_back(self, plan: list[tuple[_Sequence, int]]) -> None:
        """Remove what an aborted step left in memory: part of it may be there."""
        for each, _ in plan:
            if not self._library.memory_seq_rm(
                self._memory, each.index, each.position, -1
            ):
                raise BatchFault("an aborted step cannot be taken back")

    def _sample(self, plan: list[tuple[_Sequence, int]]) -> list[Emission]:
        emissions, row = [], -1
        for each, count in plan:
            row += count
            each.position += count
            if each.waiting:
                continue
            token = self._library.sampler_sample(each.chain, self._context, row)
            each.pending = token
            each.sampled += 1
            data, finish = b"", Finish.NONE
            if self._model.is_end(token):
                finish = Finish.STOP
            else:
                data = self._model.piece(token)
                if each.sampled == each.limit:
                    finish = Finish.LENGTH
            emissions.append(Emission(each.slot, each.generation, data, finish))
        for emission in emissions:
            if emission.finish != Finish.NONE:
                self.release(emission.slot, emission.generation)
        return emissions
