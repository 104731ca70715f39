"""
Sessions of standard completions, whole and streamed.
"""

from __future__ import annotations

import json
from typing import Any

from tests.simulation.caller import Caller
from tests.simulation.http_client import Answer, Gone, Malformed
from tests.simulation.native import question
from tests.simulation.scene import Known, Scene


async def completion(scene: Scene) -> None:
    """One completion; its request is remembered where its handle was seen."""
    caller = Caller(scene, scene.person())
    nonce, body = question(scene, caller.person, "completion")
    streamed = scene.world.chance(0.5)
    usage = streamed and scene.world.chance(0.5)
    if streamed:
        body["stream"] = True
        if usage:
            body["stream_options"] = {"include_usage": True}
    content = json.dumps(body).encode()
    try:
        began, connection, head = await caller.open(
            "POST", "/v1/chat/completions", content
        )
        handle = _known(scene, caller, nonce, began, head)
        if streamed and head.status == 200:
            await _records(scene, caller, nonce, began, handle, connection, head)
        else:
            parts = [part async for part in connection.parts(head)]
            answer = Answer(head.status, head.headers, b"".join(parts))
            _whole(scene, caller, nonce, began, handle, answer)
        connection.close()
    except Gone:
        scene.world.history.count("outcome", "completion cut")
    caller.forget()


def _known(
    scene: Scene, caller: Caller, nonce: str, began: int, head: Answer
) -> Known | None:
    name = head.headers.get("x-request-id")
    if name is None:
        if head.status == 200:
            raise Malformed("a completion without its handle")
        return None
    known = Known(caller.person, int(name[4:20], 16), bytes.fromhex(name[21:]))
    if head.status == 200:
        scene.accepted(known, nonce, began)
    return known


def _whole(
    scene: Scene,
    caller: Caller,
    nonce: str,
    began: int,
    known: Known | None,
    answer: Answer,
) -> None:
    if answer.status != 200:
        scene.world.history.count("refusal", f"{answer.status} {answer.code}")
        of: dict[str, Any] = {}
        if known is not None:
            of = {"epoch": known.epoch, "id": known.id}
        caller.refused("completion", began, answer, nonce=nonce, **of)
        return
    assert known is not None, "of a success"
    said = answer.json
    (choice,) = said["choices"]
    _note(
        scene,
        caller,
        nonce,
        began,
        known,
        said["id"],
        choice["message"]["content"],
        choice["finish_reason"],
        said["usage"],
    )


async def _records(
    scene: Scene,
    caller: Caller,
    nonce: str,
    began: int,
    known: Known | None,
    connection: Any,
    head: Answer,
) -> None:
    assert known is not None, "of a success"
    text, reason, usage, done, names = "", None, None, False, set()
    async for record in connection.records(head):
        if done:
            raise Malformed("records after the last one")
        if record["data"] == "[DONE]":
            done = True
            continue
        data = json.loads(record["data"])
        if "error" in data:
            scene.world.history.count("refusal", f"record {data['error']['code']}")
            scene.world.record(
                "completion_error",
                began=began,
                nonce=nonce,
                principal=caller.person.id,
                epoch=known.epoch,
                id=known.id,
                code=data["error"]["code"],
            )
            return
        names.add(data["id"])
        if not data["choices"]:
            usage = data["usage"]
            continue
        (choice,) = data["choices"]
        if reason is not None:
            raise Malformed("a delta after the last one")
        text += choice["delta"].get("content", "")
        reason = choice["finish_reason"]
    if not done:
        raise Malformed("a stream that ended well without [DONE]")
    (name,) = names
    _note(scene, caller, nonce, began, known, name, text, reason, usage)


def _note(
    scene: Scene,
    caller: Caller,
    nonce: str,
    began: int,
    known: Known,
    name: str,
    text: str,
    reason: str | None,
    usage: dict[str, int] | None,
) -> None:
    scene.world.history.count("outcome", "completion whole")
    scene.world.record(
        "completion",
        began=began,
        nonce=nonce,
        principal=caller.person.id,
        epoch=known.epoch,
        id=known.id,
        name=name,
        text=text,
        finish=reason,
        prompt=None if usage is None else usage["prompt_tokens"],
        sampled=None if usage is None else usage["completion_tokens"],
    )
