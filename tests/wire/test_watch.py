"""
Watches and notices, byte for byte (docs/wire/watch.md).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from twisted_aotx.errors import LocalWireError, RemoteWireError
from twisted_aotx.limits import WATCH_RECORDS_MAX
from twisted_aotx.wire.watch import (
    WATCH_BYTES,
    Notice,
    Watch,
    join_records,
    split_records,
    watch_path,
)

PAGE = Path(__file__).parents[2] / "docs" / "wire" / "watch.md"
PRINCIPAL, ID = bytes(range(16)), bytes(range(16, 32))
WATCH = Watch(PRINCIPAL, ID, epoch=7, total_bytes=300, phase=3)
NOTICE = Notice(PRINCIPAL, ID, epoch=7, total_bytes=301, phase=4)


def golden(name: str) -> bytes:
    """The packet under the heading *name* of the page."""
    _, _, rest = PAGE.read_text().partition(f"### {name}\n")
    block = re.search(r"```hex\n(.*?)```", rest, re.DOTALL)
    assert block
    return bytes.fromhex(block[1])


@pytest.mark.parametrize(("name", "record"), [("Watch", WATCH), ("Notice", NOTICE)])
def test_the_packets_of_the_page(name: str, record: Any) -> None:
    packet = golden(name)

    assert join_records([record]) == [packet]
    assert split_records(packet, type(record)) == [record]
    assert len(packet) == WATCH_BYTES == 64


@pytest.mark.parametrize("count", [1, WATCH_RECORDS_MAX])
def test_records_that_fit_one_packet(count: int) -> None:
    (packet,) = join_records([WATCH] * count)

    assert split_records(packet, Watch) == [WATCH] * count


def test_more_take_another_packet() -> None:
    packets = join_records([NOTICE] * (WATCH_RECORDS_MAX + 1))

    assert list(map(len, packets)) == [WATCH_RECORDS_MAX * WATCH_BYTES, WATCH_BYTES]
    assert join_records([]) == []


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        WATCH.pack()[:-1],
        WATCH.pack() + b"\0",
        WATCH.pack() * (WATCH_RECORDS_MAX + 1),
    ],
)
def test_a_length_that_is_no_number_of_records_is_refused(packet: bytes) -> None:
    with pytest.raises(RemoteWireError, match="are not 1 to 64 records"):
        split_records(packet, Watch)


@pytest.mark.parametrize(
    ("at", "value", "field"),
    [(0, 0, "magic"), (56, 7, "phase"), (60, 1, "reserved"), (63, 1, "reserved")],
)
def test_a_wrong_byte_is_refused(at: int, value: int, field: str) -> None:
    data = bytearray(WATCH.pack() * 2)
    data[WATCH_BYTES + at] = value

    with pytest.raises(RemoteWireError) as caught:
        split_records(bytes(data), Watch)

    assert (caught.value.record, caught.value.field) == ("Watch", field)
    assert caught.value.offset == WATCH_BYTES + at


def test_a_notice_is_no_watch() -> None:
    with pytest.raises(RemoteWireError):
        split_records(NOTICE.pack(), Watch)


def test_values_that_do_not_fit_are_ours_to_mend() -> None:
    with pytest.raises(LocalWireError):
        Watch(PRINCIPAL, ID, epoch=7, total_bytes=0, phase=7)


@pytest.mark.parametrize(
    ("socket", "watches"),
    [
        ("/run/aotx/service.sock", "/run/aotx/watch.sock"),
        ("service.sock", "watch.sock"),
        ("/run/aotx/two.sock", "/run/aotx/two.sock.watch"),
        ("/run/service.sock.d/x", "/run/service.sock.d/x.watch"),
    ],
)
def test_where_a_runtime_offers_watches(socket: str, watches: str) -> None:
    assert watch_path(socket) == watches
