"""
A runtime's own metrics: at its endpoint, and in the gateway's beside it (D10).
"""

from __future__ import annotations

import signal
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.endtoend.calls import call
from tests.endtoend.conftest import GATEWAY_READY, Service
from tests.endtoend.scrapes import at_endpoint
from tests.processes import COMPILE_PATIENCE, PATIENCE, edit, make_state, twistd

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def at_gateway(service: Service) -> str:
    request = urllib.request.Request(f"{service.url}/metrics", headers=service.headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        text: str = answer.read().decode()
        return text


def values(text: str) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels.get("role", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(("aotx_device_", "aotx_engine_"))
    }


def test_a_request_is_seen_at_the_endpoint_and_in_the_gateways(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    edit(state / "runtime.json", metrics="unix:metrics.sock")
    with twistd(tmp_path, "aotx", "--state", state) as process:
        process.wait_for(GATEWAY_READY, COMPILE_PATIENCE)
        assert f"metrics on unix:{state}/metrics.sock" in process.text()
        service = Service(process, state)
        before = values(at_endpoint(state))
        body = {"model": "reference", "messages": [{"role": "user", "content": "x"}]}
        url = f"{service.url}/v1/chat/completions"
        assert call(url, service.headers, body).status == 200

        after = values(at_gateway(service))
        for name in ("ticks_total", "tick_seconds_total", "frames_total"):
            key = f"aotx_device_{name}", ""
            assert after[key] > before[key] > 0, name
        assert before["aotx_engine_active", "language"] == 1
        assert before["aotx_device_leases", ""] == 0
        assert set(before) <= set(after)
        process.signal(signal.SIGTERM)
        assert process.code() == 0, process
    assert not (state / "metrics.sock").exists()
