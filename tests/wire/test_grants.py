"""
Grant tables (`wire.md` §6).
"""

from __future__ import annotations

import attrs
import pytest

from tests.wire.samples import vectors
from twisted_aotx.errors import LocalWireError, RemoteWireError
from twisted_aotx.wire.grants import ROWS_MAX, GrantRow, GrantTable

ROW = GrantRow(bytes(15) + b"\1", 7, 15, 4, 0, 256, 2, 16, 33554432)
TABLE = vectors()["grant-table"].data


def refusal(data: bytes) -> tuple[str, str, int]:
    with pytest.raises(RemoteWireError) as caught:
        GrantTable.unpack(data)
    return caught.value.record, caught.value.field, caught.value.offset


def patched(offset: int, piece: bytes) -> bytes:
    return TABLE[:offset] + piece + TABLE[offset + len(piece) :]


def rows(count: int) -> tuple[GrantRow, ...]:
    return tuple(
        attrs.evolve(ROW, principal=number.to_bytes(16, "big"))
        for number in range(1, count + 1)
    )


def test_as_many_rows_as_a_packet_holds() -> None:
    table = GrantTable(7, rows(ROWS_MAX))

    assert ROWS_MAX == 1022
    assert len(table.pack()) == 65536
    assert GrantTable.unpack(table.pack()) == table
    with pytest.raises(LocalWireError) as caught:
        GrantTable(7, rows(ROWS_MAX + 1))
    assert caught.value.field == "rows"


def test_every_truncation_and_extension_is_refused() -> None:
    """cases B 26"""
    for size in range(len(TABLE)):
        assert refusal(TABLE[:size]) == ("GrantTable", "length", size)
    assert refusal(TABLE + b"\0") == ("GrantTable", "length", 257)
    assert refusal(TABLE + bytes(64)) == ("GrantTable", "length", 320)
    assert refusal(TABLE + bytes(65536))[1] == "length"


@pytest.mark.parametrize("at", [at for at in range(128) if not 32 <= at < 40])
def test_every_other_byte_of_the_header_is_fixed(at: int) -> None:
    """`wire.md` §6: magic, operation, revision, count, length; the rest is zero."""
    found = refusal(patched(at, bytes([TABLE[at] ^ 4])))

    if at < 8:
        assert found == ("RequestHeader", "magic", 0)
    elif 12 <= at < 16 or at >= 96:
        assert found == ("RequestHeader", "reserved", at)
    elif 76 <= at < 80:
        # A count that is off is seen at the payload length, which goes with it.
        assert found[:2] == ("GrantTable", "payload_bytes")
    else:
        record, _, offset = found
        assert (record, offset) == ("GrantTable", at)


def test_revision_zero_is_refused() -> None:
    """cases B 22"""
    assert refusal(patched(32, bytes(8))) == ("GrantTable", "revision", 32)
    with pytest.raises(LocalWireError):
        GrantTable(0)
    with pytest.raises(LocalWireError):
        GrantTable(2**64)
    assert GrantTable.unpack(GrantTable(2**64 - 1).pack()).revision == 2**64 - 1


def test_a_row_of_another_revision_is_refused() -> None:
    """cases B 23, in the last row too"""
    assert refusal(patched(128 + 16, b"\x08")) == ("GrantRow", "revision", 144)
    assert refusal(patched(192 + 16, b"\x08")) == ("GrantRow", "revision", 208)
    with pytest.raises(LocalWireError):
        GrantTable(8, (ROW,))


def test_a_principal_stands_once() -> None:
    assert refusal(patched(192, TABLE[128:144])) == ("GrantRow", "principal", 192)
    with pytest.raises(LocalWireError):
        GrantTable(7, (ROW, ROW))


def test_bad_rows_are_told_with_their_place() -> None:
    assert refusal(patched(192, bytes(16))) == ("GrantRow", "principal", 192)
    assert refusal(patched(192 + 24, bytes(4))) == ("GrantRow", "actions", 216)
    # Bit 256 is not offered [D1].
    assert refusal(patched(192 + 25, b"\1")) == ("GrantRow", "actions", 216)
    assert refusal(patched(192 + 28, b"\1")) == ("GrantRow", "models", 220)
    for at in range(192 + 56, 256):
        assert refusal(patched(at, b"\1")) == ("GrantRow", "reserved", at)
