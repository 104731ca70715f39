"""
The shared service: routes that are off (`http.md` §4).
"""

from __future__ import annotations

import pytest

from tests.asynchronous import asynchronous
from tests.gateway.device_script import EPOCH
from tests.gateway.serving import Serving
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import Operation

OFF = (503, "device_refused", None)


@asynchronous
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/aotx/v1/shared/x"),
        ("HEAD", "/aotx/v1/shared/x"),
        ("BREW", "/aotx/v1/shared/x/y?a=1&a=2&b"),
        ("GET", "/aotx/v1/shared/x?a=%ff&&"),
    ],
)
async def test_the_device_is_asked_and_its_refusal_is_the_answer(
    gateway: Serving, method: str, path: str
) -> None:
    """
    The question only reads.
    """
    answer = await gateway.request(method, path)

    assert answer.status == 503
    assert answer.header("retry-after") == "1"
    if method != "HEAD":
        assert answer.problem == OFF
    assert gateway.device.operations == [Operation.SHARED_READ]
    assert gateway.peer.requests[0][1] == b""


@asynchronous
@pytest.mark.parametrize("status", [403, 404, 410, 429])
async def test_other_refusals_pass_through(gateway: Serving, status: int) -> None:
    gateway.device.before = lambda request: reply_to(request, status, epoch=EPOCH)

    answer = await gateway.get("/aotx/v1/shared/x")
    assert answer.problem == (status, "device_refused", None)


@asynchronous
async def test_a_device_that_offers_it_is_not_pretended_to_be_served(
    gateway: Serving,
) -> None:
    gateway.device.before = lambda request: reply_to(request, 200, epoch=EPOCH)

    assert (await gateway.get("/aotx/v1/shared/x")).problem == OFF
