"""
The state store of a real runtime: kills, restarts, a full disk, the cap (D10, D12).
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.asynchronous import asynchronous
from tests.endtoend.killing import RUNTIME_READY, kill_often
from tests.endtoend.peers import PATIENCE, Peer, _reactor, greedy, pause, peer
from tests.endtoend.uploads import (
    Item,
    Refused,
    allow_uploads,
    begin,
    fits,
    listed,
    remove,
    upload,
)
from tests.media_made import make_jpeg, make_wav
from tests.processes import COMPILE_PATIENCE, Process, edit, make_state, twistd
from tests.test_cli import aotx
from twisted_aotx.errors import DeviceRefused
from twisted_aotx.wire.numbers import MediaFormat, MediaPhase

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: Lives that end with a kill. By hand: `AOTX_KILLS=200`, another seed, `-o timeout=0`.
KILLS = int(os.environ.get("AOTX_KILLS", "3"))
SEED = int(os.environ.get("AOTX_SEED", "1"))
CANNOT = "the state store cannot write"
AGAIN = "the state store writes again"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    state = make_state(tmp_path)
    allow_uploads(state)
    return state


def sound(frames: int = 20_000, seed: int = 1) -> Item:
    return Item(make_wav(frames, seed=seed), MediaFormat.WAV)


def image() -> Item:
    return Item(make_jpeg(64, 48), MediaFormat.JPEG)


@asynchronous
async def test_what_was_acknowledged_outlives_every_kill(
    tmp_path: Path, state: Path
) -> None:
    """Case F 112, killed at random moments."""
    killing = await kill_often(tmp_path, state, KILLS, SEED)

    assert killing.kills == KILLS
    assert killing.uploads > KILLS


@asynchronous
async def test_sources_are_usable_after_a_restart(tmp_path: Path, state: Path) -> None:
    """Case F 112: same ids, same digests; a receiving upload is gone."""
    items = [image(), sound()]
    for life in range(2):
        with twistd(tmp_path, "aotx-runtime", "--state", state) as process:
            process.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
            async with peer(str(state / "service.sock")) as client:
                if life == 0:
                    for item in items:
                        await upload(client, item)
                    before = await listed(client)
                    await begin(client, sound())
                    assert len(await listed(client)) == 3
                else:
                    assert await listed(client) == before
                    assert before.keys() == {item.transfer_id for item in items}
            process.signal(signal.SIGTERM)
            assert process.code() == 0, process


# --- hold -----------------------------------------------------------------------------


async def refuses_mutations(client: Peer, item: Item) -> bool:
    """Whether SUBMIT, BEGIN and CANCEL get 429 (cases E 80)."""
    statuses = []
    try:
        await client.submit(greedy("x", 4))
    except DeviceRefused as refused:
        statuses.append(refused.status)
    for work in (upload(client, sound(400)), remove(client, item)):
        try:
            await work
        except Refused as refusal:
            statuses.append(refusal.status)
    return statuses == [429, 429, 429]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB; unmounted in the end, whatever happens."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = "size=16m,mode=700"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root and the right to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@asynchronous
async def test_a_full_disk_holds_until_there_is_room_and_loses_nothing(
    tmp_path: Path, small_disk: Path
) -> None:
    """Mutations get 429, reads go on, service resumes by itself (cases E 79, 80)."""
    state = make_state(small_disk)
    allow_uploads(state)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(6 << 20))
    with twistd(tmp_path, "aotx-runtime", "--state", state) as process:
        process.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
        async with peer(str(state / "service.sock")) as client:
            kept = [sound(seed=n) for n in range(3)]
            for item in kept:
                await upload(client, item)
            request = await client.submit(greedy("hello", 16))
            result = await client.result(request)
            fill(small_disk / "filler")
            there = {item.transfer_id for item in kept}
            there |= await fill_store(client, process)

            assert await refuses_mutations(client, kept[0])
            assert (await client.client.info(client.caller)).epoch == client.epoch
            assert await client.result(request) == result
            assert (await listed(client)).keys() == there

            ballast.unlink()
            (small_disk / "filler").unlink()
            await until_told(process, AGAIN)
            last = await resumes(client)
            await remove(client, kept[0])
            there = there - {kept[0].transfer_id} | {last.transfer_id}
            assert (await listed(client)).keys() == there
        process.popen.kill()
    with twistd(tmp_path, "aotx-runtime", "--state", state) as process:
        process.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
        async with peer(str(state / "service.sock")) as client:
            found = await listed(client)
            assert found.keys() == there
            assert {each.phase for each in found.values()} == {MediaPhase.READY}
    assert process.text().count(CANNOT) == 0


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


async def fill_store(client: Peer, process: Process) -> set[bytes]:
    """Upload until the store cannot write; ids of what was ready before."""
    ready = set()
    deadline = _reactor.seconds() + PATIENCE
    while CANNOT not in process.text():
        assert _reactor.seconds() < deadline, process
        item = sound()
        if await fits(client, item):
            ready.add(item.transfer_id)
    return ready


async def resumes(client: Peer) -> Item:
    """Upload until it goes well again."""
    deadline = _reactor.seconds() + PATIENCE
    while not await fits(client, item := sound(400)):
        assert _reactor.seconds() < deadline
        await pause(0.05)
    return item


async def until_told(process: Process, text: str) -> None:
    """Until the log holds *text*; the reactor runs meanwhile."""
    deadline = _reactor.seconds() + PATIENCE
    while text not in process.text():
        assert _reactor.seconds() < deadline, process
        await pause(0.02)


@asynchronous
async def test_the_cap_refuses_a_source_and_serves_on_after_a_second(
    tmp_path: Path, state: Path
) -> None:
    """A source beyond the reserve is refused with status 12, what is there stays."""
    edit(state / "runtime.json", store_bytes=400_000)
    with twistd(tmp_path, "aotx-runtime", "--state", state) as process:
        process.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
        async with peer(str(state / "service.sock")) as client:
            there = await fill_store(client, process)
            assert 1 < len(there) < 400_000 // len(sound().data)
            assert (await listed(client)).keys() == there

            await until_told(process, AGAIN)
            gone = there.pop()
            await remove(client, Item(b"", MediaFormat.WAV, gone))
            small = await resumes(client)
            assert (await listed(client)).keys() == there | {small.transfer_id}
        process.signal(signal.SIGTERM)
        assert process.code() == 0, process


@asynchronous
async def test_a_store_above_its_cap_is_held_from_the_start(
    tmp_path: Path, state: Path
) -> None:
    """The operator lowered `store_bytes`: what is there is read, nothing changes."""
    item = sound(100_000)
    for store_bytes in (1 << 30, 100_000):
        edit(state / "runtime.json", store_bytes=store_bytes)
        with twistd(tmp_path, "aotx-runtime", "--state", state) as process:
            process.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
            async with peer(str(state / "service.sock")) as client:
                if store_bytes > len(item.data):
                    await upload(client, item)
                else:
                    await until_told(process, CANNOT)
                    assert await refuses_mutations(client, item)
                assert (await listed(client)).keys() == {item.transfer_id}
            process.signal(signal.SIGTERM)
            assert process.code() == 0, process


# --- what refuses a start -------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no database, however long it is " * 200, "is damaged"),
        (None, "newer version"),
    ],
)
def test_a_store_that_cannot_be_used_refuses_the_start(
    tmp_path: Path, state: Path, content: bytes | None, reason: str
) -> None:
    path = state / "state.sqlite3"
    if content is not None:
        path.write_bytes(content)
    else:
        with sqlite3.connect(path) as database:
            database.execute(f"PRAGMA application_id = {0x414F5458}")
            database.execute("PRAGMA user_version = 99")
    with twistd(tmp_path, "aotx-runtime", "--state", state) as process:
        assert process.code(COMPILE_PATIENCE) == 1
        (line,) = [*process.lines("critical"), *process.lines("error")]
        assert f"{path}: " in line
        assert reason in line
    assert not (state / "service.sock").exists()


# --- usage ----------------------------------------------------------------------------


@asynchronous
async def test_usage_is_written_at_an_orderly_stop(tmp_path: Path, state: Path) -> None:
    """D11: what was not reviewed is in the ledger once the runtime has stopped."""
    with twistd(tmp_path, "aotx-runtime", "--state", state) as process:
        process.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
        async with peer(str(state / "service.sock")) as client:
            results = [await client.run(greedy("hello", 8)) for _ in range(3)]
        process.signal(signal.SIGTERM)
        assert process.code() == 0, process

    told = json.loads(aotx("usage", "--state", state, "--json").stdout)

    (row,) = told["data"]
    assert row["principal"] == "0" * 31 + "1"
    assert row["model"] == "reference"
    assert row["requests"] == "3"
    assert row["prompt_tokens"] == str(sum(each.prompt_tokens for each in results))
    assert row["completion_tokens"] == str(sum(each.sampled_tokens for each in results))
    assert told["source_frontier"] == "3"
