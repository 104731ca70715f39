"""
Sessions of native requests: submit, read, follow, resume, cancel, leave.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.simulation.caller import TERMINAL, Caller
from tests.simulation.http_client import Cut, Gone, Malformed
from tests.simulation.people import FIXED, ODD, Person
from tests.simulation.scene import Known, Scene

#: How often a client takes a stream up again.
_RESUMES_MAX = 60


def question(scene: Scene, person: Person, via: str) -> tuple[str, dict[str, Any]]:
    """One more request of *person*: its name and its body."""
    random = scene.world.random
    nonce = scene.fresh_nonce()
    model = FIXED if random.random() < 0.15 else ODD
    own = [each for each in scene.sources if each[0] is person]
    sources: list[bytes] = []
    content: Any = f"#{nonce}# " + "words " * random.choice((0, 1, 50, 500))
    if via == "native" and model == ODD and own and random.random() < 0.5:
        _, handle, sha256, modality = random.choice(own)
        media = {"type": "media", "media_id": handle, "modality": modality}
        content = [{"type": "text", "text": content}, media]
        sources = [sha256]
    body = {
        "model": model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": random.choice((1, 5, 60, 200)),
        "temperature": 0.5,
    }
    scene.world.record(
        "asked",
        nonce=nonce,
        principal=person.id,
        via=via,
        model=model,
        limit=body["max_tokens"],
        sources=sources,
    )
    return nonce, body


async def native(scene: Scene) -> None:
    """One request from its submission on, by one who stays or one who does not."""
    person = scene.person()
    caller = Caller(scene, person)
    known = await submit(scene, caller)
    random = scene.world.random
    while known is not None:
        await scene.process.sleep(random.random() * random.choice((0.01, 0.3, 2.0)))
        deed = random.choice(("read", "read", "follow", "follow", "cancel", "leave"))
        if deed == "leave":
            break
        if deed == "follow":
            over = await follow(caller, known)
        elif deed == "cancel":
            over = await cancel(caller, known)
        else:
            over = await read(caller, known)
        if over and random.random() < 0.7:
            break
    caller.forget()


async def submit(scene: Scene, caller: Caller) -> Known | None:
    """Have a request admitted; None if it was not, or nobody knows."""
    nonce, body = question(scene, caller.person, "native")
    path = "/aotx/v1/requests"
    try:
        chunked = scene.world.chance(0.3)
        began, answer = await caller.call("POST", path, body, chunked=chunked)
    except Gone:
        scene.world.history.count("outcome", "submission without an answer")
        return None
    if answer.status != 202:
        caller.refused("submit", began, answer, nonce=nonce)
        return None
    said = answer.json
    handle = str(said["id"])
    known = Known(caller.person, int(handle[4:20], 16), bytes.fromhex(handle[21:]))
    if int(said["runtime_epoch"]) != known.epoch:
        raise Malformed("two epochs in one admission")
    scene.accepted(known, nonce, began)
    return known


async def read(caller: Caller, known: Known) -> bool:
    """READ from somewhere; whether nothing more will come."""
    cursor = caller.scene.world.random.choice((0, 0, 1, 100, 3000))
    path = f"/aotx/v1/requests/{known.handle}?cursor={cursor}"
    found = await caller.patient("GET", path)
    if found is None:
        return True
    began, answer = found
    if answer.status != 200:
        of = {"epoch": known.epoch, "id": known.id, "cursor": cursor}
        caller.refused("read", began, answer, **of)
        return answer.status != 409
    return caller.saw(began, known, answer.json, "read") in TERMINAL


async def cancel(caller: Caller, known: Known) -> bool:
    """CANCEL; whether there is nothing to be seen any more."""
    path = f"/aotx/v1/requests/{known.handle}/cancel"
    found = await caller.patient("POST", path, {})
    if found is None:
        return True
    began, answer = found
    if answer.status != 200:
        caller.refused("cancel", began, answer, epoch=known.epoch, id=known.id)
        return True
    caller.scene.world.history.count("outcome", "cancel accepted")
    caller.saw(began, known, answer.json, "cancel")
    return False


async def follow(caller: Caller, known: Known) -> bool:
    """
    Follow a request's events to its end, resuming wherever it was cut; whether the end
    was seen.
    """
    scene = caller.scene
    world = scene.world
    last_id = ""
    start = world.random.choice((0, 0, 0, 5))
    for _ in range(_RESUMES_MAX):
        path = f"/aotx/v1/requests/{known.handle}/events"
        headers = {}
        if last_id:
            headers["Last-Event-ID"] = last_id
        elif start:
            path += f"?cursor={start}"
        cursor = int(last_id.rpartition(":")[2]) if last_id else start
        try:
            outcome, last_id = await _stream(
                caller, known, path, headers, cursor, last_id
            )
        except Cut:
            outcome = "left"
        except Gone:
            outcome = "gone"
        if outcome in ("ended", "refused"):
            return True
        if outcome == "left" and world.chance(0.3):
            return False
        if last_id:
            world.history.count("outcome", "stream resumed")
        await scene.process.sleep(0.05 + world.random.random() * 0.5)
    return False


async def _stream(
    caller: Caller,
    known: Known,
    path: str,
    headers: dict[str, str],
    cursor: int,
    last_id: str,
) -> tuple[str, str]:
    """One stream: how it ended, and the last id of it or before it."""
    world = caller.scene.world
    began, connection, head = await caller.open("GET", path, headers=headers)
    of = {"epoch": known.epoch, "id": known.id}
    if head.status != 200:
        content = b"".join([part async for part in connection.parts(head)])
        answer = type(head)(head.status, head.headers, content)
        connection.close()
        if answer.status in (429, 503, 403):
            return "again", last_id
        caller.refused("events", began, answer, cursor=cursor, **of)
        return "refused", last_id
    stream = world.record(
        "stream", began=began, principal=caller.person.id, cursor=cursor, **of
    )
    is_terminal = False
    try:
        async for record in connection.records(head):
            data = json.loads(record["data"])
            if record["event"] == "emission":
                last_id = record["id"]
                world.record(
                    "emission",
                    stream=stream,
                    offset=int(data["offset"]),
                    next=int(data["next_cursor"]),
                    data=base64.b64decode(data["bytes"], validate=True),
                    last_id=last_id,
                    handle=data["request_id"],
                    of=known.handle,
                )
            elif record["event"] == "status":
                state = caller.saw(began, known, data, "events")
                is_terminal = state in TERMINAL
                world.record("told", stream=stream, is_terminal=is_terminal)
            else:
                code = data["error"]["code"]
                world.history.count("refusal", f"event {code}")
                world.record("stream_error", stream=stream, code=code)
    except Gone as gone:
        # What came in before is kept: the next stream begins behind it.
        world.record("stream_end", stream=stream, is_whole=False)
        return ("left" if isinstance(gone, Cut) else "gone"), last_id
    world.record("stream_end", stream=stream, is_whole=True)
    connection.close()
    return ("ended" if is_terminal else "again"), last_id
