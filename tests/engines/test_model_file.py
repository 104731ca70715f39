"""
The facts of a model file: names, KV cache, template, what is refused.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import io
from pathlib import Path
from typing import Any

import pytest

from tests.engines.gguf_files import CHATML_TEMPLATE, Array, Typed, gguf, model
from twisted_aotx.engines.gguf import ModelFileError, read_gguf
from twisted_aotx.engines.model_file import ModelFile, describe, read_model_file
from twisted_aotx.engines.tensor_types import TENSOR_TYPES


def facts(data: bytes) -> ModelFile:
    return describe(read_gguf(io.BytesIO(data), len(data)), len(data))


def changed(**values: Any) -> ModelFile:
    return facts(model(**values))


def reason(data: bytes) -> str:
    with pytest.raises(ModelFileError) as caught:
        facts(data)
    return str(caught.value)


def test_the_facts_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(model())

    assert read_model_file(path) == ModelFile(
        size=path.stat().st_size,
        architecture="llama",
        name="Tiny",
        licence="apache-2.0",
        context_tokens=512,
        vocabulary=4,
        layers=2,
        embedding=64,
        # 2 layers × 2 heads × (16 + 16) numbers × 2 bytes.
        kv_bytes_per_token=256,
        parameters=264,
        quantisation="Q4_1",
        chat_template=CHATML_TEMPLATE,
        bos_id=0,
        eos_id=1,
        bos="<|im_start|>",
        eos="<|im_end|>",
    )


def test_what_a_file_may_lack() -> None:
    optional = (
        "general.name",
        "general.license",
        "tokenizer.chat_template",
        "tokenizer.ggml.bos_token_id",
        "tokenizer.ggml.eos_token_id",
    )
    found = facts(model(without=optional))

    assert (found.name, found.licence, found.chat_template) == ("", "", None)
    assert (found.bos_id, found.eos_id, found.bos, found.eos) == (None, None, "", "")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # As many KV heads as heads.
        ({"llama__attention__head_count_kv": 4}, 512),
        # Lengths of their own.
        ({"llama__attention__key_length": 24}, 2 * 2 * (24 + 16) * 2),
        ({"llama__attention__value_length": 8}, 2 * 2 * (16 + 8) * 2),
        # A number for each layer; a layer without attention.
        ({"llama__attention__head_count_kv": Array(5, [1, 3])}, 256),
        ({"llama__attention__head_count_kv": Array(4, [0, 4])}, 256),
        (
            {
                "llama__attention__head_count": Array(4, [0, 4]),
                "llama__attention__head_count_kv": Array(4, [0, 2]),
            },
            128,
        ),
        # No attention at all.
        (
            {"llama__attention__head_count": 0, "llama__attention__head_count_kv": 0},
            0,
        ),
        # Lengths that differ by layer: the longest bounds them.
        ({"llama__attention__key_length": Array(4, [8, 16])}, 256),
    ],
)
def test_the_kv_cache_of_a_token(values: dict[str, Any], expected: int) -> None:
    assert changed(**values).kv_bytes_per_token == expected


def test_without_kv_heads_every_head_has_its_own() -> None:
    assert facts(
        model(without=["llama.attention.head_count_kv"])
    ).kv_bytes_per_token == (2 * 4 * 32 * 2)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"general__architecture": ""}, "does not name its architecture"),
        ({"general__architecture": "other"}, "nothing under 'other.block_count'"),
        ({"general__type": "adapter"}, "no language model but of type 'adapter'"),
        ({"general__type": "mmproj"}, "no language model but of type 'mmproj'"),
        ({"split__count": Typed(2, 3)}, "one of 3 parts; join them with"),
        ({"llama__context_length": 0}, "0 under 'llama.context_length'"),
        ({"llama__context_length": 2**31}, "under 'llama.context_length'"),
        ({"llama__context_length": "512"}, "b'512' under 'llama.context_length'"),
        ({"llama__context_length": True}, "True under 'llama.context_length'"),
        ({"llama__block_count": 4097}, "4097 under 'llama.block_count'"),
        ({"llama__attention__head_count": Typed(5, -1)}, "-1 under"),
        (
            {"llama__attention__head_count_kv": Array(4, [1, 2, 3])},
            "no number for each of its layers in 'llama.attention.head_count_kv'",
        ),
        (
            {"llama__attention__head_count_kv": Array(5, [1, -2])},
            "no number for each of its layers",
        ),
        ({"tokenizer__ggml__tokens": 4}, "has no vocabulary"),
        ({"tokenizer__ggml__eos_token_id": Typed(5, -1)}, "-1 under"),
    ],
)
def test_what_is_no_language_model_of_ours(values: dict[str, Any], said: str) -> None:
    assert said in reason(model(**values))


@pytest.mark.parametrize(
    "key",
    [
        "general.architecture",
        "llama.context_length",
        "llama.block_count",
        "llama.embedding_length",
        "tokenizer.ggml.tokens",
    ],
)
def test_what_a_language_model_cannot_lack(key: str) -> None:
    reason(model(without=[key]))


def test_a_single_part_is_whole() -> None:
    assert changed(split__count=Typed(2, 1), general__type="model").layers == 2


def test_texts_are_fit_for_a_terminal() -> None:
    found = changed(general__name="a\x1b[2J\nb" + "c" * 300)

    assert found.name == "a [2J b" + "c" * 193


def test_tokens_that_are_not_there_have_no_text() -> None:
    assert changed(tokenizer__ggml__bos_token_id=4).bos == ""


def test_the_quantisation_is_that_of_most_bytes() -> None:
    tensors = [("a", (64,), 0, 0), ("b", (32,), 3, 256), ("c", (1000,), 999, 276)]
    base = read_gguf(io.BytesIO(model()), 1 << 20)
    other = gguf({}, tensors, data=bytes(300))
    mixed = read_gguf(io.BytesIO(other), len(other))

    assert describe(type(base)(base.values, mixed.tensors[:2]), 1).quantisation == "F32"
    assert describe(type(base)(base.values, mixed.tensors), 1).quantisation == "?"
    assert describe(type(base)(base.values, ()), 1).quantisation == "?"


def test_types_of_tensors_are_those_of_the_library() -> None:
    """Names and sizes, by the C functions inside the pinned wheel."""
    try:
        wheel = importlib.metadata.distribution("xllamacpp")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("xllamacpp is not installed")
    (path,) = (each for each in wheel.files or () if each.match("xllamacpp/*.so"))
    library = ctypes.CDLL(str(path.locate()))
    library.ggml_type_name.restype = ctypes.c_char_p
    library.ggml_type_size.restype = ctypes.c_size_t
    library.ggml_blck_size.restype = ctypes.c_int64

    for number, kind in TENSOR_TYPES.items():
        assert library.ggml_type_name(number).decode().lower() == kind.name.lower()
        assert library.ggml_blck_size(number) == kind.elements
        assert library.ggml_type_size(number) == kind.bytes
