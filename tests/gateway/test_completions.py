"""
Completions as JSON: what comes back, and how they fail (cases I, `http.md` §7).
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, gatherResults

from tests.asynchronous import asynchronous
from tests.clocks import standing_clock
from tests.gateway.conftest import Serve
from tests.gateway.device_script import EPOCH, INFORMATION, DeviceScript, Running
from tests.gateway.feeds import CHAT, body, eventually
from tests.gateway.serving import TOKEN_2, Serving, digest
from twisted_aotx.gateway.settings import Limits, Principal
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import Operation, Phase

COMPLETED, FAILED, CANCELLED = Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED

#: How a request ends: phase, finish, status, cancel flag; the answer's status and code.
ENDS = [
    ((CANCELLED, 0, 409, 1), (409, "request_cancelled")),
    ((CANCELLED, 0, 504, 1), (504, "request_cancelled")),
    ((CANCELLED, 0, 413, 1), (413, "request_cancelled")),
    ((CANCELLED, 0, 403, 1), (403, "request_cancelled")),
    ((CANCELLED, 0, 0, 1), (503, "request_cancelled")),
    ((CANCELLED, 0, 503, 0), (503, "request_cancelled")),
    ((FAILED, 0, 400, 0), (400, "request_failed")),
    ((FAILED, 0, 599, 0), (599, "request_failed")),
    ((FAILED, 0, 0, 0), (503, "request_failed")),
    ((COMPLETED, 0, 0, 0), (503, "request_failed")),
    ((COMPLETED, 1, 500, 0), (500, "request_failed")),
    ((COMPLETED, 1, 0, 1), (503, "request_cancelled")),
]


def end_with(end: tuple[int, int, int, int], output: bytes = b"part") -> Any:
    def ended(request: Running) -> None:
        request.say(output)
        request.phase, request.finish, request.status, request.cancel = end

    return ended


@asynchronous
async def test_a_completion_has_exactly_this_shape(gateway: Serving) -> None:
    """
    cases I 137, I 139.
    """
    gateway.device.on_submit = lambda request: request.complete("héllo 😀".encode())
    gateway.gateway.wall_seconds = lambda: 1234567890.9

    answer = await gateway.post(CHAT, body())

    ((_, request_id),) = gateway.device.requests
    assert answer.status == 200
    assert answer.json == {
        "id": f"chatcmpl-{request_id.hex()}",
        "object": "chat.completion",
        "created": 1234567890,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "héllo 😀",
                    "refusal": None,
                },
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 11, "total_tokens": 16},
    }
    assert answer.header("x-request-id") == f"req-{EPOCH:016x}-{request_id.hex()}"
    assert answer.header("content-type") == "application/json"
    assert "héllo 😀".encode() in answer.content
    submission = gateway.device.only.submission
    assert (submission.role, submission.limit) == (2, 256)
    assert (submission.temperature, submission.top_p) == (1.0, 1.0)


@asynchronous
async def test_the_limit_is_a_reason_of_its_own(gateway: Serving) -> None:
    """
    B41: `length` when it was cut, `stop` when it ended.
    """
    gateway.device.on_submit = lambda request: request.complete(b"abc", finish=2)

    answer = await gateway.post(CHAT, body(max_tokens=3))

    assert answer.json["choices"][0]["finish_reason"] == "length"
    assert gateway.device.only.submission.limit == 3


@asynchronous
async def test_an_empty_completion_is_one(gateway: Serving) -> None:
    gateway.device.on_submit = lambda request: request.complete(b"")

    answer = await gateway.post(CHAT, body())

    assert answer.json["choices"][0]["message"]["content"] == ""


@asynchronous
async def test_a_completion_waits_for_its_end(gateway: Serving) -> None:
    pending = Deferred.fromCoroutine(gateway.post(CHAT, body()))
    await eventually(lambda: gateway.device.count(Operation.READ) >= 2)
    request = gateway.device.only
    request.say(b"one ")
    await eventually(lambda: gateway.device.count(Operation.READ) >= 4)
    assert not pending.called

    request.complete(b"two")
    answer = await pending

    assert answer.json["choices"][0]["message"]["content"] == "one two"


@asynchronous
async def test_more_output_than_one_window(gateway: Serving) -> None:
    """
    cases D 65: windows hold at most 65,408 bytes; the answer has them all.
    """
    output = ("é" * 70_000).encode()
    gateway.device.on_submit = lambda request: request.complete(output)

    answer = await gateway.post(CHAT, body())

    assert answer.json["choices"][0]["message"]["content"] == "é" * 70_000
    assert gateway.device.count(Operation.READ) == 3


@asynchronous
async def test_ill_formed_output_is_replaced(gateway: Serving) -> None:
    """
    cases I 143, D18: once per maximal subpart.
    """
    output = b"a\xf0\x9f\x98b\xed\xa0\x80\xe2\x82"
    gateway.device.on_submit = lambda request: request.complete(output)

    answer = await gateway.post(CHAT, body())

    text = "a\ufffdb\ufffd\ufffd\ufffd\ufffd"
    assert answer.json["choices"][0]["message"]["content"] == text


@pytest.mark.parametrize(("end", "expected"), ENDS)
@asynchronous
async def test_a_bad_end_is_an_error(
    gateway: Serving, end: Any, expected: tuple[int, str]
) -> None:
    """
    cases I 142: the request's status if it is one, else 503.
    """
    gateway.device.on_submit = end_with(end)

    answer = await gateway.post(CHAT, body())

    assert answer.problem == (*expected, None)
    ((_, request_id),) = gateway.device.requests
    assert answer.header("x-request-id") == f"req-{EPOCH:016x}-{request_id.hex()}"
    assert b"part" not in answer.content


@pytest.mark.parametrize(
    ("end", "retry"),
    [
        ((CANCELLED, 0, 409, 1), ("false", None)),
        ((FAILED, 0, 400, 0), ("false", None)),
        ((FAILED, 0, 429, 0), (None, "1")),
        ((FAILED, 0, 503, 0), (None, "1")),
        ((FAILED, 0, 500, 0), (None, None)),
    ],
)
@asynchronous
async def test_a_bad_end_says_whether_to_try_again(
    gateway: Serving, end: Any, retry: tuple[str | None, str | None]
) -> None:
    """
    D19.
    """
    gateway.device.on_submit = end_with(end)

    answer = await gateway.post(CHAT, body())

    assert (answer.header("x-should-retry"), answer.header("retry-after")) == retry


@pytest.mark.parametrize("total", [200_000, 200_001])
@asynchronous
async def test_more_output_than_the_device_declares(
    gateway: Serving, total: int
) -> None:
    """
    413 `output_limit`, one byte past output_bytes.
    """
    gateway.device.on_submit = lambda request: request.complete(b"x" * total)

    answer = await gateway.post(CHAT, body())

    if total <= INFORMATION.output_bytes:
        assert answer.status == 200
    else:
        assert answer.problem == (413, "output_limit", None)
    assert answer.header("x-request-id")


@asynchronous
async def test_a_completion_has_its_time(serve: Serve) -> None:
    """
    504 `response_timeout` over operation_seconds; the request runs on.
    """
    gateway = await serve(limits=Limits(operation_seconds=7), disconnect="cancel")
    clock = standing_clock()
    gateway.gateway.reactor = clock
    pending = Deferred.fromCoroutine(gateway.post(CHAT, body()))
    await eventually(lambda: gateway.device.count(Operation.READ) == 1)

    clock.advance(6.9)
    await eventually(lambda: gateway.device.count(Operation.READ) == 2)
    assert not pending.called
    clock.advance(0.11)
    answer = await pending

    assert answer.problem == (504, "response_timeout", None)
    assert answer.header("x-request-id")
    assert gateway.device.count(Operation.CANCEL) == 0
    assert gateway.gateway.budgets.work.held == 0


@pytest.mark.parametrize("status", [400, 403, 404, 409, 410, 413, 429, 503])
@asynchronous
async def test_a_refused_submission_names_its_request(
    gateway: Serving, status: int
) -> None:
    """
    http.md §5: errors of the SUBMIT exchange carry X-Request-ID.
    """
    sent: list[bytes] = []

    def refuse(request: Any) -> Any:
        if request.operation != Operation.SUBMIT:
            return NotImplemented
        sent.append(request.id)
        return reply_to(request, status, epoch=EPOCH)

    gateway.device.before = refuse
    answer = await gateway.post(CHAT, body())

    assert answer.problem == (status, "device_refused", None)
    assert answer.header("x-request-id") == f"req-{EPOCH:016x}-{sent[0].hex()}"
    assert gateway.device.count(Operation.READ) == 0
    assert gateway.gateway.budgets.work.held == 0


@pytest.mark.parametrize(
    ("answer_bytes", "code"),
    [(b"", "device_connection"), (b"x" * 200, "invalid_device_response")],
)
@pytest.mark.parametrize("operation", [Operation.SUBMIT, Operation.READ])
@asynchronous
async def test_a_device_that_fails_in_the_midst(
    gateway: Serving, operation: int, answer_bytes: bytes, code: str
) -> None:
    """
    Nothing is tried again, and the request is named.
    """
    gateway.device.before = lambda request: (
        answer_bytes if request.operation == operation else NotImplemented
    )

    answer = await gateway.post(CHAT, body())

    assert answer.problem == (503, code, None)
    assert answer.header("x-request-id")
    assert gateway.device.count(operation) == 1


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (body(n=2), (400, "invalid_field", "n")),
        (body(model="absent"), (404, "model_not_found", "model")),
        (body(model="unknown"), (404, "model_not_found", "model")),
        (body("x" * 4001), (413, "context_limit", None)),
        (body(max_tokens=1001), (400, "invalid_field", "max_completion_tokens")),
        (body([{"type": "text"}]), (400, "invalid_field", "messages.content")),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
@asynchronous
async def test_what_fails_before_has_no_request(
    gateway: Serving, wrong: dict[str, Any], problem: Any, stream: bool
) -> None:
    """
    B37: before the first byte of a stream, and without an id.
    """
    answer = await gateway.post(CHAT, wrong | {"stream": stream})

    assert answer.problem == problem
    assert answer.header("x-request-id") is None
    assert gateway.device.count(Operation.SUBMIT) == 0
    assert gateway.gateway.budgets.work.held == 0


@asynchronous
async def test_without_the_action_nothing_is_asked(gateway: Serving) -> None:
    """
    403 `inference_forbidden`.
    """
    answer = await gateway.post(CHAT, body(), token=TOKEN_2)

    assert answer.problem == (403, "inference_forbidden", None)
    assert gateway.device.operations == []


@asynchronous
async def test_a_model_that_is_not_granted_is_not_found(serve: Serve) -> None:
    """
    An alias of another principal looks like one that there is not.
    """
    only_org = Principal(
        id=b"o" * 16, token_sha256=(digest(TOKEN_2),), models=("org/m",), actions=1
    )
    gateway = await serve(principals=(only_org,))
    gateway.device.on_submit = lambda request: request.complete(b"ok")

    granted = await gateway.post(CHAT, body(model="org/m"), token=TOKEN_2)
    other = await gateway.post(CHAT, body(model="m"), token=TOKEN_2)

    assert granted.json["model"] == "org/m"
    assert other.problem == (404, "model_not_found", "model")


@asynchronous
async def test_64_principals_at_once_do_not_mix(serve: Serve) -> None:
    """
    cases I 145: 64 distinct ids, each its own text and usage.
    """
    tokens = [f"token-of-principal-number-{i:06}" for i in range(64)]
    principals = tuple(
        Principal(
            id=bytes([i + 1]) * 16,
            token_sha256=(digest(token),),
            models=("m",),
            actions=1,
        )
        for i, token in enumerate(tokens)
    )
    gateway = await serve(principals=principals)

    def echo(request: Running) -> None:
        (message,) = request.submission.messages
        (part,) = message.parts
        text = getattr(part, "text", b"")
        request.complete(b"echo " + text)
        request.prompt_tokens = len(text)

    reads: dict[int, int] = {}

    def slowly(request: Running) -> None:
        # Every request is seen running first, so that all of them overlap.
        reads[id(request)] = reads.get(id(request), 0) + 1
        if reads[id(request)] == 3:
            echo(request)

    gateway.device.on_read = slowly
    answers = await gatherResults(
        [
            Deferred.fromCoroutine(
                gateway.post(CHAT, body(f"text {i}" + "x" * i), token=token)
            )
            for i, token in enumerate(tokens)
        ]
    )

    assert len({answer.json["id"] for answer in answers}) == 64
    for i, answer in enumerate(answers):
        text = f"text {i}" + "x" * i
        assert answer.json["choices"][0]["message"]["content"] == f"echo {text}"
        assert answer.json["usage"]["prompt_tokens"] == len(text)
        assert str(answer.header("x-request-id"))[-32:] == answer.json["id"][-32:]
    owners = {principal for principal, _ in gateway.device.requests}
    assert owners == {principal.id for principal in principals}


@asynchronous
async def test_completions_hold_a_work_slot(serve: Serve) -> None:
    """
    http.md §3: 429 at once when there is none; freed with the answer.
    """
    gateway = await serve(limits=Limits(work=1))
    pending = Deferred.fromCoroutine(gateway.post(CHAT, body()))
    await eventually(lambda: gateway.device.count(Operation.READ) >= 1)

    refused = await gateway.post(CHAT, body())
    gateway.device.only.complete(b"done")
    first = await pending
    gateway.device.on_submit = lambda request: request.complete(b"next")
    after = await gateway.post(CHAT, body())

    assert refused.problem == (429, "transport_limit", None)
    assert refused.header("retry-after") == "1"
    assert refused.header("x-request-id") is None
    assert (first.status, after.status) == (200, 200)


@asynchronous
async def test_a_zero_id_is_never_chosen(gateway: Serving) -> None:
    ids = [bytes(16), bytes(16), b"\x01" * 16]
    gateway.gateway.random_bytes = lambda size: ids.pop(0)
    gateway.device.on_submit = lambda request: request.complete(b"")

    answer = await gateway.post(CHAT, body())

    assert answer.json["id"] == "chatcmpl-" + "01" * 16


@asynchronous
async def test_a_new_epoch_is_noticed(gateway: Serving) -> None:
    """
    A submission to an epoch that is gone is refused; the next one knows better.
    """
    gateway.device.on_submit = lambda request: request.complete(b"")
    await gateway.post(CHAT, body())
    gateway.device.epoch += 1

    refused = await gateway.post(CHAT, body())
    after = await gateway.post(CHAT, body())

    assert refused.problem == (410, "device_refused", None)
    assert after.status == 200
    assert str(after.header("x-request-id"))[:20] == f"req-{EPOCH + 1:016x}"


@asynchronous
async def test_a_device_without_the_role(serve: Serve) -> None:
    gateway = await serve(
        DeviceScript(attrs.evolve(INFORMATION, models=(), controls=()))
    )

    answer = await gateway.post(CHAT, body())

    assert answer.problem == (404, "model_not_found", "model")
