"""
Uploads of eight principals at once, some broken off, some deleted, while their gateway
is killed: no byte of the pool, no receipt and no quota is lost (`device.md` §12).

`AOTX_FULL=1` has 1,000 of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.endtoend.scrapes import gauges_of_device
from tests.endtoend.storm import (
    JPEG,
    WAV,
    Body,
    Principal,
    Storm,
    delete_all,
    wait_until,
)
from tests.endtoend.uploading import Service

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

IS_FULL = "AOTX_FULL" in os.environ
UPLOADS, KILLS = (1000, 10) if IS_FULL else (96, 2)
PRINCIPALS, AT_ONCE = 8, 2
BODY_BYTES_MAX = 1 << 20
#: Caps of each principal. Together they are more than the pool has.
OBJECTS, BYTES = 8, 3 << 20
POOL = 5 << 20
UPLOAD_SECONDS = 2


def weather(service: Service, storm: Storm) -> None:
    """The gateway dies KILLS times, each time with uploads under way."""
    left_behind = 0
    for kill in range(KILLS):
        due = (kill + 1) * UPLOADS // (KILLS + 2)
        storm.until(lambda due=due: storm.begun >= due)  # type: ignore[misc]
        storm.until(lambda: service.gauge("media_receipts") > 0)
        storm.is_up.clear()
        service.kill_gateway()
        left_behind += service.gauge("media_receipts") > 0
        service.start_gateway()
        storm.is_up.set()
    assert left_behind > 0


def objects_are_exact(service: Service, principal: Principal) -> None:
    """One source after the other until the object cap, and not one more."""
    media = service.media(principal.token)
    there = len(media.listed())
    assert there <= OBJECTS
    number = 10_000 * principal.number
    for n in range(there, OBJECTS):
        status, answer = media.upload(Body.make(number + n, 1000, WAV))
        assert status == 201, answer
    status, answer = media.upload(Body.make(number + OBJECTS, 1000, WAV))
    assert (status, answer["error"]["code"]) == (429, "device_refused")
    assert len(media.listed()) == OBJECTS
    delete_all(media)


def bytes_are_exact(service: Service, principal: Principal) -> None:
    """Two sources that fill the byte cap; with one byte more the second is refused."""
    media = service.media(principal.token)
    number = 20_000 * principal.number
    half = BYTES // 2
    status, answer = media.upload(Body.make(number, half, JPEG))
    assert status == 201, answer
    status, answer = media.upload(Body.make(number + 1, BYTES - half + 1, JPEG))
    assert (status, answer["error"]["code"]) == (429, "device_refused")
    status, answer = media.upload(Body.make(number + 2, BYTES - half, JPEG))
    assert status == 201, answer
    status, answer = media.upload(Body.make(number + 3, 1, JPEG))
    assert (status, answer["error"]["code"]) == (429, "device_refused")
    assert sum(int(row["bytes"]) for row in media.listed().values()) == BYTES
    delete_all(media)


def for_all(
    principals: list[Principal], check: Callable[[Principal], None], at_once: int
) -> None:
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(check, principals))


def test_nothing_is_lost_in_a_storm_of_uploads(tmp_path: Path) -> None:
    principals = [Principal.make(number + 1) for number in range(PRINCIPALS)]
    service = Service.make(
        tmp_path,
        [p.entry(media=OBJECTS, media_bytes=BYTES) for p in principals],
        media_bytes=POOL,
        upload_seconds=UPLOAD_SECONDS,
    )
    with service.stack:
        service.start()
        assert service.gauge("media_bytes_free") == POOL
        storm = Storm(
            config=service.config,
            principals=principals,
            wanted=UPLOADS,
            bytes_max=BODY_BYTES_MAX,
            upload_seconds=UPLOAD_SECONDS,
        )
        storm.is_up.set()
        with storm.running(AT_ONCE):
            weather(service, storm)
        if IS_FULL:
            print(f"\n{storm.seen}")  # noqa: T201
        outcomes = {come for what, come in storm.seen if what == "whole"}
        assert outcomes >= {201, "media_refused", "device_refused"}, storm.seen
        assert {("cut", "gone"), ("leave", "gone"), ("delete", 204)} <= set(storm.seen)

        wait_until(lambda: service.gauge("media_receipts") == 0, "receipts drain")

        listed = {p.number: service.media(p.token).listed() for p in principals}
        for principal in principals:
            principal.judge(listed[principal.number])
        rows = [row for found in listed.values() for row in found.values()]
        gauges = gauges_of_device(service.state)
        assert gauges["media_objects"] == len(rows)
        live = sum(int(row["bytes"]) for row in rows)
        assert gauges["media_bytes_free"] + live == POOL

        # What a principal has counts, and the pool has room for what follows.
        for principal in principals:
            delete_all(service.media(principal.token), keep=1)
        for_all(principals, partial(objects_are_exact, service), PRINCIPALS)
        for_all(principals, partial(bytes_are_exact, service), 1)
        gauges = gauges_of_device(service.state)
        assert gauges["media_bytes_free"] == POOL
        assert gauges["media_objects"] == gauges["media_receipts"] == 0
        service.end()
