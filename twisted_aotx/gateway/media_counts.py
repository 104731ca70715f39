"""
What a gateway counts of media sources, for Prometheus (`metrics`; its rules hold).
"""

from __future__ import annotations

from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Histogram

#: Where a source comes from: a body, a part of a message, a URL.
Origin = Literal["upload", "inline", "import"]
#: How it went when it went well; else an `error.code`.
READY: Final = "ready"

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_BYTES: Final = tuple(float(4**power) for power in range(4, 14))


class MediaCounts:
    """
    The media series of one registry.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._sources = Counter(
            "aotx_media_sources",
            "Media sources that were sent to the device, by how it went.",
            ("origin", "outcome"),
            registry=registry,
        )
        self._bytes = Histogram(
            "aotx_media_source_bytes",
            "Bytes of media sources that became ready.",
            ("origin",),
            buckets=_BYTES,
            registry=registry,
        )
        self._seconds = Histogram(
            "aotx_media_source_seconds",
            "From the first frame to the device to a source that is ready.",
            ("origin",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._imports = Counter(
            "aotx_media_imports",
            "Imports that were tried, by how fetching the source went.",
            ("outcome",),
            registry=registry,
        )

    def ready(self, origin: Origin, source_bytes: int, seconds: float) -> None:
        """
        A source is ready.
        """
        self._sources.labels(origin, READY).inc()
        self._bytes.labels(origin).observe(source_bytes)
        self._seconds.labels(origin).observe(seconds)

    def failed(self, origin: Origin, code: str) -> None:
        """
        A source did not become ready.
        """
        self._sources.labels(origin, code).inc()

    def imported(self, code: str = READY) -> None:
        """
        A source was fetched from its URL, or was not.
        """
        self._imports.labels(code).inc()
