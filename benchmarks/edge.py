"""
What our connections cost beside Twisted's own: CPU of one keep-alive GET.

The same handler behind both, each in a process of its own.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Any, cast

import psutil  # type: ignore[import-untyped]  # it ships no types
from twisted.internet import reactor
from twisted.web import http, server
from twisted.web.resource import Resource

from benchmarks.http import Target, answers_per_second
from benchmarks.table import Row
from twisted_aotx.client import DeviceClient
from twisted_aotx.gateway.resource import Gateway
from twisted_aotx.gateway.settings import GatewaySettings
from twisted_aotx.gateway.site import GatewaySite

PAIRS = 7
CONNECTIONS = 16
#: Of each measurement.
SECONDS = 1.5
BODY = b'{"object":"list","data":[]}'
GET = (
    b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:8081\r\n"
    b"Authorization: Bearer tttttttttttttttttttttttttttttttt\r\n"
    b"Accept: application/json\r\nUser-Agent: bench\r\n\r\n"
)


class Handler(Resource):
    """
    The same small answer to everything.
    """

    isLeaf = True

    def render(self, request: http.Request) -> int:
        """Answer at once."""
        request.setHeader(b"Content-Type", b"application/json")
        request.setHeader(b"Content-Length", b"%d" % len(BODY))
        request.write(BODY)
        request.finish()
        return server.NOT_DONE_YET


class QuietSite(server.Site):
    """
    Twisted's site without its access log.
    """

    def log(self, request: http.Request) -> None:
        """Nothing."""


def stock() -> server.Site:
    """Twisted's own, with the switch that everybody should set."""
    site = QuietSite(Handler(), parsePOSTFormSubmission=False, timeout=75)
    site.protocol = http.HTTPChannel  # type: ignore[assignment, method-assign]
    return site


def ours() -> server.Site:
    """Ours, guards, deadlines, counts and all, without the checks of a route."""
    settings = GatewaySettings(socket="unused", revision=1, models=())
    clock = cast(Any, reactor)
    gateway = Gateway(settings, DeviceClient(clock, "unused"), clock)
    site = GatewaySite(gateway)
    site.resource = Handler()
    return site


def serve(kind: str) -> None:
    """Serve on a port of 127.0.0.1, which is printed, until killed."""
    clock = cast(Any, reactor)
    port = clock.listenTCP(0, KINDS[kind](), backlog=64, interface="127.0.0.1")
    sys.stdout.write(f"{port.getHost().port}\n")
    sys.stdout.flush()
    clock.run()


KINDS = {"stock": stock, "ours": ours}


def seconds_of(kind: str) -> float:
    """CPU seconds of one GET, CONNECTIONS at once."""
    command = [sys.executable, "-m", "benchmarks.edge", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server_process:
        assert server_process.stdout is not None
        port = int(server_process.stdout.readline())
        target = Target(("127.0.0.1", port), GET)
        answers_per_second(target, CONNECTIONS, 0.3)
        cpu = psutil.Process(server_process.pid).cpu_times
        before = sum(cpu()[:2])
        rate = answers_per_second(target, CONNECTIONS, SECONDS)
        used = sum(cpu()[:2]) - before
        server_process.kill()
    return float(used / (rate * SECONDS))


def measure() -> dict[str, list[Row]]:
    """Medians, and the median of the pairs' ratios."""
    pairs = [(seconds_of("stock"), seconds_of("ours")) for _ in range(PAIRS)]
    stocks, our = zip(*pairs, strict=True)
    ratio = statistics.median(b / a for a, b in pairs)
    base = Row("stock channel", statistics.median(stocks) * 1e6, "µs")
    note = f"median of {PAIRS} pairs: {ratio:.2f}×, the aim is 1.15×"
    mine = Row("with our guards", statistics.median(our) * 1e6, "µs", note, base)
    return {"CPU of one keep-alive GET": [base, mine]}


if __name__ == "__main__":
    serve(sys.argv[1])
