"""
Grants files: what the broker's reader takes, the device judges; both agree with the
records of the wire, and a table that is refused leaves the one in force as it is.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Final

from tests.device.capacities import SMALL
from tests.fuzz.devices import GRANTS, Mirror, make_device
from tests.fuzz.harness import Features, Target, demand
from tests.fuzz.mutations import EDGES, changed, number
from tests.fuzz.packets import REVISION, other_packet, packet
from tests.wire.samples import vectors
from twisted_aotx.broker.errors import GrantsFileError
from twisted_aotx.broker.grantsfile import read_grants
from twisted_aotx.device.host import Device
from twisted_aotx.errors import RemoteWireError
from twisted_aotx.limits import HEADER_BYTES
from twisted_aotx.wire.grants import GrantRow, GrantTable
from twisted_aotx.wire.layout import layout_of
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import split_reply

#: The table in force has this revision; files have one more, mostly.
_NEXT: Final = REVISION + 1


def _with_revision(table: bytes, revision: int) -> bytes:
    """*table* with another revision, in its header and in each whole row."""
    made = bytearray(table)
    told = (revision % 2**64).to_bytes(8, "little")
    for at in (32, *range(HEADER_BYTES + 16, len(made) - 7, GrantRow.SIZE)):
        if at + 8 <= len(made):
            made[at : at + 8] = told
    return bytes(made)


class GrantsTarget(Target):
    """
    A device with a table in force for each file.

    Args:
        make: makes a device.
        read: reads the file.
    """

    name: ClassVar[str] = "grants"
    count: ClassVar[int] = 300

    def __init__(
        self,
        make: Callable[[], Device] = make_device,
        read: Callable[[str], bytes] = read_grants,
    ) -> None:
        self._make = make
        self._read = read
        self._mirror = Mirror()
        self._folder = tempfile.TemporaryDirectory(prefix="aotx-")
        self._path = Path(self._folder.name) / "grants"

    def close(self) -> None:
        self._folder.cleanup()

    def seeds(self) -> Sequence[bytes]:
        golden = [v.data for v in vectors().values() if v.layout == "grants"]
        return [_with_revision(each, _NEXT) for each in (GRANTS, *golden)]

    def draw(self, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
        data = bytearray(rng.choice(corpus))
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            drawn = rng.random()
            if drawn < 0.25:
                self._other_field(rng, data)
            elif drawn < 0.4:
                self._other_rows(rng, data)
            elif drawn < 0.5:
                data[:] = other_packet(rng, bytes(data))
            elif drawn < 0.6:
                data[:] = changed(rng, bytes(data), corpus)
        if rng.random() < 0.6:
            data[:] = _with_revision(bytes(data), _NEXT)
        return bytes(data)

    def _other_field(self, rng: random.Random, data: bytearray) -> None:
        """Another value in one field of one row."""
        rows = (len(data) - HEADER_BYTES) // GrantRow.SIZE
        if rows < 1:
            return
        base = HEADER_BYTES + rng.randrange(rows) * GrantRow.SIZE
        layout = layout_of(GrantRow)
        places = [(kind.offset, kind.width) for _, kind in layout.fields]
        offset, width = rng.choice([*places, *layout.gaps])
        value = number(rng, min(8, width)).to_bytes(width, "little")
        data[base + offset : base + offset + width] = value

    def _other_rows(self, rng: random.Random, data: bytearray) -> None:
        """More rows or fewer, told rightly."""
        row = bytes(data[HEADER_BYTES : HEADER_BYTES + GrantRow.SIZE])
        count = rng.choice((0, 1, 2, 15, 16, 17, rng.choice(EDGES) % 1100))
        rows = b"".join((n + 1).to_bytes(16, "big") + row[16:] for n in range(count))
        if rng.random() < 0.1:
            rows += row
        data[HEADER_BYTES:] = rows
        count = len(rows) // GrantRow.SIZE
        data[76:80] = count.to_bytes(4, "little")
        data[88:92] = len(rows).to_bytes(4, "little")

    def judge(self, data: bytes) -> Features:
        self._path.write_bytes(data)
        self._path.chmod(0o600)
        wire = _wire_error(data)
        try:
            read = self._read(str(self._path))
        except GrantsFileError as error:
            said = str(error)
            demand(wire is not None, f"a table of the wire is refused: {said}")
            demand(said.isprintable(), f"said {said!r}")
            known = said.removeprefix(f"grants file {self._path}")
            return frozenset({re.sub(r"\d+", "#", known)})
        demand(read == data, "the reader gives other bytes than the file has")
        device = self._make()
        try:
            return self._installed(device, data, wire)
        finally:
            device.close()
            device.free()

    def _installed(
        self, device: Device, data: bytes, wire: RemoteWireError | None
    ) -> Features:
        _exchange(device, 0, GRANTS, 1)
        self._mirror.remember(device)
        status = _exchange(device, 0, data, 2)
        demand(status in (200, 400), f"a table answered with {status}")
        if status == 200:
            demand(wire is None, f"the device takes what the wire does not: {wire}")
            self._check_rows(device, GrantTable.unpack(_plain(data)))
        else:
            self._check_refused(device, data, wire)
        broken = device.invariants()
        demand(not broken, f"invariants: {broken}")
        return frozenset({(status, wire.field if wire else "", wire is None)})

    def _check_rows(self, device: Device, table: GrantTable) -> None:
        """What is in force is the table: who is in it is known, who is not is not."""
        demand(len(table.rows) <= SMALL.principals, "more rows than principals")
        for number_, row in enumerate(table.rows[:3]):
            info = packet(
                Operation.INFO, principal=row.principal, revision=table.revision
            )
            demand(_exchange(device, 1, info, 3 + number_) == 200, "a row not in force")
        nobody = packet(Operation.INFO, principal=b"\xee" * 16, revision=table.revision)
        demand(_exchange(device, 1, nobody, 9) == 403, "a row that was not in it")

    def _check_refused(
        self, device: Device, data: bytes, wire: RemoteWireError | None
    ) -> None:
        name = self._mirror.difference(device, 2)
        demand(name is None, f"refused, and {name} is another")
        if wire is None:
            table = GrantTable.unpack(_plain(data))
            demand(
                table.revision <= REVISION
                or len(table.rows) > SMALL.principals
                or any(not _fits(row) for row in table.rows),
                "a table within all capacities is refused",
            )


def _fits(row: GrantRow) -> bool:
    """Whether a row is within the capacities (`wire.md` §6)."""
    tokens = SMALL.sequence_tokens
    return (
        row.pages <= -(-tokens // 16)
        and row.tokens < tokens
        and row.requests <= SMALL.requests
    )


def _plain(data: bytes) -> bytes:
    """*data* without what a control frame may hold anything in (`wire.md` §4)."""
    made = bytearray(data)
    for start, end in ((16, 32), (40, 76), (80, 88)):
        made[start : min(end, len(made))] = bytes(max(0, min(end, len(made)) - start))
    return bytes(made)


def _wire_error(data: bytes) -> RemoteWireError | None:
    try:
        GrantTable.unpack(_plain(data))
    except RemoteWireError as error:
        return error
    return None


def _exchange(device: Device, channel: int, data: bytes, now: int) -> int:
    device.publish(channel, data)
    device.tick(now)
    demand(list(device.collect()) == [channel], "no answer, or another's")
    reply = device.reply(channel)
    device.release(channel)
    return split_reply(reply)[0].status
