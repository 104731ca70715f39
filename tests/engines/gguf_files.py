"""
GGUF files made for tests: whole, odd and broken ones.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

#: ChatML, as SmolLM2 has it but for its default system message.
CHATML_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' "
    "+ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

#: What a model must say: 2 layers, 4 heads of 16 sharing 2, context 512.
MODEL: Mapping[str, Any] = {
    "general.architecture": "llama",
    "general.name": "Tiny",
    "general.license": "apache-2.0",
    "llama.context_length": 512,
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "tokenizer.ggml.tokens": ["<|im_start|>", "<|im_end|>", "a", "b"],
    "tokenizer.ggml.bos_token_id": 0,
    "tokenizer.ggml.eos_token_id": 1,
    "tokenizer.chat_template": CHATML_TEMPLATE,
}


@attrs.frozen
class Array:
    """
    An array with the value type of its items.
    """

    kind: int
    items: Sequence[Any]


@attrs.frozen
class Typed:
    """
    A scalar with its value type.
    """

    kind: int
    value: Any


_CODES = dict(zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True))


def string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def packed(value: Any) -> bytes:
    """A value with its type before it: int is u32, str a string, a list an array."""
    if isinstance(value, Typed):
        return struct.pack(f"<I{_CODES[value.kind]}", value.kind, value.value)
    if isinstance(value, Array):
        items = b"".join(
            string(item)
            if value.kind == 8
            else struct.pack(f"<{_CODES[value.kind]}", item)
            for item in value.items
        )
        return struct.pack("<IIQ", 9, value.kind, len(value.items)) + items
    if isinstance(value, bool):
        return packed(Typed(7, value))
    if isinstance(value, int):
        return packed(Typed(4, value))
    if isinstance(value, float):
        return packed(Typed(6, value))
    if isinstance(value, list):
        return packed(Array(8 if isinstance(value[0], str) else 4, value))
    return struct.pack("<I", 8) + string(value)


def gguf(
    values: Mapping[str, Any],
    tensors: Sequence[tuple[str, tuple[int, ...], int, int]] = (),
    *,
    version: int = 3,
    data: bytes = b"",
) -> bytes:
    """
    A file with *values*, and *tensors* as (name, dimensions, type, offset).
    """
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values))
    head += b"".join(string(key) + packed(value) for key, value in values.items())
    for name, dimensions, kind, offset in tensors:
        head += string(name) + struct.pack("<I", len(dimensions))
        head += struct.pack(f"<{len(dimensions)}QIQ", *dimensions, kind, offset)
    return head + bytes(-len(head) % 32) + data


def model(without: Sequence[str] = (), **values: Any) -> bytes:
    """
    The file of `MODEL` with other *values* (`__` stands for a dot), one tensor of
    64 × 4 in Q4_1 and one of 8 in F32.
    """
    merged = {**MODEL, **{key.replace("__", "."): each for key, each in values.items()}}
    for key in without:
        del merged[key]
    tensors = [("blk.0.q", (64, 4), 3, 0), ("norm", (8,), 0, 160)]
    return gguf(merged, tensors, data=bytes(192))
