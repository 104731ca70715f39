"""
Imports that fail: the URL, what the source said and its bytes are told nowhere, with
every error code that only they have (`http.md` §8).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from twisted.internet.defer import Deferred

from tests.access.hunter import (
    Catch,
    Hunter,
    logs_into,
    look_at_objects,
    only_new_objects,
    raised_into,
)
from tests.access.planting import IMPORTS, MEDIA, SENT, TOKEN
from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.feeds import eventually
from tests.gateway.origins import LOCAL, Listen, Names, fetch, gateway_for, http
from tests.gateway.serving import Serving
from twisted_aotx.gateway.settings import Limits

BODY: Final = MEDIA.encode()
#: How each code comes about: what the source answers.
ANSWERS: Final = {
    "source_dns": http(BODY),
    "source_status": http(BODY, status=f"500 {SENT}"),
    "source_encoding": http(BODY, fields=f"Content-Encoding: {SENT}\r\n"),
    "source_limit": http(BODY, length=20_000),
    "source_length": http(BODY, length=len(BODY) + 7),
    "source_transfer": SENT.encode() + b"\r\n\r\n" + BODY,
    "media_type": http(BODY, content_type=SENT),
    "fetch_limit": http(BODY),
    "none": http(BODY),
}


class Looking(Names):
    """
    A resolver that has everything looked at while an import is under way.
    """

    def __init__(self, catch: Catch) -> None:
        super().__init__(LOCAL)
        self._catch = catch

    def look_up(self, host: str) -> Any:
        look_at_objects(self._catch)
        return super().look_up(host)


async def twice(gateway: Serving, names: Names, url: str) -> Any:
    """What the second of two imports at once is told."""
    names.answering.clear()
    first = Deferred.fromCoroutine(fetch(gateway, url))
    await eventually(lambda: names.asked)
    told = await fetch(gateway, url)
    names.answering.set()
    await first
    return told


@pytest.mark.parametrize("code", ANSWERS)
@asynchronous
async def test_what_is_told_of(
    serve: Serve, listen: Listen, named_pems: Path, code: str
) -> None:
    catch = Catch(Hunter({"sent": SENT, "media": MEDIA, "token": TOKEN}))
    with only_new_objects():
        names = Looking(catch)
        origin = listen(ANSWERS[code])
        gateway = await gateway_for(
            serve, origin, named_pems, names=names, limits=Limits(upload_bytes=10_000)
        )
        untouched: Any = NotImplemented

        def look(_: object) -> Any:
            look_at_objects(catch)
            return untouched

        gateway.device.before = look
        url = origin.url + f"?{SENT}={SENT}"
        if code == "source_dns":
            names.answers.clear()
        with logs_into(catch), raised_into(catch):
            if code == "fetch_limit":
                told = await twice(gateway, names, url)
            else:
                told = await fetch(gateway, url)
            look_at_objects(catch)
    catch.look("answer", code, repr(told.headers) + told.content.decode())
    catch.look("metrics", code, gateway.gateway.metrics.text().decode())

    assert told.status == 201 if code == "none" else told.error["code"] == code
    assert catch.seen["object"] > 50
    catch.assert_nothing()


def test_every_code_is_provoked() -> None:
    assert set(ANSWERS) >= IMPORTS
