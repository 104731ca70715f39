"""
The look at what is left once all is quiet: what is held, how every request ended, what
the store keeps, and what the next activation finds.
"""

from __future__ import annotations

from typing import Any, Final

from tests.simulation.http_client import Gone
from tests.simulation.peers import Peer
from tests.simulation.people import PEOPLE
from tests.simulation.scene import Scene
from twisted_aotx.journal.usage import read_usage
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import RequestHeader, join

#: Longer than a request, an upload and its receipt live, and than idle connections do.
REST_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 120.0


def audit(scene: Scene) -> None:
    """Note everything that the checker wants to know of the end."""
    world = scene.world
    world.settle(REST_SECONDS)
    _note_held(scene)
    _do(scene, "the auditor", lambda: _read_all(scene))
    world.settle(15.0)
    for gateway in scene.running_gateways():
        if not world.wait_for(gateway.stop(), _STOP_SECONDS):
            world.record("hangs", what="a gateway's stop")
    _do(scene, "all channels", lambda: _use_all_channels(scene))
    world.settle(1.0)
    _note_runtime(scene)
    _stop_runtime(scene)
    _note_ledger(scene)
    _look_again(scene)


def _do(scene: Scene, what: str, session: Any) -> None:
    scene.begin(session)
    if not scene.world.run(lambda: not scene.busy, _STOP_SECONDS):
        scene.world.record("hangs", what=what)


def _note_held(scene: Scene) -> None:
    for gateway in scene.running_gateways():
        scene.world.record(
            "held", port=gateway.port, budgets=sorted(gateway.held().items())
        )


def _note_runtime(scene: Scene) -> None:
    """What the device and the engine hold: nothing, by now."""
    runtime = scene.runtime
    assert runtime is not None
    assert runtime.engine is not None
    stats = runtime.device.stats()
    channels = range(1, runtime.device.channels)
    scene.world.record(
        "runtime_held",
        leases=stats.leases,
        queued=stats.queued,
        receipts=stats.media_receipts,
        is_held=stats.held,
        taken=[each for each in channels if not runtime.device.is_free(each)],
        unanswered=runtime.device.unanswered,
        engine=sorted(runtime.engine.live),
        files=runtime.process.system.open_files(),
        violations=runtime.device.invariants(),
    )


def _stop_runtime(scene: Scene) -> None:
    runtime = scene.runtime
    assert runtime is not None
    if not scene.world.wait_for(runtime.stop(), _STOP_SECONDS):
        scene.world.record("hangs", what="the runtime's stop")
    for process in scene.world.processes:
        if process.name == "clients" or process.is_killed:
            continue
        scene.world.record(
            "left",
            process=process.name,
            calls=len(process.getDelayedCalls()),
            descriptors=len(process.getReaders()) + len(process.getWriters()),
            files=process.system.open_files(),
        )


def _note_ledger(scene: Scene) -> None:
    report = read_usage(scene.folder / "state.sqlite3")
    scene.world.record(
        "ledger",
        rows=[
            (
                *(row.principal, row.model_sha256, row.requests),
                *(row.prompt_tokens, row.sampled_tokens),
            )
            for row in report.rows
        ],
        control_revision=report.control_revision,
        review=report.review,
    )


def _look_again(scene: Scene) -> None:
    """The next activation: sources are there, requests are gone."""
    if not scene.world.wait_for(scene.start_runtime(), 60):
        scene.world.record("hangs", what="the last start")
        return
    _do(scene, "the last look", lambda: _look_at_the_end(scene))
    _stop_runtime(scene)


async def _read_all(scene: Scene) -> None:
    """READ every request that was admitted in this epoch."""
    runtime = scene.runtime
    assert runtime is not None
    scene.world.record("auditing", epoch=runtime.epoch)
    seen: dict[tuple[bytes, bytes], None] = {}
    for event in list(scene.world.history.of("reply")):
        if event.epoch == runtime.epoch and event.status == 202:
            seen[event.principal, event.id] = None
    for principal, id in seen:
        await _exchange(
            scene,
            Operation.READ,
            principal=principal,
            epoch=runtime.epoch,
            id=id,
        )
    scene.world.record("audited", epoch=runtime.epoch, requests=len(seen))


async def _look_at_the_end(scene: Scene) -> None:
    for known in scene.known[:20]:
        await _exchange(
            scene,
            Operation.READ,
            principal=known.owner.id,
            epoch=known.epoch,
            id=known.id,
        )
    for person in PEOPLE:
        await _exchange(scene, Operation.MEDIA_LIST, principal=person.id)


async def _exchange(scene: Scene, operation: Operation, **fields: Any) -> None:
    """One packet and its reply; the history is told by the peer."""
    link = Peer(scene)
    if not link.connect():
        scene.world.record("hangs", what="nobody listens to the auditor")
        return
    header = RequestHeader(operation, revision=scene.revision, **fields)
    try:
        await link.send(join(header))
        await link.receive()
    except Gone:
        scene.world.record("hangs", what="the auditor was closed")
    link.close()
    await scene.process.sleep(0.02)


async def _use_all_channels(scene: Scene) -> None:
    """As many peers as there are channels, each of which is served."""
    runtime = scene.runtime
    assert runtime is not None
    links = [Peer(scene) for _ in range(1, runtime.device.channels)]
    header = RequestHeader(Operation.INFO, PEOPLE[0].id, scene.revision)
    served = 0
    for link in links:
        link.connect()
    for link in links:
        try:
            await link.send(join(header))
            await link.receive()
            served += 1
        except Gone:
            pass
    for link in links:
        link.close()
    scene.world.record("channels", served=served, of=len(links))
