"""
Media frames, metadata and lists (`wire.md` §10).
"""

from __future__ import annotations

import pytest

from tests.wire.samples import ID, METADATA, SHA, vectors
from twisted_aotx.errors import LocalWireError, RemoteWireError
from twisted_aotx.wire.media import (
    LIST_ROWS_MAX,
    SOURCE_BYTES_MAX,
    BeginData,
    ListRow,
    MediaFrame,
    pack_list,
    unpack_list,
)

BEGIN = MediaFrame.begin(ID, 6, BeginData(1, SHA))
CHUNK = MediaFrame.chunk(ID, 6, 0, b"source")
END = MediaFrame.end(ID, 6)
CANCEL = MediaFrame.cancel(ID)


def refusal(payload: bytes) -> tuple[str, str, int]:
    with pytest.raises(RemoteWireError) as caught:
        MediaFrame.unpack(payload)
    return caught.value.record, caught.value.field, caught.value.offset


def patched(frame: MediaFrame, at: int, value: int, width: int = 4) -> bytes:
    data = frame.pack()
    return data[:at] + value.to_bytes(width, "little") + data[at + width :]


@pytest.mark.parametrize("frame", [BEGIN, CHUNK, END, CANCEL])
def test_frames_in_both_directions_and_no_other_length(frame: MediaFrame) -> None:
    data = frame.pack()

    assert MediaFrame.unpack(data) == frame
    for size in range(len(data)):
        expected = ("FrameHead", "length", size)
        if size >= 64:
            expected = ("MediaFrame", "data", 40)
        assert refusal(data[:size]) == expected
    assert refusal(data + b"\0") == ("MediaFrame", "data", 40)


@pytest.mark.parametrize("at", range(44, 64))
def test_reserved_bytes_of_a_frame(at: int) -> None:
    """cases F 95"""
    assert refusal(patched(CHUNK, at, 1, 1)) == ("FrameHead", "reserved", at)


def test_what_a_frame_says_of_itself() -> None:
    """cases F 95"""
    assert refusal(patched(CHUNK, 0, 2)) == ("FrameHead", "schema", 0)
    assert refusal(patched(CHUNK, 4, 5)) == ("FrameHead", "command", 4)
    assert refusal(patched(CHUNK, 8, 0, 16)) == ("FrameHead", "transfer_id", 8)
    assert refusal(patched(CHUNK, 40, 5)) == ("MediaFrame", "data", 40)
    assert refusal(patched(CHUNK, 40, 8193)) == ("FrameHead", "data_bytes", 40)


def test_chunks_hold_1_to_8192_bytes() -> None:
    """cases F 95: data 8193"""
    assert len(MediaFrame.chunk(ID, 9000, 0, bytes(8192)).pack()) == 8256
    assert MediaFrame.chunk(ID, 9000, 7, b"x").head.source_offset == 7
    for size in (0, 8193):
        with pytest.raises(LocalWireError) as caught:
            MediaFrame.chunk(ID, 9000, 0, bytes(size))
        assert caught.value.field == "data_bytes"


def test_begin() -> None:
    assert MediaFrame.begin(ID, SOURCE_BYTES_MAX, BeginData(3, SHA))
    assert SOURCE_BYTES_MAX == (2**64 - 1) // 8
    for size in (0, SOURCE_BYTES_MAX + 1):
        assert refusal(patched(BEGIN, 24, size, 8)) == ("FrameHead", "source_bytes", 24)
        with pytest.raises(LocalWireError):
            MediaFrame.begin(ID, size, BeginData(3, SHA))
    assert refusal(patched(BEGIN, 32, 1, 8)) == ("FrameHead", "source_offset", 32)
    for format_ in (0, 2, 4):
        assert refusal(patched(BEGIN, 64, format_)) == ("BeginData", "format", 64)
    for at in (68, 72, 76):
        # Width, height and the field after them.
        assert refusal(patched(BEGIN, at, 1)) == ("BeginData", "reserved", at)
    for size in (0, 47, 49):
        assert refusal(patched(BEGIN, 40, size)) == ("FrameHead", "data_bytes", 40)


def test_end_and_cancel() -> None:
    assert refusal(patched(END, 32, 5, 8)) == ("FrameHead", "source_offset", 32)
    assert refusal(patched(END, 40, 1) + b"x") == ("FrameHead", "data_bytes", 40)
    assert refusal(patched(CANCEL, 40, 1) + b"x") == ("FrameHead", "data_bytes", 40)
    # CANCEL ignores the size.
    assert MediaFrame.unpack(patched(CANCEL, 24, 77, 8)).head.source_bytes == 77


def test_lists_hold_817_rows() -> None:
    rows = (ListRow(ID, METADATA),) * LIST_ROWS_MAX
    payload = pack_list(rows)

    assert (LIST_ROWS_MAX, len(payload)) == (817, 65360)
    assert unpack_list(payload) == rows
    assert unpack_list(pack_list(())) == ()
    with pytest.raises(LocalWireError):
        pack_list((*rows, rows[0]))


def test_bad_rows_are_told_with_their_place() -> None:
    payload = vectors()["media-list-reply"].data[128:]
    for size in range(81, 160):
        with pytest.raises(RemoteWireError) as caught:
            unpack_list(payload[:size])
        assert (caught.value.field, caught.value.offset) == ("length", size)
    for at in range(156, 160):
        with pytest.raises(RemoteWireError) as caught:
            unpack_list(payload[:at] + b"\1" + payload[at + 1 :])
        error = caught.value
        assert (error.record, error.field, error.offset) == ("Metadata", "reserved", at)


def test_no_repr_shows_the_source() -> None:
    assert "source'" not in repr(CHUNK)
