"""
docs/operations.md has every metric of gateway and runtime, and no other.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from tests.runtime.test_metrics import runtime_state
from tests.test_docs import rows_of
from twisted_aotx.gateway.metrics import Metrics
from twisted_aotx.runtime.metrics import RuntimeCollector

_ENDINGS = {"counter": "_total", "info": "_info"}
PAGE = "operations.md"


def names_of(collector: Collector | CollectorRegistry) -> Iterator[str]:
    """As they stand in a scrape, but for the parts of histograms."""
    for family in collector.collect():
        if not family.name.startswith(("process_", "python_")):
            yield family.name + _ENDINGS.get(family.type, "")


def gateway_names() -> set[str]:
    metrics = Metrics()
    metrics.watch(held=dict, limits={}, is_ready=lambda: True)
    return set(names_of(metrics.registry))


def runtime_names() -> set[str]:
    return set(names_of(RuntimeCollector(runtime_state)))


def told() -> set[str]:
    return {name for name in rows_of(PAGE) if name.startswith("aotx_")}


def test_every_metric_is_on_the_page() -> None:
    known = gateway_names() | runtime_names()

    assert len(known) > 30
    assert sorted(known - told()) == []


def test_the_page_tells_of_no_other_metric() -> None:
    assert sorted(told() - gateway_names() - runtime_names()) == []
