"""
nginx with default settings in front: no event waits for the next (docs/deploy.md, D23).
"""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import treq
from twisted.web.http_headers import Headers

from tests.asynchronous import asynchronous
from tests.gateway.feeds import REQUESTS, Feed, body
from tests.gateway.serving import TOKEN, Serving
from tests.interop.programs import need
from tests.processes import free_port

HEADERS = Headers({"Authorization": [f"Bearer {TOKEN}"]})


@contextmanager
def nginx(folder: Path, location: str) -> Iterator[int]:
    """
    A server with *location* in it, and otherwise as it comes; its port.
    """
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
        "events {}\nhttp {\n"
        + "".join(
            f"{name}_temp_path {folder}/{name};\n"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        + f"access_log off;\nserver {{\nlisten 127.0.0.1:{port};\n{location}\n}}\n}}\n"
    )
    process = subprocess.Popen(
        ["nginx", "-p", str(folder), "-c", str(config)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 10
        while True:
            assert process.poll() is None, (folder / "error.log").read_text()
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.wait()


def documented() -> str:
    """
    The location block of docs/deploy.md.
    """
    page = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text()
    found = re.search(r"location / \{.*?\n\s*\}", page, re.DOTALL)
    assert found
    return found[0]


@asynchronous
@pytest.mark.parametrize("settings", ["default", "documented"])
async def test_each_event_comes_before_the_next_is_sent(
    gateway: Serving, tmp_path: Path, settings: str
) -> None:
    need("nginx")
    upstream = f"http://127.0.0.1:{gateway.port}"
    location = f"location / {{ proxy_pass {upstream}; }}"
    if settings == "documented":
        location = documented().replace("http://127.0.0.1:8081", upstream)
    made = (await gateway.post(REQUESTS, body())).json["id"]
    with nginx(tmp_path, location) as port:
        response = await treq.get(
            f"http://127.0.0.1:{port}{REQUESTS}/{made}/events",
            headers=HEADERS,
            unbuffered=True,
            persistent=False,
        )
        assert response.code == 200
        reading = Feed(response)
        await reading.until(1)
        for number in range(10):
            gateway.device.only.say(b"%d" % number)
            # Fails after 5 s when the event waits for a buffer to fill.
            await reading.until(2 + number + (number >= 0))
        gateway.device.only.complete()
        await reading.ended

    emissions = [r for r in reading.records if r.event == "emission"]
    assert len(emissions) == 10
