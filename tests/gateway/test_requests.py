"""
Native requests: submit, read, cancel (cases J, `http.md` §6).
"""

from __future__ import annotations

import base64
from typing import Any

import attrs
import pytest

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import EPOCH, DeviceScript
from tests.gateway.feeds import REQUESTS, body
from tests.gateway.serving import P1, P2, TOKEN, TOKEN_2, Response, Serving, digest
from twisted_aotx.gateway.settings import Limits, Principal
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import Operation, Phase

UNKNOWN = f"req-{EPOCH:016x}-{'ab' * 16}"
CONTROL = {
    "schema": "aotx.control.selection.v1",
    "kind": "residual_vector",
    "qualification_sha256": "cd" * 32,
    "dose": 5000,
}


async def submitted(gateway: Serving, **arguments: Any) -> str:
    """
    The path of a new request.
    """
    answer = await gateway.post(REQUESTS, body(**arguments))
    return f"{REQUESTS}/{answer.json['id']}"


def output(status: Response) -> bytes:
    return base64.b64decode(status.json["output"]["bytes"])


@asynchronous
async def test_an_admission(gateway: Serving) -> None:
    """
    cases J 148.
    """
    answer = await gateway.post(REQUESTS, body(max_tokens=7, temperature=0))

    ((_, request_id),) = gateway.device.requests
    handle = f"req-{EPOCH:016x}-{request_id.hex()}"
    assert answer.status == 202
    assert answer.json == {
        "schema": "aotx.admission.v1",
        "id": handle,
        "runtime_epoch": str(EPOCH),
        "state": "accepted",
        "persistence": "ephemeral",
        "media": [],
    }
    assert answer.header("x-request-id") == handle
    assert gateway.device.count(Operation.READ) == 0
    submission = gateway.device.only.submission
    assert (submission.limit, submission.temperature) == (7, 0.0)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (body(stream=True), (400, "invalid_field", "stream")),
        (body(stream=None), (400, "invalid_field", "stream")),
        (body(user="me"), (400, "invalid_field", "body")),
        (body(model="nobody"), (404, "model_not_found", "model")),
        (body("x" * 4001), (413, "context_limit", None)),
        (
            body(control=CONTROL | {"dose": True}),
            (400, "invalid_field", "control.dose"),
        ),
    ],
)
@asynchronous
async def test_what_fails_before_has_no_request(
    gateway: Serving, wrong: dict[str, Any], problem: Any
) -> None:
    """
    cases J 148: stream=true → 400 param stream.
    """
    answer = await gateway.post(REQUESTS, wrong)

    assert answer.problem == problem
    assert answer.header("x-request-id") is None
    assert gateway.device.count(Operation.SUBMIT) == 0


@asynchronous
async def test_a_control_is_sent(gateway: Serving) -> None:
    """
    cases J 155: exactly 48 bytes.
    """
    await gateway.post(REQUESTS, body(control=CONTROL))

    header, payload = gateway.peer.requests[-1]
    assert header.selector_bytes == 48
    assert payload[-48:] == (
        b"\1\0\0\0\1\0\0\0\x88\x13\0\0\0\0\0\0" + bytes.fromhex("cd" * 32)
    )


@asynchronous
async def test_a_device_without_selection(serve: Serve) -> None:
    """
    cases J 155.
    """
    device = DeviceScript()
    device.information = attrs.evolve(
        device.information, selection_version=0, controls=()
    )
    gateway = await serve(device)

    answer = await gateway.post(REQUESTS, body(control=CONTROL))

    assert answer.problem == (503, "control_selection", None)
    assert answer.header("x-request-id") is None


