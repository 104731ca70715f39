"""
Two gateway processes on one runtime process, and what each survives.
"""

from __future__ import annotations

import base64
import shutil
import signal
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.endtoend.calls import call
from tests.endtoend.conftest import GATEWAY_READY, RUNTIME_READY, set_engine
from tests.endtoend.streams import EventStream
from tests.processes import (
    COMPILE_PATIENCE,
    Process,
    address,
    edit,
    free_port,
    make_state,
    twistd,
)

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: Tokens per second of the engine, and tokens of the request: four seconds.
RATE = 50
TOKENS = 200

BODY = {
    "model": "reference",
    "messages": [{"role": "user", "content": "Tell me a long story."}],
    "max_tokens": TOKENS,
    "temperature": 0,
}


@attrs.frozen
class Deployment:
    """
    A state directory, a second gateway's file, and the one token.
    """

    folder: Path
    state: Path
    second: Path

    @property
    def headers(self) -> dict[str, str]:
        token = (self.state / "token").read_text().strip()
        return {"Authorization": f"Bearer {token}"}

    def runtime(self) -> Any:
        return twistd(self.folder, "aotx-runtime", "--state", self.state)

    def gateway(self, config: Path) -> Any:
        return twistd(self.folder, "aotx-gateway", "--gateway", config)

    @property
    def first(self) -> Path:
        return self.state / "gateway.json"


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    state = make_state(tmp_path)
    set_engine(state, rate=RATE)
    second = state / "gateway-2.json"
    shutil.copy(state / "gateway.json", second)
    edit(second, port=free_port())
    return Deployment(tmp_path, state, second)


def submit(deployment: Deployment, config: Path) -> str:
    answer = call(address(config) + "/aotx/v1/requests", deployment.headers, BODY)
    assert answer.status == 202, answer
    handle: str = answer.body["id"]
    return handle


def ready(runtime: Process, *gateways: Process) -> None:
    runtime.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
    for gateway in gateways:
        gateway.wait_for(GATEWAY_READY)


def events_url(config: Path, handle: str) -> str:
    return f"{address(config)}/aotx/v1/requests/{handle}/events"


def test_a_stream_cut_by_sigkill_goes_on_at_the_other_gateway(
    deployment: Deployment,
) -> None:
    with (
        deployment.runtime() as runtime,
        deployment.gateway(deployment.first) as first,
        deployment.gateway(deployment.second) as second,
    ):
        ready(runtime, first, second)
        handle = submit(deployment, deployment.first)
        url = events_url(deployment.first, handle)
        stream = EventStream.open(url, deployment.headers)
        before: list[bytes] = []
        last_id = None
        while len(b"".join(before)) < TOKENS // 4:
            event = stream.next()
            assert event is not None
            if event.name == "emission":
                before.append(event.output)
                last_id = event.id

        first.signal(signal.SIGKILL)

        assert first.code() == -signal.SIGKILL
        # What was on its way may still arrive; the end of the stream may not.
        for event in stream.rest():
            assert event.data.get("state") != "completed"
            if event.name == "emission":
                before.append(event.output)
                last_id = event.id
        assert last_id is not None

        resumed = EventStream.open(
            events_url(deployment.second, handle),
            {**deployment.headers, "Last-Event-ID": last_id},
        )
        events = resumed.rest()
        after = [event.output for event in events if event.name == "emission"]
        assert after, "the request should have gone on"
        assert events[-1].data["state"] == "completed"

        status = call(
            f"{address(deployment.second)}/aotx/v1/requests/{handle}",
            deployment.headers,
        )
        whole = base64.b64decode(status.body["output"]["bytes"])
        assert b"".join(before + after) == whole


def test_a_request_is_read_and_cancelled_at_the_other_gateway(
    deployment: Deployment,
) -> None:
    with (
        deployment.runtime() as runtime,
        deployment.gateway(deployment.first) as first,
        deployment.gateway(deployment.second) as second,
    ):
        ready(runtime, first, second)
        handle = submit(deployment, deployment.first)
        url = f"{address(deployment.second)}/aotx/v1/requests/{handle}"

        cancelled = call(f"{url}/cancel", deployment.headers, {})
        assert cancelled.body["cancel_requested"] is True

        stream = EventStream.open(
            events_url(deployment.first, handle), deployment.headers
        )
        assert stream.rest()[-1].data["state"] == "cancelled"


def test_a_killed_runtime_comes_back_with_the_next_epoch(
    deployment: Deployment,
) -> None:
    # cases B 20 too: the socket of the killed one does not stop the next.
    with deployment.gateway(deployment.first) as gateway:
        with deployment.runtime() as runtime:
            ready(runtime, gateway)
            handle = submit(deployment, deployment.first)
            assert handle.startswith("req-0000000000000001-")
            runtime.signal(signal.SIGKILL)
            assert runtime.code() == -signal.SIGKILL
        assert (deployment.state / "service.sock").exists()

        url = f"{address(deployment.first)}/aotx/v1/requests/{handle}"
        down = call(url, deployment.headers)
        assert (down.status, down.body["error"]["code"]) == (503, "device_connection")
        assert int(down.headers["retry-after"]) >= 1

        with deployment.runtime() as runtime:
            runtime.wait_for(RUNTIME_READY, COMPILE_PATIENCE)

            gone = call(url, deployment.headers)
            assert (gone.status, gone.body["error"]["code"]) == (410, "device_refused")
            assert gone.headers["x-should-retry"] == "false"
            cancel = call(f"{url}/cancel", deployment.headers, {})
            assert cancel.status == 410
            assert submit(deployment, deployment.first).startswith(
                "req-0000000000000002-"
            )
            assert (deployment.state / "epoch").read_text() == "2\n"
