"""
A runtime's own metrics, read at `unix:metrics.sock` in its state directory (D10).
"""

from __future__ import annotations

import http.client
import socket
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.processes import PATIENCE


class OverUnix(http.client.HTTPConnection):
    """HTTP on a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = str(path)

    def connect(self) -> None:
        """To the path."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self._path)


def at_endpoint(state: Path) -> str:
    """The whole text."""
    connection = OverUnix(state / "metrics.sock")
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    assert answer.status == 200
    text = answer.read().decode()
    connection.close()
    return text


def gauges_of_device(state: Path) -> dict[str, int]:
    """What is there now, by name without `aotx_device_`."""
    start = "aotx_device_"
    return {
        sample.name.removeprefix(start): int(sample.value)
        for family in text_string_to_metric_families(at_endpoint(state))
        for sample in family.samples
        if family.type == "gauge" and sample.name.startswith(start)
    }
