"""
The table of problems and what an answer makes of one (`http.md` §2, D19).
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from zope.interface import implementer

from tests.asynchronous import asynchronous
from tests.gateway.serving import TOKEN, Serving, digest, serve_only
from twisted_aotx import errors
from twisted_aotx.errors import Problem
from twisted_aotx.gateway.problems import (
    PROBLEMS,
    STATUS_OF_CAUSE,
    ProblemCode,
    error_headers,
    error_object,
    error_type,
    of_exception,
    refusal,
)
from twisted_aotx.gateway.resource import Answer, Call
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import Operation

SPEC = Path(__file__).parents[2] / "docs" / "spec" / "http.md"


def table_of_the_spec() -> dict[str, set[int]]:
    """
    Codes and statuses of `http.md` §2.
    """
    section = SPEC.read_text().partition("## 2. Errors")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d{3}) \| (.*?) \|", section, re.MULTILINE)
    statuses: dict[str, set[int]] = {}
    for status, codes in rows:
        for code in re.findall(r"`(\w+)`", codes):
            statuses.setdefault(code, set()).add(int(status))
    return statuses


def test_the_table_is_the_contract_s() -> None:
    """
    http.md §2, both ways.
    """
    spec = table_of_the_spec()
    ours = {code.value: PROBLEMS[code][0] for code in ProblemCode}

    assert set(ours) - STATUS_OF_CAUSE == set(spec)
    for code, statuses in spec.items():
        assert ours[code] in statuses
    assert [code for code, statuses in spec.items() if len(statuses) > 1] == [
        "control_selection"
    ]


@pytest.mark.parametrize("code", ProblemCode)
def test_an_error_object(code: ProblemCode) -> None:
    """
    http.md §2.
    """
    problem = refusal(code, "field", status=PROBLEMS[code][0])

    error = error_object(problem)["error"]

    assert isinstance(error, dict)
    assert list(error) == ["message", "type", "param", "code"]
    assert error["message"] == PROBLEMS[code][1]
    assert (error["param"], error["code"]) == ("field", code.value)
    assert error["type"] == error_type(problem.status)


def test_the_type_follows_the_status() -> None:
    """
    http.md §2.
    """
    special = {
        401: "authentication_error",
        403: "permission_error",
        429: "rate_limit_error",
    }
    for status in range(400, 500):
        assert error_type(status) == special.get(status, "invalid_request_error")
    for status in range(500, 600):
        assert error_type(status) == "server_error"


@pytest.mark.parametrize("status", range(400, 600))
def test_retry_hints(status: int) -> None:
    """
    D19, B87, B89: what waiting can cure says when, what it cannot says so.
    """
    headers = dict(error_headers(Problem(status, "x")))

    assert headers.get("Retry-After") == ("1" if status in (429, 503) else None)
    is_final = status < 500 and status not in (408, 429)
    assert headers.get("x-should-retry") == ("false" if is_final else None)
    assert headers.get("WWW-Authenticate") == ("Bearer" if status == 401 else None)


def test_a_better_known_time_wins() -> None:
    problem = Problem(429, "x", headers=(("Retry-After", "30"),))

    assert error_headers(problem) == [("Retry-After", "30")]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.DeviceRefused(Operation.READ, 404), 404, "device_refused"),
        (errors.DeviceRefused(Operation.READ, 599), 599, "device_refused"),
        (errors.PoolFull(), 429, "transport_limit"),
        (errors.ConnectFailed(), 503, "device_connection"),
        (errors.ExchangeTimeout(), 503, "device_connection"),
        (errors.ServiceClosed(), 503, "service_closed"),
        (errors.InvalidReply("x"), 503, "invalid_device_response"),
        (errors.RemoteWireError("R", "f", 0, "x"), 503, "invalid_device_response"),
    ],
)
def test_what_becomes_of_an_exception(error: Exception, status: int, code: str) -> None:
    """
    http.md §2, §3.
    """
    problem = of_exception(error)

    assert problem is not None
    assert (problem.status, problem.code, problem.param) == (status, code, None)


def test_a_fault_of_ours_is_no_problem_of_the_caller_s() -> None:
    assert of_exception(ValueError("x")) is None
    assert of_exception(errors.LocalWireError("R", "f", 0, "x")) is None
    problem = refusal(ProblemCode.METHOD)
    assert of_exception(problem) is problem


@implementer(ILogObserver)
class Logged:
    """
    Everything that was logged.
    """

    def __init__(self) -> None:
        self.events: list[LogEvent] = []

    def __call__(self, event: LogEvent) -> None:
        self.events.append(event)


@asynchronous
async def test_a_fault_of_ours_is_500_and_tells_its_class_only(
    gateway: Serving,
) -> None:
    """
    http.md §1, D15, B85: neither the caller nor the log gets more.
    """
    secret = "do not tell"

    async def fail(_call: Call) -> Answer:
        raise ZeroDivisionError(secret)

    serve_only(gateway, fail)
    logged = Logged()
    globalLogPublisher.addObserver(logged)
    try:
        answer = await gateway.get("/x")
    finally:
        globalLogPublisher.removeObserver(logged)

    assert answer.problem == (500, "internal_error", None)
    events = [e for e in logged.events if e["log_namespace"] == "aotx.gateway"]
    assert [e["error"] for e in events] == ["ZeroDivisionError"]
    seen = answer.content.decode() + repr(logged.events)
    assert secret not in seen
    assert "Traceback" not in seen


@asynchronous
async def test_the_statuses_of_the_device_pass_through(gateway: Serving) -> None:
    """
    D19, http.md "DEV s".
    """
    for status in (400, 403, 404, 409, 410, 413, 429, 503):
        gateway.device.before = partial(reply_to, status=status)
        answer = await gateway.get("/v1/models")
        assert answer.problem == (status, "device_refused", None)
        retry = "1" if status in (429, 503) else None
        assert answer.header("retry-after") == retry
        final = None if status in (429, 503) else "false"
        assert answer.header("x-should-retry") == final


@asynchronous
async def test_without_a_device(gateway: Serving) -> None:
    """
    http.md §3: 503 `device_connection`, to be tried again.
    """
    await gateway.stop_device()

    answer = await gateway.get("/v1/models")

    assert answer.problem == (503, "device_connection", None)
    assert answer.header("retry-after") == "1"


@asynchronous
async def test_no_secret_is_shown(gateway: Serving) -> None:
    """
    B85: neither the token nor its digest, in a record's text, an error or the log.
    """
    logged = Logged()
    globalLogPublisher.addObserver(logged)
    try:
        answers = [
            await gateway.get("/v1/models?x=" + TOKEN),
            await gateway.get("/" + TOKEN),
            await gateway.get("/v1/models", headers={"Authorization": "x " + TOKEN}),
            await gateway.post("/v1/chat/completions", {"model": TOKEN}),
        ]
    finally:
        globalLogPublisher.removeObserver(logged)

    seen = "".join([a.content.decode() + repr(a.headers) for a in answers])
    seen += (
        repr(logged.events) + repr(gateway.settings) + repr(gateway.settings.principals)
    )
    assert TOKEN not in seen
    assert digest(TOKEN).hex() not in seen
    assert repr(digest(TOKEN)) not in seen
