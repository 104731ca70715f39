"""
A stream that waits over `watch.sock`: what it asks, and what happens without it.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.endtoend.calls import call
from tests.endtoend.conftest import (
    GATEWAY_READY,
    RUNTIME_READY,
    Service,
    set_engine,
)
from tests.processes import COMPILE_PATIENCE, PATIENCE, make_state, twistd

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: Said in three seconds, a byte each half; then the end token.
TEXT, RATE = "abcdef", 2
#: READs every 50 ms would be 60 and more.
READS_MAX = 30


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Service]:
    """A runtime that says TEXT slowly, and a gateway in a process of its own."""
    state = make_state(tmp_path)
    set_engine(state, text=TEXT, rate=RATE)
    with twistd(tmp_path, "aotx-runtime", "--state", state) as process:
        process.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
        with twistd(tmp_path, "aotx-gateway", "--state", state) as gateway:
            gateway.wait_for(GATEWAY_READY)
            yield Service(gateway, state)


def answer(service: Service) -> str:
    body = {"model": "reference", "messages": [{"role": "user", "content": "x"}]}
    found = call(f"{service.url}/v1/chat/completions", service.headers, body)
    assert found.status == 200
    text: str = found.body["choices"][0]["message"]["content"]
    return text


def reads(service: Service) -> float:
    request = urllib.request.Request(f"{service.url}/metrics", headers=service.headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as found:
        text = found.read().decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "aotx_device_exchange_seconds_count"
        and sample.labels["operation"] == "read"
    )


def test_a_slow_answer_is_not_asked_for_while_nothing_happens(slow: Service) -> None:
    """http.md §7: by progress notices where the runtime offers them."""
    assert (slow.state / "watch.sock").is_socket()

    assert answer(slow) == TEXT

    assert len(TEXT) <= reads(slow) <= READS_MAX


def test_without_watches_it_is_asked_at_intervals(slow: Service) -> None:
    (slow.state / "watch.sock").unlink()

    assert answer(slow) == TEXT

    assert reads(slow) > READS_MAX
