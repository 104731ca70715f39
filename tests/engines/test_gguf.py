"""
The reader of GGUF heads: what it keeps, every bound, broken and hostile files.
"""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.gguf_files import Array, Typed, gguf, model, string
from twisted_aotx.engines import gguf as reader
from twisted_aotx.engines.gguf import GGUF, ModelFileError, read_gguf
from twisted_aotx.engines.tensor_types import TENSOR_TYPES


def read(data: bytes, size: int | None = None, **options: Any) -> GGUF:
    return read_gguf(io.BytesIO(data), len(data) if size is None else size, **options)


def reason(data: bytes, size: int | None = None) -> str:
    with pytest.raises(ModelFileError) as caught:
        read(data, size)
    return str(caught.value)


def test_every_type_of_value() -> None:
    values = {
        "u8": Typed(0, 255),
        "i8": Typed(1, -128),
        "u16": Typed(2, 65535),
        "i16": Typed(3, -32768),
        "u32": Typed(4, 2**32 - 1),
        "i32": Typed(5, -(2**31)),
        "f32": Typed(6, 0.5),
        "bool": Typed(7, True),
        "string": "é",
        "u64": Typed(10, 2**64 - 1),
        "i64": Typed(11, -(2**63)),
        "f64": Typed(12, 0.1),
        "numbers": Array(5, [1, -2]),
        "empty": Array(8, []),
    }

    found = read(gguf(values)).values

    assert found == {
        **{key: each.value for key, each in values.items() if isinstance(each, Typed)},
        "string": "é".encode(),
        "numbers": (1, -2),
    }
    assert found["bool"] is True


def test_arrays_of_strings_are_kept_when_asked() -> None:
    data = gguf({"a": ["x", "y"], "b": ["z"], "last": 7})

    assert read(data).values == {"last": 7}
    assert read(data, keep=["b"]).values == {"b": (b"z",), "last": 7}


def test_long_arrays_of_numbers_are_passed_over() -> None:
    most = reader.ITEMS_KEPT_MAX
    values = {"kept": Array(0, bytes(most)), "not": Array(0, bytes(most + 1)), "z": 1}

    assert set(read(gguf(values)).values) == {"kept", "z"}


@pytest.mark.parametrize("length", [0, 1, 7, 100, 300_000])
def test_vocabularies_larger_than_a_chunk(length: int) -> None:
    """Strings that end anywhere in a chunk, and one longer than a chunk."""
    words = ["w" * (index % 40) for index in range(30_000)]
    words[15_000] = "x" * length
    data = gguf({"words": words, "last": 7})

    assert read(data).values == {"last": 7}
    kept = read(data, keep=["words"]).values["words"]
    assert kept == tuple(word.encode() for word in words)


def test_version_2_is_read() -> None:
    assert read(gguf({"a": 1}, version=2)).values == {"a": 1}


def test_tensors_and_their_types() -> None:
    first, second = read(model()).tensors

    assert (first.name, first.elements) == (b"blk.0.q", 256)
    assert first.type is TENSOR_TYPES[3]
    assert first.type.bytes_of(256) == 160
    assert second.type is TENSOR_TYPES[0]


def test_a_tensor_of_unknown_type_is_none_of_our_business() -> None:
    (tensor,) = read(gguf({}, [("t", (4,), 999, 0)], data=b"0")).tensors

    assert tensor.type is None


def test_a_file_may_have_no_pairs_and_no_tensors() -> None:
    assert read(gguf({})) == GGUF({}, ())


# --- broken files ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "cut short: it ends after 0 bytes, in its metadata"),
        (b"GGUF", "cut short: it ends after 4 bytes"),
        (b"PK\x03\x04" + bytes(40), "is no GGUF file"),
        (b"GGUF" + struct.pack("<I", 1) + bytes(16), "GGUF version 1; known: 2, 3"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(16), "big-endian"),
    ],
)
def test_what_is_no_gguf_of_ours(data: bytes, said: str) -> None:
    assert said in reason(data)


