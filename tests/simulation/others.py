"""
Sessions of those who ask for what is not theirs, for what is gone, and for everything
that is not a request.
"""

from __future__ import annotations

from typing import Any, Final

from tests.simulation.caller import Caller
from tests.simulation.http_client import Gone
from tests.simulation.native import cancel, read
from tests.simulation.people import PEOPLE
from tests.simulation.scene import Scene

_LOOKS: Final = (
    *("/healthz", "/readyz", "/openapi.json", "/v1/models", "/v1/models/odd"),
    *("/aotx/v1/capabilities", "/aotx/v1/telemetry", "/aotx/v1/policy"),
    *("/nowhere", "/aotx/v1/requests/req-0", "/aotx/v1/shared/x"),
)
#: Actions of the policy; review works only after the first.
_ACTIONS: Final = (
    *("review_on", "review_on", "review_on", "review_on", "resume", "resume"),
    *("review_off", "pause", "stop"),
)


async def snoop(scene: Scene) -> None:
    """Ask for another's request in every way, and for one that nobody has."""
    world = scene.world
    for _ in range(6):
        if scene.known:
            break
        await scene.process.sleep(0.5)
    else:
        return
    known = world.random.choice(scene.known)
    others = [each for each in PEOPLE if each is not known.owner]
    caller = Caller(scene, world.random.choice(others))
    unknown = world.random.randbytes(16)
    how = world.random.choice(("", "?cursor=7", "/events", "/cancel"))
    method = "POST" if how == "/cancel" else "GET"
    body: Any = {} if how == "/cancel" else None
    for id, whose in ((known.id, "foreign"), (unknown, "unknown")):
        handle = f"req-{known.epoch:016x}-{id.hex()}"
        path = f"/aotx/v1/requests/{handle}{how}"
        found = await caller.patient(method, path, body, tries=10)
        if found is None:
            break
        began, answer = found
        world.record(
            "snooped",
            began=began,
            whose=whose,
            of=known.id,
            how=how,
            principal=caller.person.id,
            epoch=known.epoch,
            status=answer.status,
            content=answer.content.replace(id.hex().encode(), b"?"),
        )
    caller.forget()


async def look_back(scene: Scene) -> None:
    """Read requests that were admitted earlier, by whichever runtime."""
    world = scene.world
    for _ in range(4):
        await scene.process.sleep(world.random.random() * 3)
        if scene.known:
            known = world.random.choice(scene.known)
            caller = Caller(scene, known.owner)
            deed = cancel if world.chance(0.3) else read
            await deed(caller, known)
            caller.forget()


async def look_around(scene: Scene) -> None:
    """Every route that changes nothing."""
    world = scene.world
    caller = Caller(scene, scene.person())
    for _ in range(world.random.randint(1, 6)):
        path = world.random.choice(_LOOKS)
        method = world.random.choice(("GET", "GET", "HEAD"))
        try:
            if method == "HEAD":
                began, connection, answer = await caller.open(method, path)
                connection.close()
            else:
                began, answer = await caller.call(method, path)
        except Gone:
            caller.forget()
            continue
        world.record(
            "looked", began=began, path=path, method=method, status=answer.status
        )
    caller.forget()


async def steer(scene: Scene) -> None:
    """Use the policy's controls."""
    world = scene.world
    caller = Caller(scene, scene.person())
    path = "/aotx/v1/policy"
    for _ in range(world.random.randint(1, 3)):
        found = await caller.patient("GET", path, tries=10)
        if found is None or found[1].status != 200:
            break
        said = found[1].json
        action = world.random.choice(_ACTIONS)
        body = {
            "action": action,
            "epoch": said["epoch"],
            "control_revision": said["control_revision"],
        }
        world.record("steering", **body)
        try:
            began, answer = await caller.call("POST", path, body)
        except Gone:
            caller.forget()
            continue
        world.history.count("outcome", f"policy {answer.status}")
        after = answer.json["control_revision"] if answer.status == 200 else 0
        world.record("steered", began=began, status=answer.status, after=after, **body)
        await scene.process.sleep(world.random.random())
    caller.forget()
