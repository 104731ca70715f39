"""
Media, policy and the shared service: routes that are off (`http.md` §4).
"""

from __future__ import annotations

import pytest

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import EPOCH, DeviceScript
from tests.gateway.serving import P1, TOKEN, TOKEN_2, Serving, digest
from twisted_aotx.gateway.settings import Principal
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import Action, Operation

SOURCE = "/aotx/v1/media/media-" + "ab" * 16
OFF = (503, "device_refused", None)


@asynchronous
@pytest.mark.parametrize(
    ("method", "path", "operation"),
    [
        ("POST", "/aotx/v1/media", Operation.MEDIA_LIST),
        ("GET", "/aotx/v1/media", Operation.MEDIA_LIST),
        ("GET", "/aotx/v1/media?cursor=3", Operation.MEDIA_LIST),
        ("POST", "/aotx/v1/media/import", Operation.MEDIA_LIST),
        ("GET", SOURCE, Operation.MEDIA_READ),
        ("DELETE", SOURCE, Operation.MEDIA_READ),
        ("GET", "/aotx/v1/policy", Operation.POLICY),
        ("POST", "/aotx/v1/policy", Operation.POLICY),
        ("GET", "/aotx/v1/shared/x", Operation.SHARED_READ),
        ("HEAD", "/aotx/v1/shared/x", Operation.SHARED_READ),
        ("BREW", "/aotx/v1/shared/x/y?a=1&a=2&b", Operation.SHARED_READ),
    ],
)
async def test_the_device_is_asked_and_its_refusal_is_the_answer(
    gateway: Serving, method: str, path: str, operation: Operation
) -> None:
    """
    Every question only reads: no source is removed and no control is written.
    """
    answer = await gateway.request(method, path)

    assert answer.status == 503
    assert answer.header("retry-after") == "1"
    if method != "HEAD":
        assert answer.problem == OFF
    assert gateway.device.operations == [operation]
    assert gateway.peer.requests[0][1] == b""


@asynchronous
@pytest.mark.parametrize("status", [403, 404, 410, 429])
async def test_other_refusals_pass_through(gateway: Serving, status: int) -> None:
    gateway.device.before = lambda request: reply_to(request, status, epoch=EPOCH)

    for path in ("/aotx/v1/media", SOURCE, "/aotx/v1/policy", "/aotx/v1/shared/x"):
        answer = await gateway.get(path)
        assert answer.problem == (status, "device_refused", None)


@asynchronous
async def test_a_device_that_offers_them_is_not_pretended_to_be_served(
    gateway: Serving,
) -> None:
    gateway.device.before = lambda request: reply_to(request, 200, epoch=EPOCH)

    for path in ("/aotx/v1/media", SOURCE, "/aotx/v1/policy", "/aotx/v1/shared/x"):
        assert (await gateway.get(path)).problem == OFF


@asynchronous
async def test_without_the_action_the_device_is_not_asked(gateway: Serving) -> None:
    """
    http.md §8 (POST media, import), §4 (policy): before any body is read.
    """
    refusals = {
        "/aotx/v1/media": "media_forbidden",
        "/aotx/v1/media/import": "url_forbidden",
        "/aotx/v1/policy": "policy_permission",
    }
    for path, code in refusals.items():
        answer = await gateway.request("POST", path, token=TOKEN_2, data=b"x" * 1000)
        assert answer.problem == (403, code, None)
        assert answer.error["type"] == "permission_error"
        assert answer.header("x-should-retry") == "false"
    assert gateway.device.operations == []


@asynchronous
@pytest.mark.parametrize(
    ("actions", "get", "post"),
    [
        (1, 403, 403),
        (64, 403, 403),
        (255 - 8 - 128, 403, 403),
        (8, 503, 403),
        (128, 503, 503),
        (136, 503, 503),
    ],
)
async def test_who_may_see_and_change_the_policy(
    serve: Serve, actions: int, get: int, post: int
) -> None:
    """
    cases L 170, in the form of a device whose policy is off: 503 is what 200 will be.
    """
    device = DeviceScript()
    principal = Principal(id=P1, token_sha256=(digest(TOKEN),), actions=actions)
    gateway = await serve(device, principals=(principal,))

    answers = [
        await gateway.get("/aotx/v1/policy"),
        await gateway.post("/aotx/v1/policy", {}),
    ]

    assert [answer.status for answer in answers] == [get, post]
    for answer in answers:
        refused = (403, "policy_permission", None)
        assert answer.problem == (OFF if answer.status == 503 else refused)
    assert len(device.operations) == [get, post].count(503)


@asynchronous
async def test_a_principal_without_actions_for_them_asks_the_device(
    serve: Serve,
) -> None:
    """
    http.md §8: other media routes than POST are the device's to refuse.
    """
    principal = Principal(
        id=P1, token_sha256=(digest(TOKEN),), actions=Action.INFER | Action.FETCH
    )
    gateway = await serve(principals=(principal,))
    gateway.device.before = lambda request: reply_to(request, 403, epoch=EPOCH)

    for method, path in (
        ("GET", "/aotx/v1/media"),
        ("GET", SOURCE),
        ("DELETE", SOURCE),
    ):
        answer = await gateway.request(method, path)
        assert answer.problem == (403, "device_refused", None)
