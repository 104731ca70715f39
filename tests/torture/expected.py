"""
What the reference model must answer, from `docs/reference-model.md` alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from tests.device.reference_oracle import Model, generate
from tests.processes import ROOT

#: Aliases of `gateway.json`: a model that answers the prompt, and one that always says
#: the same long thing.
ANSWERING: Final = "reference"
RECITING: Final = "long"
#: Bytes of what is recited: no two places of eight bytes in it are alike.
RECITED: Final = random.Random(2).randbytes(6000)
#: Tokens after which every answer of the shipped corpus has ended.
TOKENS_MAX: Final = 4000
#: Prompts whose answers are kept.
KEPT_MAX: Final = 20_000

CORPUS: Final[Path] = ROOT / "twisted_aotx" / "engines" / "corpus.txt"
_HEAD, _TAIL = b"<|im_start|>user\n", b"<|im_end|>\n"
_ANSWER = b"<|im_start|>assistant\n<think>\n\n</think>\n\n"


@attrs.frozen
class Source:
    """
    A media source that a prompt refers to; `rows` counts as prompt tokens.
    """

    handle: str
    modality: str
    sha256: str
    rows: int


@attrs.frozen
class Task:
    """
    One user message, at temperature 0.
    """

    model: str
    text: str = attrs.field(repr=False)
    limit: int
    sources: tuple[Source, ...] = ()

    @property
    def rendered(self) -> bytes:
        """As ChatML, sources first (`device.md` §5)."""
        links = "".join(f"[{each.modality}:{each.sha256}]" for each in self.sources)
        return _HEAD + links.encode() + self.text.encode() + _TAIL + _ANSWER


@attrs.frozen
class Expected:
    """
    The one right answer to a task that nobody ends.
    """

    prompt_tokens: int
    data: bytes = attrs.field(repr=False)
    tokens: int
    finish: str


#: What a history is judged with.
Answers = Callable[[Task], Expected]


@attrs.define
class Oracle:
    """
    Answers tasks; a prompt's whole answer is computed once.
    """

    _model: Model | None = None
    _kept: dict[tuple[bytes, tuple[str, ...]], tuple[bytes, int]] = attrs.field(
        factory=dict
    )

    def __call__(self, task: Task) -> Expected:
        data, tokens = self._whole(task)
        rows = sum(source.rows for source in task.sources)
        prompt = len(task.rendered) + rows
        if tokens <= task.limit:
            return Expected(prompt, data, tokens, "stop")
        return Expected(prompt, data[: task.limit], task.limit, "length")

    def _whole(self, task: Task) -> tuple[bytes, int]:
        """Output and tokens, the end token included, under no limit."""
        if task.model == RECITING:
            return RECITED, len(RECITED) + 1
        digests = tuple(source.sha256 for source in task.sources)
        key = task.rendered, digests
        if key not in self._kept:
            if self._model is None:
                self._model = Model(CORPUS.read_bytes())
            raw = [bytes.fromhex(digest) for digest in digests]
            made = generate(
                self._model, task.rendered, 0.0, 1.0, 0, TOKENS_MAX, digests=raw
            )
            assert made[2] == 1, "an answer that does not end"
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept[key] = made[:2]
        return self._kept[key]