@pytest.mark.parametrize("status", [400, 404, 409, 410, 413, 429, 503])
@asynchronous
async def test_a_refused_submission_names_its_request(
    gateway: Serving, status: int
) -> None:
    gateway.device.before = lambda request: (
        reply_to(request, status, epoch=EPOCH)
        if request.operation == Operation.SUBMIT
        else NotImplemented
    )

    answer = await gateway.post(REQUESTS, body())

    assert answer.problem == (status, "device_refused", None)
    submit = gateway.peer.requests[-1][0]
    assert answer.header("x-request-id") == f"req-{EPOCH:016x}-{submit.id.hex()}"


@asynchronous
async def test_without_the_action(gateway: Serving) -> None:
    """
    http.md §6: submitting is 403 `inference_forbidden`, the rest is the device's 403.
    """
    gateway.device.before = lambda request: reply_to(request, 403, epoch=EPOCH)

    answers = [
        await gateway.post(REQUESTS, body(), token=TOKEN_2),
        await gateway.get(f"{REQUESTS}/{UNKNOWN}", token=TOKEN_2),
        await gateway.post(f"{REQUESTS}/{UNKNOWN}/cancel", {}, token=TOKEN_2),
        await gateway.get(f"{REQUESTS}/{UNKNOWN}/events", token=TOKEN_2),
    ]

    assert answers[0].problem == (403, "inference_forbidden", None)
    for answer in answers[1:]:
        assert answer.problem == (403, "device_refused", None)
        assert answer.header("x-request-id") == UNKNOWN
    assert [h.principal for h, _ in gateway.peer.requests] == [P2] * 3


@asynchronous
async def test_work_slots_of_native_routes(serve: Serve) -> None:
    """
    http.md §3: POST requests and GET events hold one; reading and cancelling none.
    """
    gateway = await serve(limits=Limits(work=1))
    path = await submitted(gateway)
    hold = gateway.gateway.budgets.work.take()

    refused = [
        await gateway.post(REQUESTS, body()),
        await gateway.get(f"{path}/events"),
    ]
    free = [
        await gateway.get(path),
        await gateway.request("HEAD", f"{path}/events"),
        await gateway.post(f"{path}/cancel", {}),
    ]
    hold.release()

    for answer in refused:
        assert answer.problem == (429, "transport_limit", None)
    assert [answer.status for answer in free] == [200, 200, 200]
    assert (await gateway.get(f"{path}/events")).status == 200


PHASES = [
    (Phase.QUEUED, "queued", None),
    (Phase.PREPARING, "preparing", None),
    (Phase.RUNNING, "running", None),
    (Phase.COMPLETED, "completed", "length"),
    (Phase.FAILED, "failed", None),
    (Phase.CANCELLED, "cancelled", None),
]


@pytest.mark.parametrize(("phase", "state", "reason"), PHASES)
@asynchronous
async def test_a_status(
    gateway: Serving, phase: int, state: str, reason: str | None
) -> None:
    """
    cases J 149: finish_reason is null unless completed.
    """
    path = await submitted(gateway)
    request = gateway.device.only
    request.say(b"\xff\x00text", prompt_tokens=3)
    request.phase, request.finish, request.status, request.cancel = phase, 2, 418, 1

    answer = await gateway.get(path)

    handle = path.rpartition("/")[2]
    assert answer.status == 200
    assert answer.json == {
        "schema": "aotx.request.v1",
        "id": handle,
        "runtime_epoch": str(EPOCH),
        "model_role": 2,
        "state": state,
        "cancel_requested": True,
        "status": 418,
        "persistence": "ephemeral",
        "usage": {"prompt_tokens": 3, "completion_tokens": 6, "total_tokens": 9},
        "output": {
            "encoding": "base64",
            "bytes": "/wB0ZXh0",
            "cursor": "0",
            "next_cursor": "6",
            "total_bytes": "6",
        },
        "finish_reason": reason,
    }
    assert answer.header("x-request-id") == handle


