"""
What every answer of a gateway has to be, by `http.md`: all that a client was told the
device has told, in time, and about the client's own request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.simulation.history import Event
from tests.simulation.truth import TERMINAL, Key, Request, Truth
from twisted_aotx.wire.numbers import Operation

#: Codes that no client of a sound gateway ever sees.
_FAULTS: Final = ("internal_error", "invalid_device_response", "event_limit")
_FACTS: Final = ("phase", "cancel", "failure", "prompt", "sampled", "finish")
_LOOKS: Final = {
    "/healthz": {200},
    "/readyz": {200, 503},
    "/openapi.json": {200},
    "/v1/models/odd": {200, 403, 404},
    "/nowhere": {404},
    "/aotx/v1/requests/req-0": {404},
    "/aotx/v1/shared/x": {403, 503},
}
#: Refusals that a busy or restarted service may give to anybody.
_FOR_NOW: Final = {403, 429, 503}
_OF_OPERATION: Final = {
    "read": (Operation.READ,),
    "events": (Operation.READ,),
    "cancel": (Operation.CANCEL,),
    "submit": (Operation.SUBMIT, Operation.INFO, Operation.MEDIA_READ),
}


def check_gateway(truth: Truth) -> Iterator[str]:
    """Everything that is wrong with what HTTP clients were told."""
    for event in truth.history.of("accepted"):
        yield from _check_accepted(truth, event)
    for event in truth.history.of("status"):
        yield from _check_status(truth, event)
    for event in truth.history.of("completion"):
        yield from _check_completion(truth, event)
    for event in truth.history.of("refused", "completion_error", "stream_error"):
        # An engine may fail a request with 500; the gateway never says it itself.
        if event.code in _FAULTS:
            yield f"answer {event.number} is {event.code}"
        if event.kind == "refused" and event.code == "device_refused":
            yield from _check_refused(truth, event)
        if event.code in ("request_failed", "request_cancelled"):
            yield from _check_bad_end(truth, event)
    for event in truth.history.of("looked"):
        allowed = _LOOKS.get(event.path, {200} | _FOR_NOW)
        if event.status not in allowed | {429, 503}:
            yield f"{event.method} {event.path} is {event.status}"
    yield from _check_snooping(truth)


def key_of(event: Event) -> Key:
    """The request that an event is of."""
    return event.epoch, event.principal, event.id


def _submitted(truth: Truth, event: Event) -> Request | None:
    """The request of *event* that was submitted as what it names."""
    lives = truth.lives(key_of(event), event.began, event.number)
    return next((each for each in lives if each.nonce == event.nonce), None)


def _check_accepted(truth: Truth, event: Event) -> Iterator[str]:
    request = _submitted(truth, event)
    where = f"202 {event.number} of {event.nonce}"
    if request is None:
        yield f"{where} names a request that the device did not admit as this one"
    elif not event.began <= request.admitted.number < event.number:
        yield f"{where} came before the device's"


def _check_status(truth: Truth, event: Event) -> Iterator[str]:
    where = f"{event.via} {event.number}"
    lives = truth.lives(key_of(event), event.began, event.number)
    if not lives:
        yield f"{where} tells of a request that is not its principal's"
        return
    if event.handle != f"req-{event.epoch:016x}-{event.id.hex()}":
        yield f"{where} tells of another handle, {event.handle}"
    if event.tokens != event.prompt + event.sampled:
        yield f"{where} does not add up"
    facts: dict[str, Any] = {name: getattr(event, name) for name in _FACTS}
    if "total" in event.fields:
        facts["total"] = event.total
        lives = [x for x in lives if x.data[event.cursor : event.next] == event.data]
        if not lives:
            yield f"{where}: bytes {event.cursor}..{event.next} are not its output's"
    if not any(each.is_told(event.began, event.number, **facts) for each in lives):
        yield f"{where} tells what the device did not tell"


def _check_completion(truth: Truth, event: Event) -> Iterator[str]:
    where = f"completion {event.number} of {event.nonce}"
    request = _submitted(truth, event)
    if request is None:
        yield f"{where} is of another request"
        return
    last = request.last
    if last is None or last.phase != 4:
        yield f"{where} has not completed"
        return
    output = request.data[: last.total]
    if event.text != output.decode("utf-8", "replace"):
        yield f"{where} has another text than its request"
    if event.name != f"chatcmpl-{event.id.hex()}":
        yield f"{where} is called {event.name}"
    if event.finish != {1: "stop", 2: "length"}[last.finish]:
        yield f"{where} finished by {event.finish}"
    used = event.prompt, event.sampled
    if used not in ((None, None), (last.prompt, last.sampled)):
        yield f"{where} has {event.prompt} and {event.sampled} tokens"


def _check_bad_end(truth: Truth, event: Event) -> Iterator[str]:
    """A completion that failed as its request did."""
    where = f"failed completion {event.number} of {event.nonce}"
    if "id" not in event.fields:
        yield f"{where} names no request"
        return
    request = _submitted(truth, event)
    last = None if request is None else request.last
    if last is None or last.phase not in TERMINAL[1:]:
        yield f"{where}: its request has not ended so"
        return
    is_cancelled = last.phase == 6
    if (event.code == "request_cancelled") != is_cancelled:
        yield f"{where} is {event.code} in phase {last.phase}"
    status = event.fields.get("status")
    if status not in (None, last.failure):
        yield f"{where} is {status}, its request {last.failure}"


def _last_info(truth: Truth, event: Event) -> int | None:
    """
    What INFO said last to its principal before it began: calls share an exchange that
    is under way, and its answer for a second (`gateway/information.py`).
    """
    for number in range(event.began - 1, -1, -1):
        reply = truth.events[number]
        if (
            reply.kind == "reply"
            and reply.principal == event.principal
            and truth.events[reply.frame].operation == Operation.INFO
        ):
            return int(reply.status)
    return None


def _check_refused(truth: Truth, event: Event) -> Iterator[str]:
    """A refusal that the device gave, to this principal, in this time."""
    operations = _OF_OPERATION.get(event.what)
    if operations is None:
        return
    for number in range(event.number - 1, event.began - 1, -1):
        reply = truth.events[number]
        if reply.kind != "reply" or reply.status != event.status:
            continue
        frame = truth.events[reply.frame]
        is_its = frame.principal == event.principal and (
            event.fields.get("id", frame.id) == frame.id
        )
        if is_its and frame.operation in operations:
            return
    if Operation.INFO in operations and _last_info(truth, event) == event.status:
        return
    yield f"{event.what} {event.number} is {event.status}, not by the device"


def _check_snooping(truth: Truth) -> Iterator[str]:
    answers: dict[tuple[Any, ...], dict[str, Event]] = {}
    for event in truth.history.of("snooped"):
        if event.status not in (404, 410):
            yield f"{event.whose} handle {event.number} is answered {event.status}"
        name = event.of, event.how, event.principal, event.status
        answers.setdefault(name, {})[event.whose] = event
    for pair in answers.values():
        if len(pair) == 2 and pair["foreign"].content != pair["unknown"].content:
            yield f"foreign and unknown differ: {pair['foreign']}, {pair['unknown']}"
