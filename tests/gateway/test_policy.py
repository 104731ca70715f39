"""
The resident policy over HTTP (`http.md` §4).
"""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import EPOCH, DeviceScript
from tests.gateway.serving import P1, TOKEN, Serving, digest
from twisted_aotx.gateway.settings import Principal
from twisted_aotx.testing.peer import Answer, reply_to
from twisted_aotx.wire.numbers import Operation, PolicyAction
from twisted_aotx.wire.packet import RequestHeader
from twisted_aotx.wire.policy import PolicyReport, PolicyWrite

PATH = "/aotx/v1/policy"
BIG = 2**64 - 1
REPORT = PolicyReport(
    state=6,
    review_enabled=1,
    pending=5,
    active_rows=4,
    result_status=2,
    control_revision=BIG,
    source_frontier=BIG - 1,
    completed=BIG - 2,
    interrupted=BIG - 3,
    refused=BIG - 4,
    decision=BIG - 5,
    saved_generation=BIG - 6,
    maximum_ns=BIG - 7,
    last_ns=BIG - 8,
    written_bytes=BIG - 9,
    result_bytes=BIG - 10,
    reason=3,
)
BODY: dict[str, Any] = {"action": "pause", "epoch": EPOCH, "control_revision": 1}


def answers(report: PolicyReport = REPORT, status: int = 200) -> DeviceScript:
    """
    A device that answers every policy frame with *report*, or refuses with *status*.
    """
    device = DeviceScript()

    def reply(request: RequestHeader) -> Answer:
        payload = report.pack() if status == 200 else b""
        return reply_to(
            request, status, payload, epoch=EPOCH, phase=report.state if payload else 0
        )

    device.before = reply
    return device


@asynchronous
async def test_what_it_shows_and_that_numbers_are_exact(serve: Serve) -> None:
    """
    http.md §4: JSON integers, also beyond 2^53.
    """
    gateway = await serve(answers())

    answer = await gateway.get(PATH)

    assert answer.status == 200
    assert answer.json == {
        "schema": "aotx.policy.v1",
        "epoch": EPOCH,
        "abi": 3,
        "mode": 2,
        "state": "recording",
        "review_enabled": True,
        "pending": 5,
        "active_rows": 4,
        "status": 2,
        "reason": "capacity",
        "control_revision": 18446744073709551615,
        "source_frontier": 18446744073709551614,
        "completed": 18446744073709551613,
        "interrupted": 18446744073709551612,
        "refused": 18446744073709551611,
        "decision": 18446744073709551610,
        "saved_generation": 18446744073709551609,
        "maximum_ns": 18446744073709551608,
        "last_ns": 18446744073709551607,
        "written_bytes": 18446744073709551606,
        "result_bytes": 18446744073709551605,
    }
    ((request, payload),) = gateway.peer.requests
    assert (request.operation, request.epoch, payload) == (Operation.POLICY, 0, b"")


@pytest.mark.parametrize(
    ("state", "name"),
    list(
        enumerate(["off", "quiet", "active", "paused", "stopped", "error", "recording"])
    ),
)
@asynchronous
async def test_the_names_of_states(serve: Serve, state: int, name: str) -> None:
    gateway = await serve(answers(attrs.evolve(REPORT, state=state)))

    assert (await gateway.get(PATH)).json["state"] == name


@pytest.mark.parametrize(
    ("reason", "name"),
    list(
        enumerate(["quiet", "foreground", "paused", "capacity", "active", "disabled"])
    ),
)
@asynchronous
async def test_the_names_of_reasons(serve: Serve, reason: int, name: str) -> None:
    gateway = await serve(answers(attrs.evolve(REPORT, reason=reason)))

    assert (await gateway.get(PATH)).json["reason"] == name


