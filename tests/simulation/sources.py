"""
Sessions of media sources: upload, list, show, remove.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Final

from tests.media_made import JPEGS, make_jpeg, make_wav
from tests.simulation.caller import Caller
from tests.simulation.http_client import Gone
from tests.simulation.scene import Scene

PATH: Final = "/aotx/v1/media"
#: Sources that are refused, one in so many.
_BAD: Final = 0.25


@functools.cache
def good_sources() -> tuple[tuple[str, str, bytes], ...]:
    """(modality, content type, bytes) of sources that become ready."""
    sounds = [("audio", "audio/wav", make_wav(400, seed=seed)) for seed in range(4)]
    sounds.append(("audio", "audio/x-wav", make_wav(9000, "float32", 44100, 2)))
    pictures = [("image", "image/jpeg", data) for data in JPEGS.values()]
    pictures.append(("image", "image/jpeg", make_jpeg(300, 200)))
    return (*sounds, *pictures)


async def media(scene: Scene) -> None:
    """One source, its owner's list, and perhaps its end."""
    caller = Caller(scene, scene.person())
    random = scene.world.random
    if random.random() < 0.8:
        await upload(scene, caller)
    for _ in range(random.randrange(3)):
        await list_sources(scene, caller)
        await show_one(scene, caller)
        await scene.process.sleep(random.random())
    if random.random() < 0.5:
        await remove(scene, caller)
    caller.forget()


async def upload(scene: Scene, caller: Caller) -> None:
    """POST media."""
    world = scene.world
    modality, kind, data = world.random.choice(good_sources())
    if world.chance(_BAD):
        at = world.random.randrange(len(data))
        data = data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1 :]
    sha256 = hashlib.sha256(data).digest()
    world.record("uploading", principal=caller.person.id, sha256=sha256)
    try:
        began, answer = await caller.call("POST", PATH, content=data, kind=kind)
    except Gone:
        world.history.count("outcome", "upload without an answer")
        return
    if answer.status != 201:
        caller.refused("upload", began, answer, sha256=sha256)
        return
    said = answer.json
    world.history.count("outcome", "source ready")
    world.record(
        "source_ready",
        began=began,
        principal=caller.person.id,
        handle=said["id"],
        sha256=bytes.fromhex(said["sha256"]),
        sent=sha256,
        phase=said["phase"],
        size=int(said["bytes"]),
    )
    scene.sources.append((caller.person, said["id"], sha256, modality))


async def list_sources(scene: Scene, caller: Caller) -> None:
    """GET media, as a patient client."""
    found = await caller.patient("GET", PATH, tries=10)
    if found is None:
        return
    began, answer = found
    if answer.status != 200:
        caller.refused("list", began, answer)
        return
    said = answer.json
    scene.world.record(
        "source_list",
        began=began,
        principal=caller.person.id,
        epoch=int(said["runtime_epoch"]),
        is_whole=said["next_cursor"] is None,
        rows=[(row["id"], row["sha256"], row["phase"]) for row in said["data"]],
    )


async def show_one(scene: Scene, caller: Caller) -> None:
    """GET media/{id} of a source that somebody was told is ready."""
    if not scene.sources:
        return
    owner, handle, _, _ = scene.world.random.choice(scene.sources)
    found = await caller.patient("GET", f"{PATH}/{handle}", tries=10)
    if found is None:
        return
    began, answer = found
    said = answer.json if answer.status == 200 else {}
    scene.world.record(
        "source_shown",
        began=began,
        principal=caller.person.id,
        owner=owner.id,
        handle=handle,
        status=answer.status,
        phase=said.get("phase", 0),
        sha256=bytes.fromhex(said.get("sha256", "")),
    )


async def remove(scene: Scene, caller: Caller) -> None:
    """DELETE media/{id}, of one's own source or of another's."""
    if not scene.sources:
        return
    owner, handle, _, _ = scene.world.random.choice(scene.sources)
    began = len(scene.world.history.events)
    scene.world.record(
        "removing", principal=caller.person.id, owner=owner.id, handle=handle
    )
    try:
        began, answer = await caller.call("DELETE", f"{PATH}/{handle}")
    except Gone:
        return
    scene.world.history.count("outcome", f"removal {answer.status}")
    scene.world.record(
        "removed",
        began=began,
        principal=caller.person.id,
        owner=owner.id,
        handle=handle,
        status=answer.status,
    )
