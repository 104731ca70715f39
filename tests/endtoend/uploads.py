"""
A packet client that uploads, looks at and removes media sources.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import attrs

from tests.endtoend.conftest import set_engine
from tests.endtoend.peers import PATIENCE, Peer, _reactor, pause
from tests.processes import edit
from tests.test_cli import aotx
from twisted_aotx.wire.media import (
    CHUNK_BYTES_MAX,
    BeginData,
    ListRow,
    MediaFrame,
    Metadata,
    unpack_list,
)
from twisted_aotx.wire.numbers import MediaPhase, MediaStatus, Operation, Status
from twisted_aotx.wire.packet import RequestHeader

#: Seconds between two looks at a source.
LOOK_SECONDS = 0.005


class Refused(Exception):
    """
    The device did not take a source, or refused it later.
    """

    def __init__(self, status: int, why: int | None = None) -> None:
        super().__init__(f"status {status}, media status {why}")
        #: Of the reply; 200 if the source was refused later.
        self.status = status
        #: `MediaStatus`; None without metadata.
        self.why = why


@attrs.frozen
class Item:
    """
    A source as its owner knows it.
    """

    data: bytes = attrs.field(repr=False)
    format: int
    transfer_id: bytes = attrs.field(factory=lambda: os.urandom(16))

    @property
    def sha256(self) -> bytes:
        return hashlib.sha256(self.data).digest()


def allow_uploads(state: Path) -> None:
    """Let the first principal upload images and audio."""
    value = json.loads((state / "gateway.json").read_text())
    value["principals"][0]["actions"] = ["infer", "telemetry", "upload"]
    edit(state / "gateway.json", **value)
    words = ("--config", state / "gateway.json", "--output", state / "grants")
    assert aotx("grants", *words).exit_code == 0
    set_engine(state, modalities=["image", "audio"])


async def ask(
    peer: Peer, operation: Operation, transfer_id: bytes = b"", payload: bytes = b""
) -> tuple[int, bytes]:
    """(status, payload) of one exchange about media."""
    header = RequestHeader(
        operation=operation,
        principal=peer.caller.principal,
        revision=peer.caller.revision,
        id=transfer_id or bytes(16),
        epoch=0,
    )
    reply, data = await peer.client.exchange(header, payload)
    return reply.status, data


async def send(peer: Peer, item: Item, frame: MediaFrame) -> None:
    status, data = await ask(peer, Operation.MEDIA, item.transfer_id, frame.pack())
    if status != 200:
        raise Refused(status, Metadata.unpack(data).status if data else None)


async def look(peer: Peer, item: Item) -> Metadata | None:
    """What the device knows of *item*; None if nothing."""
    status, data = await ask(peer, Operation.MEDIA_READ, item.transfer_id)
    return Metadata.unpack(data) if status == 200 else None


async def begin(peer: Peer, item: Item) -> None:
    """
    Announce *item*.

    Raises:
        Refused: it was not taken.
    """
    what = BeginData(item.format, item.sha256)
    await send(peer, item, MediaFrame.begin(item.transfer_id, len(item.data), what))


async def upload(peer: Peer, item: Item) -> Metadata:
    """
    Upload *item* and wait until it is ready.

    Raises:
        Refused: it was not taken, or was refused.
    """
    size = len(item.data)
    await begin(peer, item)
    for at in range(0, size, CHUNK_BYTES_MAX):
        data = item.data[at : at + CHUNK_BYTES_MAX]
        await send(peer, item, MediaFrame.chunk(item.transfer_id, size, at, data))
    await send(peer, item, MediaFrame.end(item.transfer_id, size))
    deadline = _reactor.seconds() + PATIENCE
    while _reactor.seconds() < deadline:
        found = await look(peer, item)
        assert found is not None, "an upload that is gone"
        if found.phase == MediaPhase.READY:
            return found
        if found.phase == MediaPhase.REFUSED:
            raise Refused(200, found.status)
        await pause(LOOK_SECONDS)
    raise AssertionError("a source that never is ready")


async def fits(peer: Peer, item: Item) -> bool:
    """
    Whether *item* was uploaded and is ready; False if there was no room for it.

    Raises:
        Refused: for another reason.
    """
    try:
        await upload(peer, item)
    except Refused as refused:
        if refused.status == Status.LIMITED or refused.why == MediaStatus.PRESSURE:
            return False
        raise
    return True


async def remove(peer: Peer, item: Item) -> None:
    """
    Remove *item*; on the disk when this returns.

    Raises:
        Refused: it was not removed.
    """
    await send(peer, item, MediaFrame.cancel(item.transfer_id))


async def listed(peer: Peer) -> dict[bytes, Metadata]:
    """Every source of the caller, by its transfer id."""
    found: dict[bytes, Metadata] = {}
    cursor = 0
    while True:
        header = RequestHeader(
            operation=Operation.MEDIA_LIST,
            principal=peer.caller.principal,
            revision=peer.caller.revision,
            id=bytes(16),
            epoch=0,
            cursor=cursor,
        )
        reply, data = await peer.client.exchange(header)
        assert reply.status == 200
        row: ListRow
        for row in unpack_list(data):
            assert row.transfer_id not in found
            found[row.transfer_id] = row.metadata
        cursor = reply.cursor
        if not cursor:
            return found
