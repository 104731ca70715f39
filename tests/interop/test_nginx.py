"""
nginx with default settings in front: no event waits for the next (docs/deploy.md, D23).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import treq
from twisted.web.http_headers import Headers

from tests.asynchronous import asynchronous
from tests.gateway.feeds import REQUESTS, Feed, body
from tests.gateway.serving import TOKEN, Serving
from tests.interop.nginx import nginx
from tests.interop.programs import need

HEADERS = Headers({"Authorization": [f"Bearer {TOKEN}"]})


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
