"""
Small language models as GGUF files, written from nothing: what a test needs a model to
do, it can make one do, in milliseconds and without a download.

A model has one token for each byte, control tokens behind them, and either weights by
chance (its output depends on every token before) or a table of successors (each token
is followed by the one that the table says).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from tests.engines.gguf_files import Array, gguf

#: As in GGUF: types of items, and the type of tensors.
_I32: Final = 5
_F32: Final = 6
_TENSOR_F32: Final = 0
#: `tokenizer.ggml.token_type`.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6

#: The vocabulary's marks, behind the 256 bytes.
BEGIN, END, OPEN = 256, 257, 258
MARKS: Final = ("<s>", "</s>", "<|im_start|>")

TEMPLATE: Final = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + eos_token + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@attrs.frozen(kw_only=True)
class Tiny:
    """
    What to write.
    """

    seed: int = 1
    context: int = 4096
    embedding: int = 64
    layers: int = 2
    feed_forward: int = 128
    #: Token → the one that follows. None: by chance.
    successors: Mapping[int, int] | None = None
    #: Texts of the tokens behind the bytes, and their types.
    marks: Sequence[str] = MARKS
    mark_type: int = CONTROL
    adds_begin: bool = False
    #: SentencePiece instead of byte pairs: text gets a space in front.
    is_sentencepiece: bool = False
    template: str | None = TEMPLATE

    def write(self, path: Path) -> Path:
        """The file; what it was made from says all about it."""
        tensors, data = [], b""
        for name, array in self._tensors().items():
            shape = array.shape[::-1]
            tensors.append((f"{name}.weight", shape, _TENSOR_F32, len(data)))
            # Sizes are multiples of the alignment.
            data += array.astype("<f4").tobytes()
        path.write_bytes(gguf(self._values(), tensors, data=data))
        return path

    # --- metadata -----------------------------------------------------------------

    @property
    def tokens(self) -> list[str]:
        """Texts of the vocabulary as the file holds them."""
        if self.is_sentencepiece:
            singles = [f"<0x{byte:02X}>" for byte in range(256)]
            words = ["\u2581", *(chr(each) for each in range(33, 127)), "\u2581hi"]
            return [*singles, *self.marks, *words]
        return [*_byte_texts(), *self.marks]

    def _values(self) -> dict[str, Any]:
        tokens = self.tokens
        after = len(tokens) - 256 - len(self.marks)
        singles = BYTE if self.is_sentencepiece else NORMAL
        types = [singles] * 256 + [self.mark_type] * len(self.marks) + [NORMAL] * after
        heads = max(1, self.embedding // 32)
        values: dict[str, Any] = {
            "general.architecture": "llama",
            "general.name": "tiny",
            "llama.context_length": self.context,
            "llama.embedding_length": self.embedding,
            "llama.block_count": self.layers,
            "llama.feed_forward_length": self.feed_forward,
            "llama.attention.head_count": heads,
            "llama.attention.head_count_kv": heads,
            "llama.attention.layer_norm_rms_epsilon": 1e-5,
            "llama.rope.dimension_count": self.embedding // heads,
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": Array(_I32, types),
            "tokenizer.ggml.bos_token_id": BEGIN,
            "tokenizer.ggml.eos_token_id": END,
            "tokenizer.ggml.add_bos_token": self.adds_begin,
        }
        if self.is_sentencepiece:
            scores = [float(-place) for place in range(len(tokens))]
            values["tokenizer.ggml.model"] = "llama"
            values["tokenizer.ggml.scores"] = Array(_F32, scores)
            values["tokenizer.ggml.unknown_token_id"] = 0
        else:
            values["tokenizer.ggml.model"] = "gpt2"
            values["tokenizer.ggml.pre"] = "gpt-2"
            # There has to be one; no text has these two next to each other.
            values["tokenizer.ggml.merges"] = ["\u0100 \u0100"]
        if self.template is not None:
            values["tokenizer.chat_template"] = self.template
        return values

    # --- weights --------------------------------------------------------------------

    def _tensors(self) -> dict[str, np.ndarray[Any, Any]]:
        """By name, in the library's order of dimensions reversed: rows are outputs."""
        chance = np.random.default_rng(self.seed)
        size, count = self.embedding, len(self.tokens)
        by_table = self.successors is not None

        def weights(rows: int, columns: int) -> np.ndarray[Any, Any]:
            if by_table:
                return np.zeros((rows, columns))
            return chance.normal(0, columns**-0.5, (rows, columns))

        embedding = chance.normal(0, 1, (count, size))
        output = chance.normal(0, 2 * size**-0.5, (count, size))
        # Nothing of it points where an end token does, so outputs are long.
        output[list(range(256, 256 + len(self.marks)))] = 0
        if self.successors is not None:
            output[:] = 0
            for token, follower in self.successors.items():
                output[follower] += embedding[token]
        tensors = {"token_embd": embedding}
        for layer in range(self.layers):
            for name, rows, columns in (
                *((f"attn_{part}", size, size) for part in ("q", "k", "v", "output")),
                ("ffn_gate", self.feed_forward, size),
                ("ffn_up", self.feed_forward, size),
                ("ffn_down", size, self.feed_forward),
            ):
                tensors[f"blk.{layer}.{name}"] = weights(rows, columns)
            for name in ("attn_norm", "ffn_norm"):
                tensors[f"blk.{layer}.{name}"] = np.ones(size)
        tensors["output_norm"] = np.ones(size)
        tensors["output"] = output
        return tensors


def successors(text: bytes, first: int = ord("\n")) -> dict[int, int]:
    """
    A table that says *text*, then END, behind *first*; a byte may stand in it once.
    """
    chain = [first, *text, END]
    table = dict(itertools.pairwise(chain))
    assert len(table) == len(chain) - 1, "a byte has one successor"
    return table


def _byte_texts() -> list[str]:
    """How vocabularies of byte pairs spell each byte: printable ones as themselves."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    texts, spare = [], 0
    for byte in range(256):
        if byte in plain:
            texts.append(chr(byte))
        else:
            texts.append(chr(256 + spare))
            spare += 1
    return texts
