"""
`aotx` with a catalogue of its own, in this process and in others; an index that waits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
from click.testing import CliRunner, Result

from tests.processes import PATIENCE, environment
from twisted_aotx import cli
from twisted_aotx.models.catalogue import CatalogueModel

_AOTX = """
import json, sys
from twisted_aotx import cli
from twisted_aotx.models.catalogue import MODELS, CatalogueModel
for fields in json.loads(sys.argv.pop(1)):
    MODELS[fields["name"]] = CatalogueModel(**fields)
# The names that `fetch` knows were taken when it was made.
cli.run.commands["model"].commands["fetch"].params[0].type.choices = list(MODELS)
cli.run(prog_name="aotx")
"""


def aotx(*words: str | Path) -> Result:
    """The command in this process."""
    result = CliRunner().invoke(cli.run, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def start(model: CatalogueModel, *words: str | Path) -> subprocess.Popen[str]:
    """The command in a process and a process group of its own, knowing *model*."""
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            _AOTX,
            json.dumps([attrs.asdict(model)]),
            *map(str, words),
        ],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def pip_environment(**variables: str) -> dict[str, str | None]:
    """What pip is told by *variables* alone; None for what is to be removed."""
    cleared = dict.fromkeys(name for name in os.environ if name.startswith("PIP_"))
    return {
        **cleared,
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_CACHE_DIR": "1",
        **variables,
    }


class WaitingIndex:
    """
    A package index with one wheel, which sends half of it and the rest when told.
    """

    def __init__(self, wheel: Path) -> None:
        self.half_sent = threading.Event()
        self.go_on = threading.Event()
        index, data = self, wheel.read_bytes()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.endswith(".whl"):
                    self._head("application/octet-stream", len(data))
                    self.wfile.write(data[: len(data) // 2])
                    index.half_sent.set()
                    index.go_on.wait(PATIENCE)
                    self.wfile.write(data[len(data) // 2 :])
                else:
                    page = f'<a href="/files/{wheel.name}">{wheel.name}</a>'.encode()
                    self._head("text/html", len(page))
                    self.wfile.write(page)

            def _head(self, kind: str, size: int) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(size))
                self.end_headers()

            def log_message(self, *words: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/simple"

    @contextmanager
    def serving(self) -> Iterator[WaitingIndex]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.go_on.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join(PATIENCE)
