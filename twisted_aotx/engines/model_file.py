"""
The facts of a model file that engines and `aotx model inspect` need.

For an engine: `read_model_file(path)` gives context length, chat template, the texts of
its begin and end tokens, and the KV cache's bytes per token; `memory.need` and
`memory.check` make the arithmetic of docs/models.md from it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from twisted_aotx.engines.gguf import (
    GGUF,
    TOKENS,
    ModelFileError,
    Tensor,
    Value,
    read_gguf,
)

#: Bytes of a number in the KV cache, f16.
KV_NUMBER_BYTES: Final = 2
#: Layers of a model; the largest have some 130.
LAYERS_MAX: Final = 4096
#: What `general.type` says of a file that is a whole model.
_WHOLE: Final = "model"


@attrs.frozen(kw_only=True)
class ModelFile:
    """
    What a GGUF file says about its model. Texts that it lacks are empty.
    """

    #: Bytes of the file.
    size: int
    architecture: str
    name: str
    licence: str
    #: Tokens that the model was trained for, 1 or more.
    context_tokens: int
    #: Tokens in its vocabulary.
    vocabulary: int
    layers: int
    #: Width of a row between layers.
    embedding: int
    #: Bytes of KV cache that one token of one sequence takes, all layers together.
    kv_bytes_per_token: int
    #: Weights.
    parameters: int
    #: The tensor type that holds the most bytes, like `Q4_1`; `?` for an unknown one.
    quantisation: str
    #: Jinja; None if the model has none.
    chat_template: str | None = attrs.field(repr=False)
    #: Ids of the tokens that begin and end a sequence, if the file names them.
    bos_id: int | None
    eos_id: int | None
    #: Their texts, as a template sees them.
    bos: str
    eos: str


def read_model_file(path: Path) -> ModelFile:
    """
    Read the head of the model file *path*: milliseconds, a tenth of a second for large
    vocabularies.

    Raises:
        ModelFileError: it is no whole GGUF language model, or it is cut short.
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        return describe(read_gguf(stream, size), size)


def describe(gguf: GGUF, size: int) -> ModelFile:
    """
    The facts in *gguf*, the head of a file of *size* bytes.

    Raises:
        ModelFileError: what every language model has is missing or out of range.
    """
    values = gguf.values
    _refuse_parts(values)
    architecture = _text(values, "general.architecture")
    if not architecture:
        raise ModelFileError("does not name its architecture")
    tokens = values.get(TOKENS, ())
    if not isinstance(tokens, tuple) or not tokens:
        raise ModelFileError("has no vocabulary: it is no language model")
    bos_id = _optional(values, "tokenizer.ggml.bos_token_id")
    eos_id = _optional(values, "tokenizer.ggml.eos_token_id")
    layers = _integer(values, f"{architecture}.block_count", LAYERS_MAX)
    template = values.get("tokenizer.chat_template")
    return ModelFile(
        size=size,
        architecture=architecture,
        name=_text(values, "general.name"),
        licence=_text(values, "general.license"),
        context_tokens=_integer(values, f"{architecture}.context_length"),
        vocabulary=len(tokens),
        layers=layers,
        embedding=_integer(values, f"{architecture}.embedding_length"),
        kv_bytes_per_token=_kv_bytes(values, architecture, layers),
        parameters=sum(tensor.elements for tensor in gguf.tensors),
        quantisation=_quantisation(gguf.tensors),
        chat_template=_decoded(template) if isinstance(template, bytes) else None,
        bos_id=bos_id,
        eos_id=eos_id,
        bos=_token(tokens, bos_id),
        eos=_token(tokens, eos_id),
    )


def _refuse_parts(values: Mapping[str, Value]) -> None:
    """A file that is one part of a model, or goes with one, cannot be served."""
    kind = _text(values, "general.type") or _WHOLE
    if kind != _WHOLE:
        raise ModelFileError(f"is no language model but of type {kind!a}")
    parts = _optional(values, "split.count")
    if parts is not None and parts > 1:
        raise ModelFileError(
            f"is one of {parts} parts; join them with llama-gguf-split --merge"
        )


def _kv_bytes(values: Mapping[str, Value], architecture: str, layers: int) -> int:
    """
    Bytes of KV cache per token: for each layer its KV heads × (key + value length).

    Layers that keep a window only, or a state of fixed size, are counted in full: the
    sum is a bound.
    """
    stem = f"{architecture}.attention."
    heads = _per_layer(values, stem + "head_count", layers)
    kv_heads = heads
    if stem + "head_count_kv" in values:
        kv_heads = _per_layer(values, stem + "head_count_kv", layers)
    embedding = _integer(values, f"{architecture}.embedding_length")
    key = max(_per_layer(values, stem + "key_length", layers), default=0)
    value = max(_per_layer(values, stem + "value_length", layers), default=0)
    total = 0
    for own, shared in zip(heads, kv_heads, strict=True):
        width = embedding // own if own else 0
        total += shared * ((key or width) + (value or width))
    return total * KV_NUMBER_BYTES


def _per_layer(values: Mapping[str, Value], key: str, layers: int) -> tuple[int, ...]:
    """A number for each layer: the same one, or a row of them."""
    value = values.get(key, 0)
    if isinstance(value, tuple):
        numbers = tuple(number for number in value if type(number) is int)
        if len(numbers) != layers or min(numbers, default=0) < 0:
            raise ModelFileError(f"has no number for each of its layers in {key!a}")
        return numbers
    return (_integer(values, key, low=0, default=0),) * layers


def _integer(
    values: Mapping[str, Value],
    key: str,
    high: int = 2**31 - 1,
    low: int = 1,
    default: int | None = None,
) -> int:
    value = values.get(key, default)
    if type(value) is not int or not low <= value <= high:
        found = "nothing" if value is None else ascii(value)[:40]
        raise ModelFileError(f"has {found} under {key!a}, not {low} .. {high}")
    return value


def _optional(values: Mapping[str, Value], key: str) -> int | None:
    return _integer(values, key, low=0) if key in values else None


def _text(values: Mapping[str, Value], key: str) -> str:
    """A short text for people; empty if there is none."""
    value = values.get(key, b"")
    text = _decoded(value) if isinstance(value, bytes) else ""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200]


def _decoded(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _token(tokens: tuple[object, ...], index: int | None) -> str:
    if index is None or index >= len(tokens):
        return ""
    token = tokens[index]
    return _decoded(token) if isinstance(token, bytes) else ""


def _quantisation(tensors: tuple[Tensor, ...]) -> str:
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        if tensor.type is None:
            sizes["?"] += tensor.elements
        else:
            sizes[tensor.type.name] += tensor.type.bytes_of(tensor.elements)
    return sizes.most_common(1)[0][0] if sizes else "?"