@asynchronous
async def test_windows_from_every_cursor(gateway: Serving) -> None:
    path = await submitted(gateway)
    gateway.device.only.complete(b"0123456789")

    for cursor in range(11):
        answer = await gateway.get(f"{path}?cursor={cursor:03}")
        shown = answer.json["output"]
        assert output(answer) == b"0123456789"[cursor:]
        assert (shown["cursor"], shown["next_cursor"]) == (str(cursor), "10")
    beyond = await gateway.get(f"{path}?cursor=11")
    far = await gateway.get(f"{path}?cursor={2**64 - 1}")

    assert beyond.problem == far.problem == (409, "device_refused", None)
    assert beyond.header("x-should-retry") == "false"


@asynchronous
async def test_long_output_in_windows(gateway: Serving) -> None:
    path = await submitted(gateway)
    gateway.device.only.complete(b"ab" * 50_000)

    first = await gateway.get(path)
    rest = await gateway.get(f"{path}?cursor={first.json['output']['next_cursor']}")

    assert first.json["output"]["next_cursor"] == "65408"
    assert first.json["state"] == "completed"
    assert output(first) + output(rest) == b"ab" * 50_000


@pytest.mark.parametrize(
    "cursor", ["", "-1", "+1", "1.0", "x", "1" * 21, str(2**64), "¹"]
)
@pytest.mark.parametrize("events", ["", "/events"])
@asynchronous
async def test_cursors_that_are_none(
    gateway: Serving, cursor: str, events: str
) -> None:
    """
    cases H 125: 400 param cursor, before the device is asked.
    """
    answer = await gateway.get(f"{REQUESTS}/{UNKNOWN}{events}?cursor={cursor}")

    assert answer.problem == (400, "invalid_field", "cursor")
    assert answer.header("x-request-id") == UNKNOWN
    assert gateway.device.operations == []


@asynchronous
async def test_cancel(gateway: Serving) -> None:
    """
    B03: the answer may still say running; output from 0.
    """
    path = await submitted(gateway)
    gateway.device.only.say(b"so far")

    answer = await gateway.post(f"{path}/cancel", {})
    again = await gateway.post(f"{path}/cancel", {})

    assert (answer.status, answer.json["state"]) == (200, "running")
    assert (answer.json["cancel_requested"], answer.json["status"]) == (True, 409)
    assert output(answer) == b"so far"
    assert answer.json == again.json
    assert answer.header("x-request-id") == path.rpartition("/")[2]


@asynchronous
async def test_a_cancel_of_what_has_ended_changes_nothing(gateway: Serving) -> None:
    path = await submitted(gateway)
    gateway.device.only.complete(b"done")

    answer = await gateway.post(f"{path}/cancel", {})

    assert answer.json == (await gateway.get(path)).json
    assert answer.json["cancel_requested"] is False


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[]", (400, "invalid_field", "body")),
        (b"", (400, "invalid_field", "body")),
        (b"null", (400, "invalid_field", "body")),
        (b'{"reason":"x"}', (400, "invalid_field", "body")),
        (b"{", (400, "invalid_field", "body")),
    ],
)
@asynchronous
async def test_the_body_of_a_cancel(
    gateway: Serving, content: bytes, problem: Any
) -> None:
    """
    B15: exactly {}; nothing is touched else.
    """
    path = await submitted(gateway)
    headers = {"Content-Type": "application/json"}

    answer = await gateway.post(f"{path}/cancel", data=content, headers=headers)
    no_type = await gateway.post(f"{path}/cancel", data=b"{}")

    assert answer.problem == problem
    assert no_type.problem == (415, "content_type", None)
    assert gateway.device.count(Operation.CANCEL) == 0
    assert answer.header("x-request-id") == path.rpartition("/")[2]


MALFORMED = [
    "req-",
    "",
    "*",
    "%00",
    f"req-{EPOCH:016x}-{'AB' * 16}",
    f"req-{EPOCH:015x}-{'ab' * 16}",
    f"req-{EPOCH:016x}-{'ab' * 16}0",
    f"req-{EPOCH:016x}-{'ab' * 15}",
    f"REQ-{EPOCH:016x}-{'ab' * 16}",
    f"chatcmpl-{'ab' * 16}",
]


