"""
A page of another origin in headless Chromium: preflights with the headers that the
openai package sends (D28, B73).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.web import http, resource, server

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import DeviceScript
from tests.gateway.serving import ORIGIN, TOKEN

#: Debian's package, and its smaller one.
BROWSERS = ("chromium", "chromium-headless-shell")
HELLO = "grüße 👋"
BODY = {"messages": [{"role": "user", "content": "hi"}]}
#: Seconds for a browser to start and the page to ask everything.
PATIENCE = 60

Results = dict[str, Any]


def browser() -> str:
    """Its name; skips the test where there is none."""
    found = [name for name in BROWSERS if shutil.which(name)]
    if not found:
        pytest.skip(f"not installed: {BROWSERS[0]}")
    return found[0]


class Leaf(resource.Resource):
    """Answers what it was made with; a body that is sent to it fires `sent`."""

    isLeaf = True

    def __init__(self, content: bytes) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._content = content
        self.sent: Deferred[Results] = Deferred()

    def render_GET(self, request: http.Request) -> bytes:
        """The content."""
        return self._content

    def render_POST(self, request: http.Request) -> bytes:
        """Once only."""
        assert request.content is not None
        self.sent.callback(json.loads(request.content.read()))
        return b""


class Modules(resource.Resource):
    """JavaScript modules below a folder."""

    isLeaf = True

    def __init__(self, folder: Path) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._folder = folder

    def render_GET(self, request: http.Request) -> bytes:
        """The file that the path names."""
        request.setHeader(b"Content-Type", b"text/javascript")
        name = request.path.decode().removeprefix("/openai/")
        return self._folder.joinpath(name).read_bytes()


class Pages:
    """
    The page on an origin of its own.
    """

    def __init__(self, modules: Path | None) -> None:
        self._root = resource.Resource()
        page = Path(__file__).with_name("page.html").read_bytes()
        self._root.putChild(b"", Leaf(page))
        self._results = Leaf(b"")
        self._root.putChild(b"results", self._results)
        self._modules = modules
        if modules is not None:
            self._root.putChild(b"openai", Modules(modules / "openai"))
        self._root.putChild(b"favicon.ico", Leaf(b""))
        clock: Any = reactor
        self._clock = clock
        self._port: Any = clock.listenTCP(
            0, server.Site(self._root), interface="127.0.0.1"
        )
        self.origin = f"http://127.0.0.1:{self._port.getHost().port}"

    async def results(self, url: str, folder: Path) -> Results:
        """Have the page opened, with the gateway at *url*; what it tells."""
        has_sdk = self._modules is not None
        settings = {"url": url, "token": TOKEN, "body": BODY, "sdk": has_sdk}
        self._root.putChild(b"settings", Leaf(json.dumps(settings).encode()))
        with chromium(folder, f"{self.origin}/"):
            return await self._results.sent.addTimeout(PATIENCE, self._clock)

    async def close(self) -> None:
        await maybeDeferred(self._port.stopListening)


@contextmanager
def chromium(folder: Path, url: str) -> Iterator[None]:
    """A browser at *url*, with nothing in it but a new profile in *folder*."""
    options = ["--headless", "--disable-gpu", "--no-first-run", "--no-proxy-server"]
    if os.getuid() == 0:
        # Chromium's sandbox does not start as root.
        options.append("--no-sandbox")
    command = [browser(), *options, f"--user-data-dir={folder}", url]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def modules() -> Path | None:
    """`AOTX_NODE_MODULES`, if the openai package for JavaScript is there."""
    folder = Path(os.environ.get("AOTX_NODE_MODULES", ""))
    return folder if (folder / "openai" / "index.mjs").is_file() else None


async def opened(
    serve: Serve, folder: Path, *, is_listed: bool, modules: Path | None = None
) -> Results:
    """What a page finds; its origin is listed or is not."""
    browser()
    pages = Pages(modules)
    device = DeviceScript()
    device.on_submit = lambda request: request.complete(HELLO.encode())
    origins = (pages.origin,) if is_listed else (ORIGIN,)
    gateway = await serve(device, origins=origins)
    try:
        return await pages.results(gateway.url, folder)
    finally:
        await pages.close()


#: What a page sees of whatever its browser withholds.
WITHHELD = {"error": "TypeError", "status": None}


@asynchronous
async def test_a_page_of_a_listed_origin_calls(serve: Serve, tmp_path: Path) -> None:
    found = await opened(serve, tmp_path, is_listed=True)

    assert found == {
        "fetch": {"status": 200, "text": HELLO, "id": True},
        "refused": {"status": 404, "code": "model_not_found"},
        "other header": WITHHELD,
    }


@asynchronous
async def test_a_page_of_another_origin_gets_nothing(
    serve: Serve, tmp_path: Path
) -> None:
    found = await opened(serve, tmp_path, is_listed=False)

    assert list(found.values()) == [WITHHELD] * 3


@asynchronous
async def test_the_openai_package_works_in_a_page(serve: Serve, tmp_path: Path) -> None:
    found_modules = modules()
    if found_modules is None:
        pytest.skip("AOTX_NODE_MODULES names no folder with the openai package")
    found = await opened(serve, tmp_path, is_listed=True, modules=found_modules)

    assert found["sdk"] == HELLO
    assert found["sdk refused"] == {"error": "Error", "status": 404}
