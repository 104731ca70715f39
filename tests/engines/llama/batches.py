"""
Batch engines of small models, and a library that keeps what it was asked to decode.
"""

from __future__ import annotations

from typing import Any

import attrs

from twisted_aotx.engines.llama.batch import BatchEngine, Emission
from twisted_aotx.engines.llama.binding import Library
from twisted_aotx.engines.llama.model import Model
from twisted_aotx.wire.numbers import Finish

#: A row: sequence index, position, token, whether logits are wanted.
Row = tuple[int, int, int, bool]


class RecordingLibrary:
    """
    The real library; `calls` has the rows of each decode call.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self.calls: list[list[Row]] = []

    def decode(self, context: Any, batch: Any) -> int:
        self.calls.append(
            [
                (
                    batch.seq_id[row][0],
                    batch.pos[row],
                    batch.token[row],
                    bool(batch.logits[row]),
                )
                for row in range(batch.n_tokens)
            ]
        )
        code: int = self._library.decode(context, batch)
        return code

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)


@attrs.define
class Answer:
    """
    What a sequence has emitted.
    """

    data: bytes = b""
    tokens: int = 0
    finish: Finish = Finish.NONE


@attrs.define
class Driven:
    """
    An engine with what became of its sequences, by (slot, generation).
    """

    engine: BatchEngine
    model: Model
    answers: dict[tuple[int, int], Answer] = attrs.field(factory=dict)

    def attach(
        self, slot: int, prompt: bytes | list[int], generation: int = 1, **changes: Any
    ) -> None:
        tokens = list(prompt) if isinstance(prompt, bytes) else prompt
        fields = {"limit": 20, "temperature": 0.0, "top_p": 1.0, "seed": 0, **changes}
        assert self.engine.attach(slot, generation, tokens, **fields)
        self.answers[slot, generation] = Answer()

    def step(self) -> list[Emission]:
        emissions = self.engine.step()
        for each in emissions:
            answer = self.answers[each.slot, each.generation]
            assert answer.finish == Finish.NONE
            answer.data += each.data
            answer.tokens += 1
            answer.finish = each.finish
        return emissions

    def run(self) -> None:
        """Until nothing is left."""
        while not self.engine.is_idle:
            self.step()

    def answer(self, slot: int, prompt: bytes | list[int], **changes: Any) -> Answer:
        """Of one more sequence, with all that run."""
        self.attach(slot, prompt, **changes)
        name = (slot, changes.get("generation", 1))
        while self.answers[name].finish == Finish.NONE:
            self.step()
        return self.answers[name]


def driven(
    library: Any,
    model: Model,
    *,
    capacity: int = 8,
    prefill_rows: int = 64,
    **sizes: int,
) -> Driven:
    sizes = {"context": 1024, "threads": 1, **sizes}
    engine = BatchEngine(
        library, model, capacity=capacity, prefill_rows=prefill_rows, **sizes
    )
    return Driven(engine, model)