@pytest.mark.parametrize("handle", MALFORMED)
@asynchronous
async def test_a_malformed_handle_is_no_route(gateway: Serving, handle: str) -> None:
    """
    cases J 152, B15.
    """
    answers = [
        await gateway.get(f"{REQUESTS}/{handle}"),
        await gateway.get(f"{REQUESTS}/{handle}/events"),
        await gateway.post(f"{REQUESTS}/{handle}/cancel", {}),
    ]

    for answer in answers:
        assert answer.problem == (404, "route_not_found", None)
        assert answer.header("x-request-id") is None
    assert gateway.device.operations == []


@pytest.mark.parametrize(
    "handle", [f"req-{0:016x}-{'ab' * 16}", f"req-{EPOCH:016x}-{'00' * 16}"]
)
@asynchronous
async def test_a_zero_in_a_handle(gateway: Serving, handle: str) -> None:
    """
    cases J 152: 400 param request_id, and every such answer names it.
    """
    answers = [
        await gateway.get(f"{REQUESTS}/{handle}"),
        await gateway.get(f"{REQUESTS}/{handle}/events"),
        await gateway.post(f"{REQUESTS}/{handle}/cancel", {}),
    ]

    for answer in answers:
        assert answer.problem == (400, "invalid_field", "request_id")
        assert answer.header("x-request-id") == handle
    assert gateway.device.operations == []


@asynchronous
async def test_an_older_epoch_is_gone(gateway: Serving) -> None:
    """
    cases J 152, B25.
    """
    handle = f"req-{EPOCH - 1:016x}-{'ab' * 16}"
    answers = [
        await gateway.get(f"{REQUESTS}/{handle}"),
        await gateway.get(f"{REQUESTS}/{handle}/events"),
        await gateway.post(f"{REQUESTS}/{handle}/cancel", {}),
    ]

    for answer in answers:
        assert answer.problem == (410, "device_refused", None)
        assert answer.header("x-request-id") == handle
        assert answer.header("x-should-retry") == "false"


@asynchronous
async def test_a_foreign_handle_is_an_unknown_one(serve: Serve) -> None:
    """
    D22: the same bytes apart from the id, whatever cursor or state.
    """
    mine = Principal(id=P1, token_sha256=(digest(TOKEN),), models=("m",), actions=1)
    other = Principal(id=P2, token_sha256=(digest(TOKEN_2),), models=("m",), actions=1)
    gateway = await serve(principals=(mine, other))
    path = await submitted(gateway)
    gateway.device.only.complete(b"my secret")
    foreign = path.rpartition("/")[2]

    async def ask(handle: str) -> list[Response]:
        at = f"{REQUESTS}/{handle}"
        last = {"Last-Event-ID": f"{handle}:3"}
        return [
            await gateway.get(at, token=TOKEN_2),
            await gateway.get(f"{at}?cursor=4", token=TOKEN_2),
            await gateway.get(f"{at}?cursor=99", token=TOKEN_2),
            await gateway.get(f"{at}/events", token=TOKEN_2),
            await gateway.get(f"{at}/events?cursor=99", token=TOKEN_2),
            await gateway.get(f"{at}/events", token=TOKEN_2, headers=last),
            await gateway.post(f"{at}/cancel", {}, token=TOKEN_2),
        ]

    def told(answer: Response) -> Any:
        headers = {k: v for k, v in answer.headers.getAllRawHeaders() if k != b"Date"}
        headers.pop(b"X-Request-Id")
        return answer.status, headers, answer.content

    theirs, nobodys = await ask(foreign), await ask(UNKNOWN)

    assert [told(a) for a in theirs] == [told(a) for a in nobodys]
    assert len({told(a)[2] for a in theirs}) == 1
    assert theirs[0].problem == (404, "device_refused", None)
    assert gateway.device.only.cancel == 0
