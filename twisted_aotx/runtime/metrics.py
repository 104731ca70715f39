"""
What a runtime tells of itself, for Prometheus (D10).

Rules:

1. The only label is `role`.
2. Nothing is counted here: device and bridge are asked at the scrape, on the reactor's
   thread. A runtime that does not run tells nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from twisted_aotx.devices import DeviceStats
from twisted_aotx.runtime.saving import SavingState
from twisted_aotx.wire.numbers import Role


@attrs.frozen(kw_only=True)
class RuntimeState:
    """
    A runtime as it is at one moment.
    """

    device: DeviceStats
    saving: SavingState
    #: Times that the engine of each role was lost; every engine's role is a key.
    losses: Mapping[int, int]
    #: Times that it came back.
    returns: Mapping[int, int]


class RuntimeCollector(Collector):
    """
    Gives a registry what *look* sees; None while the runtime does not run.
    """

    def __init__(self, look: Callable[[], RuntimeState | None]) -> None:
        self._look = look

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Everything, as it is now."""
        state = self._look()
        if state is not None:
            yield from _of_device(state.device)
            yield from _of_saving(state.saving)
            yield from _of_engines(state)


def _of_device(
    stats: DeviceStats,
) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    for name, text, count in (
        ("ticks", "Ticks of the device.", stats.ticks),
        ("tick_seconds", "Time spent in ticks.", stats.busy_ns / 1e9),
        ("frames", "Frames answered.", stats.frames),
        ("dropped_events", "Late engine events dropped.", stats.dropped_events),
    ):
        yield CounterMetricFamily(f"aotx_device_{name}", text, value=count)
    for name, text, value in (
        ("leases", "Requests that an engine runs now.", stats.leases),
        ("queue_length", "Requests that wait for an engine now.", stats.queued),
        ("held", "Whether the state store cannot write.", int(stats.held)),
        ("usage_pending", "Usage records not in the ledger.", stats.usage_pending),
        ("media_objects", "Media sources, uploads included.", stats.media_objects),
        ("media_bytes_free", "Free bytes of the pool.", stats.media_bytes_free),
        ("media_receipts", "Upload receipts in use.", stats.media_receipts),
    ):
        yield GaugeMetricFamily(f"aotx_device_{name}", text, value=value)


def _of_saving(
    saving: SavingState,
) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    for name, text, count in (
        ("records_saved", "Records that are on the disk.", saving.saved),
        ("records_failed", "Records that could not be saved.", saving.failed),
    ):
        yield CounterMetricFamily(f"aotx_store_{name}", text, value=count)
    for name, text, value in (
        ("bytes", "Bytes of the state store in use.", saving.store_bytes),
        ("last_save_seconds", "Time of the last transaction.", saving.last_seconds),
    ):
        yield GaugeMetricFamily(f"aotx_store_{name}", text, value=value)


def _of_engines(
    state: RuntimeState,
) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    active = GaugeMetricFamily(
        "aotx_engine_active", "Whether the role's engine serves.", labels=("role",)
    )
    losses = CounterMetricFamily(
        "aotx_engine_losses", "Times that the engine was lost.", labels=("role",)
    )
    returns = CounterMetricFamily(
        "aotx_engine_returns", "Times that it came back.", labels=("role",)
    )
    for role, lost in sorted(state.losses.items()):
        label = (Role(role).name.lower().replace("_", "-"),)
        active.add_metric(label, state.device.roles_active >> role & 1)
        losses.add_metric(label, lost)
        returns.add_metric(label, state.returns[role])
    yield from (active, losses, returns)
