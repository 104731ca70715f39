"""
Uploads stream to the device: what one takes of the gateway's memory does not follow its
size.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from tests.endtoend.storm import JPEG, Body, Principal
from tests.endtoend.uploading import Service

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: Two sources of the largest size fill the pool and the byte credit of the gateway.
SOURCE_BYTES = 32 << 20
AT_ONCE = 2
#: Of resident memory, for each upload under way.
UPLOAD_BYTES_MAX = 1 << 20
#: Seconds between two looks.
LOOK = 0.005


def test_an_upload_takes_under_one_mebibyte_of_the_gateway(tmp_path: Path) -> None:
    principal = Principal.make(1)
    entry = principal.entry(media=8, media_bytes=AT_ONCE * SOURCE_BYTES)
    service = Service.make(tmp_path, [entry])
    with service.stack:
        service.start()
        media = service.media(principal.token)
        process = psutil.Process(service.gateway.popen.pid)
        # What the first upload loads is there before those that are looked at.
        status, answer = media.upload(Body.make(1, 1 << 20, JPEG))
        assert status == 201, answer
        assert media.delete(answer["id"])[0] == 204
        before = peak = process.memory_info().rss

        bodies = [Body.make(2 + n, SOURCE_BYTES, JPEG) for n in range(AT_ONCE)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = [pool.submit(media.upload, body) for body in bodies]
            while not all(answer.done() for answer in answers):
                peak = max(peak, process.memory_info().rss)
                time.sleep(LOOK)
        for body, answered in zip(bodies, answers, strict=True):
            status, answer = answered.result()
            assert (status, answer["sha256"]) == (201, body.sha256)
        assert peak - before < AT_ONCE * UPLOAD_BYTES_MAX
        service.end()
