"""
Reads what a GGUF file says about itself: metadata and the list of tensors.

Nothing is mapped and no weight is read, so it takes a tenth of a second where loading
takes one. It reads a stream and knows no file system, thread or clock.

For an engine: `read_gguf(stream, size)` once, then `values["tokenizer.chat_template"]`
and the like, or `model_file.describe` for the facts with names.

Bounds, each with an error of its own: `PAIRS_MAX`, `TENSORS_MAX`, `KEY_BYTES_MAX`,
`STRING_BYTES_MAX`, `ITEMS_MAX`, and `METADATA_BYTES_MAX` for all of it together.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from typing import BinaryIO, Final, TypeAlias

import attrs

from twisted_aotx.engines.tensor_types import TENSOR_TYPES, TensorType
from twisted_aotx.errors import EngineError

#: Versions with 64-bit counts; version 1 was written for a few weeks in 2023.
VERSIONS: Final = (2, 3)
#: Metadata pairs of a file.
PAIRS_MAX: Final = 65_536
#: Tensors of a file.
TENSORS_MAX: Final = 65_536
#: Bytes of a key or of a tensor's name (the format's own bound).
KEY_BYTES_MAX: Final = 65_535
#: Bytes of one string value.
STRING_BYTES_MAX: Final = 16 << 20
#: Items of one array; the largest vocabularies have some 300,000 tokens.
ITEMS_MAX: Final = 4 << 20
#: Items of an array of numbers that is kept: a row per layer, not per token.
ITEMS_KEPT_MAX: Final = 4096
#: Bytes of metadata and tensor list together; the largest known have 30 MiB.
METADATA_BYTES_MAX: Final = 128 << 20
#: Dimensions of a tensor.
DIMENSIONS_MAX: Final = 4
#: Where tensors may begin, unless `general.alignment` says otherwise.
ALIGNMENT_DEFAULT: Final = 32
#: Key of the texts of the vocabulary, the one array of strings that is kept.
TOKENS: Final = "tokenizer.ggml.tokens"

_CHUNK_BYTES: Final = 1 << 18
_STRING: Final = 8
_ARRAY: Final = 9
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
#: Value types with a fixed size, by their numbers in the file.
_SCALARS: Final[Mapping[int, struct.Struct]] = {
    kind: struct.Struct("<" + code)
    for kind, code in zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True)
}

Scalar: TypeAlias = int | float | bool | bytes
Value: TypeAlias = Scalar | tuple[Scalar, ...]


@attrs.define(slots=False)
class ModelFileError(EngineError):
    """
    A model file cannot be used.
    """

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.frozen
class Tensor:
    """
    A tensor's place in the file; its weights are not read.
    """

    name: bytes
    elements: int
    #: None for a type that this version does not know.
    type: TensorType | None


@attrs.frozen
class GGUF:
    """
    What the head of the file says.
    """

    #: By key. Strings are bytes. Arrays that are not kept are left out.
    values: Mapping[str, Value] = attrs.field(repr=False)
    tensors: tuple[Tensor, ...] = attrs.field(repr=False)


def read_gguf(stream: BinaryIO, size: int, keep: Collection[str] = (TOKENS,)) -> GGUF:
    """
    Read the head of a GGUF file and check that the file holds every tensor it lists.

    Args:
        stream: At the beginning of the file; where it stands afterwards is not defined.
        size: Bytes of the file.
        keep: Keys of the arrays of strings to keep; others are passed over. Arrays of
            up to `ITEMS_KEPT_MAX` numbers are always kept.

    Raises:
        ModelFileError: it is no GGUF file, is cut short, or exceeds a bound.
        OSError: the stream's own.
    """
    reader = _Reader(stream)
    magic, version = reader.take(4), reader.number(_U32)
    if magic != b"GGUF":
        raise ModelFileError("is no GGUF file: it does not begin with GGUF")
    if version not in VERSIONS:
        if int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS:
            raise ModelFileError(
                "is a big-endian GGUF file; only little-endian is read"
            )
        raise ModelFileError(f"is of GGUF version {version}; known: 2, 3")
    tensor_count = reader.count("tensors", TENSORS_MAX)
    pair_count = reader.count("metadata pairs", PAIRS_MAX)
    values: dict[str, Value] = {}
    for _ in range(pair_count):
        key = reader.string("a key", KEY_BYTES_MAX).decode("utf-8", "replace")
        value = _value(reader, key, key in keep)
        if value is not None:
            values[key] = value
    return GGUF(values, _tensors(reader, tensor_count, values, size))


def _value(reader: _Reader, key: str, is_kept: bool) -> Value | None:
    """A value; None for an array that is passed over."""
    kind = reader.number(_U32)
    if kind == _STRING:
        return reader.string(key, STRING_BYTES_MAX)
    if kind in _SCALARS:
        return reader.scalar(_SCALARS[kind])
    if kind != _ARRAY:
        raise ModelFileError(f"holds a value of unknown type {kind} under {key!a}")
    kind = reader.number(_U32)
    count = reader.count(f"items under {key!a}", ITEMS_MAX)
    if kind == _STRING:
        if not is_kept:
            reader.skip_strings(key, count)
            return None
        return tuple(reader.string(key, STRING_BYTES_MAX) for _ in range(count))
    if kind not in _SCALARS:
        raise ModelFileError(f"holds an array of unknown type {kind} under {key!a}")
    layout = _SCALARS[kind]
    if count > ITEMS_KEPT_MAX:
        reader.skip(count * layout.size)
        return None
    return tuple(reader.scalar(layout) for _ in range(count))


def _tensors(
    reader: _Reader, count: int, values: Mapping[str, Value], size: int
) -> tuple[Tensor, ...]:
    """The list of tensors, each of which must lie in the *size* bytes of the file."""
    tensors: list[Tensor] = []
    end = 0
    for _ in range(count):
        name = reader.string("a tensor's name", KEY_BYTES_MAX)
        elements = 1
        for _ in range(reader.count(f"dimensions of {name!a}", DIMENSIONS_MAX, _U32)):
            elements *= reader.number(_U64)
        kind, offset = reader.number(_U32), reader.number(_U64)
        tensor = Tensor(name, elements, TENSOR_TYPES.get(kind))
        tensors.append(tensor)
        end = max(end, offset + (tensor.type.bytes_of(elements) if tensor.type else 1))
    alignment = values.get("general.alignment", ALIGNMENT_DEFAULT)
    if type(alignment) is not int or alignment < 1:
        raise ModelFileError(f"has an alignment of {alignment!a}")
    begin = -(-reader.position // alignment) * alignment
    if tensors and begin + end > size:
        raise ModelFileError(
            f"is cut short: it has {size:,} bytes, but its tensors end at "
            f"{begin + end:,}"
        )
    return tuple(tensors)


class _Reader:
    """
    A stream read in chunks, up to `METADATA_BYTES_MAX` in all.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._data = b""
        self._at = 0
        self._read = 0

    @property
    def position(self) -> int:
        """Bytes consumed so far."""
        return self._read - len(self._data) + self._at

    def take(self, size: int) -> bytes:
        """The next *size* bytes."""
        if self._at + size > len(self._data):
            self._fill(size)
        self._at += size
        return self._data[self._at - size : self._at]

    def skip(self, size: int) -> None:
        """Pass over *size* bytes."""
        while size:
            step = min(size, _CHUNK_BYTES)
            self.take(step)
            size -= step

    def number(self, layout: struct.Struct) -> int:
        """An unsigned integer."""
        value: int = layout.unpack(self.take(layout.size))[0]
        return value

    def scalar(self, layout: struct.Struct) -> Scalar:
        """A number or a boolean."""
        value: Scalar = layout.unpack(self.take(layout.size))[0]
        return value

    def count(self, what: str, most: int, layout: struct.Struct = _U64) -> int:
        """How many *what* follow, at most *most*."""
        value = self.number(layout)
        if value > most:
            raise ModelFileError(f"claims {value:,} {what}; at most {most:,} are read")
        return value

    def string(self, what: str, most: int) -> bytes:
        """A string of at most *most* bytes."""
        return self.take(self.count(f"bytes in {what!a}", most))

    def skip_strings(self, what: str, count: int) -> None:
        """Pass over *count* strings; a vocabulary has hundreds of thousands."""
        done = 0
        while done < count:
            data, at, last = self._data, self._at, len(self._data) - _U64.size
            while done < count and at <= last:
                end = at + _U64.size + _U64.unpack_from(data, at)[0]
                if end > len(data):
                    break
                at, done = end, done + 1
            self._at = at
            if done < count:
                # One that crosses the chunk's end.
                self.string(what, STRING_BYTES_MAX)
                done += 1

    def _fill(self, size: int) -> None:
        """Have at least *size* bytes ahead."""
        data = self._data[self._at :]
        if self.position + size > METADATA_BYTES_MAX:
            raise ModelFileError(
                f"has more than {METADATA_BYTES_MAX >> 20} MiB of metadata"
            )
        chunk = self._stream.read(max(size - len(data), _CHUNK_BYTES))
        self._read += len(chunk)
        self._data, self._at = data + chunk, 0
        if len(self._data) < size:
            raise ModelFileError(
                f"is cut short: it ends after {self._read:,} bytes, in its metadata"
            )
