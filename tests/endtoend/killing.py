"""
A runtime that is killed while sources are uploaded and removed, and what must be there
each time it comes back (`device.md` §11, D12).
"""

from __future__ import annotations

import hashlib
import random
import shutil
import signal
import tempfile
from pathlib import Path

import attrs
from twisted.internet.defer import Deferred, gatherResults

from tests.endtoend.peers import Peer, pause, peer
from tests.endtoend.uploads import Item, fits, listed, look, remove
from tests.media_made import make_jpeg, make_wav
from tests.processes import COMPILE_PATIENCE, Process, twistd
from twisted_aotx.errors import ExchangeFailed
from twisted_aotx.journal.database import FILE_NAME
from twisted_aotx.journal.store import Store
from twisted_aotx.wire.numbers import MediaFormat, MediaPhase

RUNTIME_READY = "[aotx.runtime#info] ready"
#: Uploads and removals at once.
HANDS = 4
#: Sources that are there at once, about.
PLENTY = 24
#: Seconds after the first upload within which the kill comes.
LIFE_SECONDS = 0.6


def samples() -> list[tuple[bytes, int]]:
    """Sources of several sizes: (bytes, format)."""
    images = [make_jpeg(24, 16), make_jpeg(320, 200, seed=2)]
    sounds = [make_wav(400), make_wav(30_000), make_wav(90_000, seed=3)]
    return [
        *((data, MediaFormat.JPEG) for data in images),
        *((data, MediaFormat.WAV) for data in sounds),
    ]


@attrs.define
class Killing:
    """
    One state directory through many lives.

    Attributes:
        there: Sources that were acknowledged as ready, their removal not begun.
        unsure: Sources whose upload or removal was under way when the runtime died:
            the next life shows which it was.
        kills, uploads, removals: What happened, in all.
    """

    folder: Path
    state: Path
    chance: random.Random
    kinds: list[tuple[bytes, int]] = attrs.field(factory=samples)
    there: dict[bytes, Item] = attrs.field(factory=dict)
    unsure: dict[bytes, Item] = attrs.field(factory=dict)
    kills: int = 0
    uploads: int = 0
    removals: int = 0

    async def live(self, *, killed: bool = True) -> None:
        """Start, check, work, and be killed; or check, and stop in order."""
        with twistd(self.folder, "aotx-runtime", "--state", self.state) as process:
            process.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
            async with peer(str(self.state / "service.sock")) as client:
                await self.check(client)
                if killed:
                    await self.work_until_killed(client, process)
            if not killed:
                process.signal(signal.SIGTERM)
                assert process.code() == 0, process
        if killed:
            self.kills += 1
            self.check_store()

    async def check(self, client: Peer) -> None:
        """The list is what it must be; what was unsure is settled."""
        found = await listed(client)
        for transfer_id, item in self.unsure.items():
            if transfer_id in found:
                self.there[transfer_id] = item
        self.unsure.clear()
        assert found.keys() == self.there.keys()
        for transfer_id, metadata in found.items():
            item = self.there[transfer_id]
            assert metadata.phase == MediaPhase.READY
            assert metadata.sha256 == item.sha256
            assert metadata.source_bytes == len(item.data)
            assert metadata.rows > 0
            assert await look(client, item) == metadata

    def check_store(self) -> None:
        """What was acknowledged is on the disk, byte for byte, and nothing else."""
        with tempfile.TemporaryDirectory() as folder:
            # A copy: the runtime itself is to mend what the kill left.
            for name in (FILE_NAME, f"{FILE_NAME}-wal"):
                if (self.state / name).exists():
                    shutil.copy(self.state / name, folder)
            with Store(Path(folder), store_bytes=1 << 30, now=lambda: 1) as store:
                found = {source.transfer_id: source for source in store.sources()}
        assert self.there.keys() <= found.keys()
        assert found.keys() <= self.there.keys() | self.unsure.keys()
        for source in found.values():
            assert hashlib.sha256(source.data).digest() == source.sha256

    async def work_until_killed(self, client: Peer, process: Process) -> None:
        hands = [Deferred.fromCoroutine(self._work(client)) for _ in range(HANDS)]
        await pause(self.chance.uniform(0.0, LIFE_SECONDS))
        process.popen.kill()
        process.popen.wait(20)
        await gatherResults(hands, consumeErrors=True)

    async def _work(self, client: Peer) -> None:
        """Upload and remove, until the runtime is gone."""
        while True:
            full = len(self.there) >= PLENTY
            if self.there and self.chance.random() < (0.7 if full else 0.3):
                work = self._remove(client)
            else:
                work = self._upload(client)
            try:
                await work
            except ExchangeFailed:
                return

    async def _upload(self, client: Peer) -> None:
        item = Item(*self.chance.choice(self.kinds))
        self.unsure[item.transfer_id] = item
        ready = await fits(client, item)
        del self.unsure[item.transfer_id]
        if ready:
            self.there[item.transfer_id] = item
            self.uploads += 1

    async def _remove(self, client: Peer) -> None:
        transfer_id = self.chance.choice(list(self.there))
        item = self.there.pop(transfer_id)
        self.unsure[transfer_id] = item
        await remove(client, item)
        del self.unsure[transfer_id]
        self.removals += 1


async def kill_often(folder: Path, state: Path, kills: int, seed: int) -> Killing:
    """*kills* lives that are killed, and one that ends well."""
    killing = Killing(folder, state, random.Random(seed))
    for _ in range(kills):
        await killing.live()
    await killing.live(killed=False)
    return killing