@pytest.mark.parametrize(
    ("action", "code"),
    [("pause", 1), ("resume", 2), ("stop", 3), ("review_on", 4), ("review_off", 5)],
)
@asynchronous
async def test_a_change_is_sent_exactly(serve: Serve, action: str, code: int) -> None:
    gateway = await serve(answers())

    body = {"action": action, "epoch": BIG, "control_revision": 2**53 + 1}
    answer = await gateway.post(PATH, body)

    assert answer.status == 200
    assert answer.json["control_revision"] == BIG
    ((request, payload),) = gateway.peer.requests
    assert (request.operation, request.epoch) == (Operation.POLICY, BIG)
    sent = PolicyWrite.unpack(payload)
    assert (sent.action, sent.control_revision) == (code, 2**53 + 1)
    assert PolicyAction(code).name.lower() == action


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "policy"),
        (BODY | {"x": 1}, "policy"),
        ({"action": "pause", "epoch": 1}, "policy"),
        (BODY | {"action": "halt"}, "action"),
        (BODY | {"action": "PAUSE"}, "action"),
        (BODY | {"action": 1}, "action"),
        (BODY | {"action": None}, "action"),
        (BODY | {"epoch": "7"}, "epoch"),
        (BODY | {"epoch": True}, "epoch"),
        (BODY | {"epoch": 7.0}, "epoch"),
        (BODY | {"epoch": -1}, "epoch"),
        (BODY | {"epoch": 2**64}, "epoch"),
        (BODY | {"epoch": None}, "epoch"),
        (BODY | {"control_revision": "1"}, "control_revision"),
        (BODY | {"control_revision": False}, "control_revision"),
        (BODY | {"control_revision": -1}, "control_revision"),
        (BODY | {"control_revision": 2**64}, "control_revision"),
    ],
)
@asynchronous
async def test_bodies_that_are_refused(
    gateway: Serving, body: dict[str, Any], param: str
) -> None:
    answer = await gateway.post(PATH, body)

    assert answer.problem == (400, "invalid_field", param)
    assert gateway.device.operations == []


@pytest.mark.parametrize("status", [403, 409, 410, 429])
@asynchronous
async def test_the_device_s_refusals(serve: Serve, status: int) -> None:
    """
    cases L 172: an old revision 409, another epoch 410, hold 429.
    """
    gateway = await serve(answers(status=status))

    answer = await gateway.post(PATH, BODY)

    assert answer.problem == (status, "device_refused", None)
    assert answer.header("retry-after") == ("1" if status == 429 else None)
    assert answer.header("x-should-retry") == (None if status == 429 else "false")


@pytest.mark.parametrize(
    ("actions", "get", "post"),
    [
        (1, 403, 403),
        (64, 403, 403),
        (255 - 8 - 128, 403, 403),
        (8, 200, 403),
        (128, 200, 200),
        (136, 200, 200),
    ],
)
@asynchronous
async def test_who_may_see_and_change_it(
    serve: Serve, actions: int, get: int, post: int
) -> None:
    """
    cases L 170: who may not does not reach the device, and no body is read.
    """
    principal = Principal(id=P1, token_sha256=(digest(TOKEN),), actions=actions)
    gateway = await serve(answers(), principals=(principal,))

    got = await gateway.get(PATH)
    raw = await gateway.connect()
    content = json.dumps(BODY).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    raw.send(head.encode() + (content if post == 200 else b""))
    posted = await raw.until(b"}")

    assert got.status == get
    assert posted.startswith(b"HTTP/1.1 %d " % post)
    if get == 403:
        assert got.problem == (403, "policy_permission", None)
    if post == 403:
        assert b'"code":"policy_permission"' in posted
    assert len(gateway.device.operations) == [get, post].count(200)


@pytest.mark.parametrize("payload", [b"", bytes(159), REPORT.pack() + b"\0"])
@asynchronous
async def test_a_reply_of_another_form(gateway: Serving, payload: bytes) -> None:
    gateway.device.before = lambda request: reply_to(request, 200, payload, epoch=EPOCH)

    answer = await gateway.get(PATH)

    assert answer.problem == (503, "invalid_device_response", None)
