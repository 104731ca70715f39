"""
A program that saves and removes sources until it is killed, and tells of each before
and after: `+ ID begun`, `+ ID done`, `- ID begun`, `- ID done`.

    python -m tests.journal.busy FOLDER SEED
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
from pathlib import Path

from twisted_aotx.journal.store import Store
from twisted_aotx.journal.writer import ReadBytes
from twisted_aotx.orders import RemovalRecord, SourceRecord

OWNER = bytes(15) + b"\x01"
#: Sources that are there at once, about.
PLENTY = 12
BYTES_MAX = 400_000


def content(transfer_id: bytes) -> bytes:
    """The bytes of a source follow from its id."""
    chance = random.Random(transfer_id)
    return chance.randbytes(chance.randrange(1, BYTES_MAX))


def tell(sign: str, transfer_id: bytes, what: str) -> None:
    os.write(1, f"{sign} {transfer_id.hex()} {what}\n".encode())


def reader_of(data: bytes) -> ReadBytes:
    return lambda record, start, size: data[start : start + size]


def main(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    store = Store(folder, store_bytes=1 << 30, now=lambda: 1)
    there = [source.transfer_id for source in store.sources()]
    while True:
        if len(there) > chance.randrange(2 * PLENTY):
            transfer_id = there.pop(chance.randrange(len(there)))
            tell("-", transfer_id, "begun")
            removal = RemovalRecord(owner=OWNER, transfer_id=transfer_id)
            store.save(removal, lambda record, start, size: b"")
            tell("-", transfer_id, "done")
            continue
        transfer_id = chance.randbytes(16)
        data = content(transfer_id)
        source = SourceRecord(
            owner=OWNER,
            transfer_id=transfer_id,
            sha256=hashlib.sha256(data).digest(),
            format=1,
            offset=0,
            size=len(data),
        )
        tell("+", transfer_id, "begun")
        store.save(source, reader_of(data))
        tell("+", transfer_id, "done")
        there.append(transfer_id)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
