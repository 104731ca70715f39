"""
What a client sends, and what it is told, as records of histories.
"""

from __future__ import annotations

import base64
from typing import Any

from tests.endtoend.streams import Event
from tests.torture.expected import Source, Task
from tests.torture.histories import Reading, State
from tests.torture.talk import Answer


def body_of(task: Task) -> dict[str, Any]:
    """The native request for it."""
    content: Any = task.text
    if task.sources:
        content = [part_of(source) for source in task.sources]
        content.append({"type": "text", "text": task.text})
    return {
        "model": task.model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": task.limit,
        "temperature": 0,
    }


def part_of(source: Source) -> dict[str, str]:
    """The part of a message that refers to it."""
    return {"type": "media", "media_id": source.handle, "modality": source.modality}


def state_of(body: dict[str, Any]) -> State:
    """What a STATUS says."""
    usage = body["usage"]
    return State(
        state=body["state"],
        cancel_requested=body["cancel_requested"],
        status=body["status"],
        prompt_tokens=usage["prompt_tokens"],
        tokens=usage["completion_tokens"],
        finish=body["finish_reason"],
    )


def told(reading: Reading, answer: Answer, cursor: int) -> None:
    """Fill *reading* from a STATUS, or an error."""
    reading.asked, reading.answered = answer.asked, answer.answered
    reading.status, reading.code = answer.status, answer.code
    if answer.status != 200:
        return
    output = answer.body["output"]
    data = base64.b64decode(output["bytes"])
    assert int(output["cursor"]) == cursor
    total = int(output["total_bytes"])
    assert int(output["next_cursor"]) == cursor + len(data) <= total
    if data:
        reading.pieces.append((cursor, data))
    state = state_of(answer.body)
    # An end counts as seen by who has every byte.
    if not (state.is_end and cursor + len(data) < total):
        reading.states.append(state)


def take(reading: Reading, event: Event) -> None:
    """One event of a stream."""
    if event.name == "status":
        reading.states.append(state_of(event.data))
    elif event.name == "emission":
        offset = int(event.data["offset"])
        data = event.output
        assert int(event.data["next_cursor"]) == offset + len(data)
        assert event.id == f"{event.data['request_id']}:{offset + len(data)}"
        reading.pieces.append((offset, data))
    elif event.name == "error":
        reading.code = event.data["error"]["code"]
    else:
        raise AssertionError(f"an event of no kind: {event.name!r}")
