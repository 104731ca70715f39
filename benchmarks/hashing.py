"""
A twisted.web handler that only hashes the body, in a process of its own: what uploads
are measured beside.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from twisted.internet import reactor
from twisted.web import http
from twisted.web.resource import Resource

from benchmarks.edge import QuietSite


class Hashing(Resource):
    """
    Answers POST with the SHA-256 of the body as a JSON string.
    """

    isLeaf = True

    def render_POST(self, request: http.Request) -> bytes:
        """Hash it."""
        digest = hashlib.sha256()
        content: Any = request.content
        while block := content.read(65536):
            digest.update(block)
        return b'"%s"' % digest.hexdigest().encode()


def serve() -> None:
    """Serve on a port of 127.0.0.1, which is printed, until killed."""
    clock = cast(Any, reactor)
    site = QuietSite(Hashing(), parsePOSTFormSubmission=False, timeout=75)
    port = clock.listenTCP(0, site, backlog=64, interface="127.0.0.1")
    sys.stdout.write(f"{port.getHost().port}\n")
    sys.stdout.flush()
    clock.run()


@contextmanager
def plain() -> Iterator[tuple[str, int]]:
    """The plain handler in a process of its own; where it listens."""
    command = [sys.executable, "-m", "benchmarks.hashing"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield "127.0.0.1", int(process.stdout.readline())
        process.kill()


if __name__ == "__main__":
    serve()
