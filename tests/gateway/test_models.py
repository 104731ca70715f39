"""
`/v1/models`: aliases of the caller that the device serves now (`http.md` §4).
"""

from __future__ import annotations

import attrs

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import INFORMATION, DeviceScript
from tests.gateway.serving import TOKEN_2, Serving
from twisted_aotx.wire.info import ModelRow

ORG_M = {
    "id": "org/m",
    "object": "model",
    "created": 1700000000,
    "owned_by": "operator",
    "automatic_memory": False,
}
M = ORG_M | {"id": "m", "created": 1}


@asynchronous
async def test_the_list_is_in_the_order_of_the_configuration(
    gateway: Serving,
) -> None:
    """
    http.md §4: not in that of the principal; roles that are not active are left out.
    """
    answer = await gateway.get("/v1/models")

    assert answer.status == 200
    assert answer.json == {"object": "list", "data": [ORG_M, M]}
    assert answer.content.startswith(b'{"object":"list","data":[{"id":"org/m","object"')


@asynchronous
async def test_a_caller_sees_its_own_models(gateway: Serving) -> None:
    answer = await gateway.get("/v1/models", token=TOKEN_2)
    assert answer.json == {"object": "list", "data": [M]}

    answer = await gateway.get("/v1/models/org/m", token=TOKEN_2)
    assert answer.problem == (404, "model_not_found", "model")


@asynchronous
async def test_one_model(gateway: Serving) -> None:
    """
    http.md §4, B59.
    """
    assert (await gateway.get("/v1/models/m")).json == M
    assert (await gateway.get("/v1/models/org/m")).json == ORG_M
    for name in ("M", "org", "m/x", "absent", "other"):
        answer = await gateway.get("/v1/models/" + name)
        assert answer.problem == (404, "model_not_found", "model"), name


@asynchronous
async def test_the_list_is_current(serve: Serve) -> None:
    """
    http.md §4: only roles that INFO shows, at once when that changes. Rows of unknown
    roles are ignored (cases L 167).
    """
    device = DeviceScript()
    gateway = await serve(device)
    assert len((await gateway.get("/v1/models")).json["data"]) == 2

    strange = (ModelRow(0, 1, b"e" * 32), ModelRow(77, 7, b"s" * 32))
    device.information = attrs.evolve(INFORMATION, models=strange, controls=())

    assert (await gateway.get("/v1/models")).json == {"object": "list", "data": []}
    answer = await gateway.get("/v1/models/m")
    assert answer.problem == (404, "model_not_found", "model")
