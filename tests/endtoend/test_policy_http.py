"""
The resident policy over HTTP, against a real service (`http.md` §4, `device.md` §14).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.endtoend.calls import Answer, call
from tests.endtoend.conftest import GATEWAY_READY, Service
from tests.processes import COMPILE_PATIENCE, PATIENCE, make_state, twistd

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PATH = "/aotx/v1/policy"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("policy")
    state = make_state(folder)
    with twistd(folder, "aotx", "--state", state) as process:
        process.wait_for(GATEWAY_READY, COMPILE_PATIENCE)
        yield Service(process, state)


def shown(service: Service) -> dict[str, Any]:
    answer = call(service.url + PATH, service.headers)
    assert answer.status == 200, answer.body
    body: dict[str, Any] = answer.body
    return body


def change(service: Service, action: str, seen: dict[str, Any], **other: int) -> Answer:
    body = {key: seen[key] for key in ("epoch", "control_revision")} | other
    return call(service.url + PATH, service.headers, {"action": action} | body)


def test_an_accepted_change_raises_the_revision(served: Service) -> None:
    """
    cases L 172, 173: replayed, in another epoch; stop then resume is quiet.
    """
    first = shown(served)
    assert (first["state"], first["reason"]) == ("quiet", "disabled")
    assert (first["abi"], first["mode"]) == (3, 2)
    stale = first
    for action, state in (
        ("pause", "paused"),
        ("stop", "stopped"),
        ("resume", "quiet"),
    ):
        seen = shown(served)
        answer = change(served, action, seen)
        assert answer.status == 200, answer.body
        assert answer.body["state"] == state
        assert answer.body["control_revision"] == seen["control_revision"] + 1
        assert shown(served)["state"] == state
        replayed = change(served, action, stale)
        assert replayed.status == 409
        assert replayed.body["error"]["code"] == "device_refused"
        stale = seen
    for epoch in (0, first["epoch"] + 1, 2**64 - 1):
        other = change(served, "pause", shown(served), epoch=epoch)
        assert other.status == 410
    revision = change(served, "pause", shown(served), control_revision=2**64 - 1)
    assert revision.status == 409
    assert shown(served)["state"] == "quiet"


def test_usage_is_reviewed_while_the_device_is_idle(served: Service) -> None:
    """
    D11: each request that ended is one record, counted once.
    """
    before = shown(served)
    assert change(served, "review_on", before).body["review_enabled"] is True
    body = {
        "model": "reference",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 2,
    }
    for _ in range(3):
        chat = call(served.url + "/v1/chat/completions", served.headers, body)
        assert chat.status == 200, chat.body

    frontier = before["source_frontier"] + before["pending"] + 3
    deadline = time.monotonic() + PATIENCE
    while (seen := shown(served))["source_frontier"] < frontier:
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)
    assert seen["source_frontier"] == frontier
    assert seen["completed"] - before["completed"] == 3 + before["pending"]
    assert (seen["pending"], seen["refused"]) == (0, before["refused"])
    off = change(served, "review_off", seen)
    assert (off.status, off.body["review_enabled"]) == (200, False)