def test_a_file_cut_anywhere_is_told_from_a_whole_one() -> None:
    """Padding behind the last tensor may be missing, nothing else."""
    whole = model()
    read(whole)

    for size in range(len(whole)):
        assert "cut short" in reason(whole[:size]), size


def test_a_cut_tensor_is_told_with_its_place() -> None:
    data = gguf({}, [("t", (32, 2), 8, 32)], data=bytes(32 + 68))

    read(data)
    assert reason(data[:-1]) == (
        f"is cut short: it has {len(data) - 1} bytes, but its tensors end at "
        f"{len(data)}"
    )


def test_the_alignment_counts() -> None:
    values = {"general.alignment": 4096}
    head = gguf(values, [("t", (4,), 0, 0)])

    assert "tensors end at 4,112" in reason(head, 4111)
    read(head, 4112)
    for wrong in (0, "32", -1.0, True):
        data = gguf({"general.alignment": wrong}, [("t", (1,), 0, 0)], data=bytes(64))
        assert "alignment" in reason(data)


# --- hostile files --------------------------------------------------------------------


def head(tensors: int, pairs: int, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, pairs) + rest


def pair(kind: int, *rest: bytes) -> bytes:
    return head(0, 1, string("key") + struct.pack("<I", kind) + b"".join(rest))


U64 = struct.Struct("<Q").pack


@pytest.mark.parametrize(
    ("make", "most", "said"),
    [
        (lambda n: head(0, n), reader.PAIRS_MAX, "metadata pairs"),
        (lambda n: head(n, 0), reader.TENSORS_MAX, "tensors"),
        (lambda n: head(0, 1, U64(n)), reader.KEY_BYTES_MAX, "bytes in 'a key'"),
        (lambda n: pair(8, U64(n)), reader.STRING_BYTES_MAX, "bytes in 'key'"),
        (
            lambda n: pair(9, b"\0\0\0\0", U64(n)),
            reader.ITEMS_MAX,
            "items under 'key'",
        ),
        (
            lambda n: pair(9, struct.pack("<IQ", 8, 1), U64(n)),
            reader.STRING_BYTES_MAX,
            "bytes in 'key'",
        ),
        (
            lambda n: head(1, 0, string("t") + struct.pack("<I", n)),
            reader.DIMENSIONS_MAX,
            "dimensions of b't'",
        ),
        (
            lambda n: head(1, 0, U64(n)),
            reader.KEY_BYTES_MAX,
            'bytes in "a tensor\'s name"',
        ),
    ],
)
def test_claims_are_bounded_before_anything_is_read(
    make: Any, most: int, said: str
) -> None:
    assert "cut short" in reason(make(most))
    assert reason(make(most + 1)) == (
        f"claims {most + 1:,} {said}; at most {most:,} are read"
    )


def test_metadata_are_bounded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {str(index): "x" * 1000 for index in range(1100)}
    data = gguf(values)
    monkeypatch.setattr(reader, "METADATA_BYTES_MAX", 1 << 20)

    assert reason(data) == "has more than 1 MiB of metadata"
    monkeypatch.setattr(reader, "METADATA_BYTES_MAX", len(data))
    assert len(read(data).values) == 1100


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pair(13), "a value of unknown type 13 under 'key'"),
        (pair(9, struct.pack("<IQ", 9, 1)), "an array of unknown type 9 under 'key'"),
        (pair(9, struct.pack("<IQ", 77, 1)), "an array of unknown type 77"),
    ],
)
def test_unknown_types_of_values(data: bytes, said: str) -> None:
    assert said in reason(data)


def test_keys_need_not_be_text() -> None:
    assert "'\\ufffdkey\\n'" in reason(
        head(0, 1, string(b"\xffkey\n") + struct.pack("<I", 99))
    )


@given(st.data())
def test_changed_bytes_are_read_or_refused(data: st.DataObject) -> None:
    changed = bytearray(model())
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(
            st.integers(0, 255)
        )

    said = ""
    try:
        read(bytes(changed))
    except ModelFileError as error:
        said = str(error)
    assert said.isprintable()
