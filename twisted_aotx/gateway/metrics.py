"""
What a gateway counts, for Prometheus (`http.md` §4).

Rules:

1. No label holds anything that a caller chooses: no principal, token, id, path argument
   or query; a route is named by its pattern, an unknown method or path by `other`. The
   operator may choose labels for principals (`usage_counts`).
2. Counting neither fails nor waits. What is only known when asked (budgets, exchanges
   under way) is asked at the scrape.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

import attrs
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from twisted_aotx.gateway.media_counts import MediaCounts
from twisted_aotx.gateway.outcomes import Outcomes
from twisted_aotx.gateway.usage_counts import UsageCounts

if TYPE_CHECKING:
    from twisted_aotx.wire.packet import ReplyHeader

#: Of routes, methods and models that are none of ours.
OTHER: Final = "other"
#: Seconds: from a health check to the longest operation.
_SECONDS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)
_BYTES: Final = tuple(float(4**power) for power in range(4, 14))


@attrs.frozen(kw_only=True)
class Served:
    """
    One HTTP request that has ended.
    """

    #: Of the route's table, or `other`.
    method: str
    route: str
    status: int
    #: `error.code`, also of an error that ended a stream; empty for success.
    code: str
    seconds: float
    #: Whether an event stream was the answer.
    streamed: bool
    #: Bytes of its body that were read.
    body_bytes: int
    #: Bytes of the answer's body.
    sent_bytes: int


class Metrics:
    """
    Everything that one gateway counts. `registry` may be given further collectors.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.outcomes = Outcomes(self._finished)
        self.usage = UsageCounts(self.registry)
        self.media = MediaCounts(self.registry)
        self._count_requests()
        self._count_exchanges()
        self._ready = Gauge(
            "aotx_ready", "Whether the device answered lately.", registry=self.registry
        )
        build = Info("aotx_build", "What runs.", registry=self.registry)
        build.info(
            {
                "version": _version("twisted-aotx"),
                "twisted": _version("twisted"),
                "python": platform.python_version(),
            }
        )
        ProcessCollector(registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, *labels: str, buckets: tuple[float, ...] = _SECONDS
    ) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

    def _count_requests(self) -> None:
        self._requests = self._counter(
            "aotx_http_requests",
            "HTTP requests that ended.",
            *("method", "route", "status", "code"),
        )
        #: Series by method, route, status and code: finding one takes as long as
        #: counting. As many as the registry has anyway.
        self._counted: dict[tuple[str, str, int, str], tuple[Counter, Histogram]] = {}
        self._latency = self._histogram(
            "aotx_http_request_seconds",
            "From the end of a header to the end of its answer; streams are apart.",
            *("method", "route"),
        )
        self._streams = self._histogram(
            "aotx_http_stream_seconds", "The life of event streams.", "route"
        )
        self._stream_bytes = self._histogram(
            "aotx_http_stream_bytes",
            "Bytes of event streams.",
            "route",
            buckets=_BYTES,
        )
        self._bodies = self._histogram(
            "aotx_http_body_bytes",
            "Bytes of request bodies that were read.",
            "route",
            buckets=_BYTES,
        )
        self._unauthenticated = self._counter(
            "aotx_http_authentication_failures", "Requests that were answered 401."
        )

    def _count_exchanges(self) -> None:
        self._exchanges = self._histogram(
            "aotx_device_exchange_seconds",
            "From the call to the reply, waiting for a connection included.",
            "operation",
        )
        self._replies = self._counter(
            "aotx_device_replies", "Replies of the device.", "operation", "status"
        )
        self._failures = self._counter(
            "aotx_device_exchange_failures",
            "Exchanges without a usable reply.",
            *("operation", "error"),
        )
        self._admissions = self._counter(
            "aotx_admissions", "Requests that the device took.", "model"
        )
        self._cancels = self._counter(
            "aotx_cancels", "Cancels that the device accepted.", "model"
        )
        self._finishes = self._counter(
            "aotx_finishes",
            "Ends of requests, as this gateway saw them.",
            *("model", "finish"),
        )

    def served(self, one: Served) -> None:
        """
        A request has ended.
        """
        kind = (one.method, one.route, one.status, one.code)
        counted = self._counted.get(kind)
        if counted is None:
            counted = self._counted[kind] = (
                self._requests.labels(one.method, one.route, str(one.status), one.code),
                self._latency.labels(one.method, one.route),
            )
        requests, latency = counted
        requests.inc()
        if one.status == 401:
            self._unauthenticated.inc()
        if one.streamed:
            self._streams.labels(one.route).observe(one.seconds)
            self._stream_bytes.labels(one.route).observe(one.sent_bytes)
        else:
            latency.observe(one.seconds)
        if one.body_bytes:
            self._bodies.labels(one.route).observe(one.body_bytes)

    def exchanged(self, operation: str, status: int, seconds: float) -> None:
        """
        The device replied.
        """
        self._replies.labels(operation, str(status)).inc()
        self._exchanges.labels(operation).observe(seconds)

    def exchange_failed(self, operation: str, error: str) -> None:
        """
        No reply, or none that can be used; *error* is the class of the exception.
        """
        self._failures.labels(operation, error).inc()

    def admitted(
        self, epoch: int, request_id: bytes, model: str, label: str = ""
    ) -> None:
        """
        The device took a request for the alias *model* of a principal with *label*.
        """
        self._admissions.labels(model).inc()
        self.usage.admitted(label, model)
        self.outcomes.admitted(epoch, request_id, model, label)

    def cancelled(self, epoch: int, request_id: bytes) -> None:
        """
        The device accepted a cancel.
        """
        model = self.outcomes.model(epoch, request_id) or OTHER
        self._cancels.labels(model).inc()

    def _finished(
        self, model: str, finish: str, label: str, reply: ReplyHeader
    ) -> None:
        self._finishes.labels(model, finish).inc()
        self.usage.ended(label, model, reply)

    def watch(
        self,
        *,
        held: Callable[[], dict[str, int]],
        limits: dict[str, int],
        is_ready: Callable[[], bool],
    ) -> None:
        """
        Ask these at each scrape.

        Args:
            held: What is in use of each budget, now.
            limits: What there is of each.
        """
        self._ready.set_function(lambda: float(is_ready()))
        self.registry.register(_Budgets(held, limits))

    def text(self) -> bytes:
        """
        All of it in the text format, version 0.0.4.
        """
        return generate_latest(self.registry)


class _Budgets(Collector):
    def __init__(
        self, held: Callable[[], dict[str, int]], limits: dict[str, int]
    ) -> None:
        self._held = held
        self._limits = limits

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What is in use and what there is."""
        for name, text, values in (
            ("aotx_budget_in_use", "What is held of a budget.", self._held()),
            ("aotx_budget_limit", "What there is of a budget.", self._limits),
        ):
            family = GaugeMetricFamily(name, text, labels=("budget",))
            for budget, value in values.items():
                family.add_metric((budget,), value)
            yield family


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
