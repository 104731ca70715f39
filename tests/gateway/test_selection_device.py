"""
Control selections over HTTP before the device itself, with the reference engine in its
kernels (cases J 155; `http.md` §4, §5).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from tests.asynchronous import asynchronous
from tests.device.capacities import SMALL
from tests.device.driver import Driver
from tests.device.making import grant, new_device
from tests.gateway.conftest import Serve
from tests.gateway.feeds import CHAT, REQUESTS, body
from tests.gateway.form_samples import CONTROL
from tests.gateway.serving import P1, Serving
from twisted_aotx.device.host import Device
from twisted_aotx.engines.reference import CONTROLS, make
from twisted_aotx.wire.packet import RequestHeader, join

CAUTION, VERVE = CONTROLS
#: Ticks that are more than enough for a short answer.
TICKS = 8


@attrs.define
class Kernels:
    """
    A script that asks a real device; each packet is a tick or more.
    """

    device: Device
    driver: Driver

    def __call__(self, request: RequestHeader, payload: bytes) -> bytes:
        packet = self.driver.raw(join(request, payload))
        for _ in range(TICKS):
            self.driver.step()
        return packet


@pytest.fixture
def kernels() -> Iterator[Kernels]:
    device = new_device(SMALL, [make(2, {}, SMALL.slots, SMALL.sequence_tokens)])
    driver = Driver(device, SMALL)
    # The gateway's configuration has revision 3.
    driver.revision = 2
    assert driver.install(grant(P1, actions=1 | 8, models=1 << 2)) == 200
    yield Kernels(device, driver)
    device.close()
    device.free()


def control(dose: int = 10000, digest: bytes = VERVE.qualification_sha256) -> Any:
    return CONTROL | {"qualification_sha256": digest.hex(), "dose": dose}


async def said(gateway: Serving, **fields: Any) -> bytes:
    """What a native request says, greedily."""
    made = await gateway.post(REQUESTS, body(temperature=0, max_tokens=60, **fields))
    assert made.status == 202
    shown = (await gateway.get(f"{REQUESTS}/{made.json['id']}")).json
    assert shown["state"] == "completed"
    return base64.b64decode(shown["output"]["bytes"])


@asynchronous
async def test_capabilities_list_them(serve: Serve, kernels: Kernels) -> None:
    """CONTROL of `http.md` §4, and what a withdrawn one looks like."""
    gateway = await serve(kernels)
    (model, *_) = (await gateway.get("/aotx/v1/capabilities")).json["models"]

    assert model["controls"] == [
        {
            "schema": "aotx.control.v1",
            "name": row.name,
            "kind": "residual_vector",
            "available": True,
            "positions": positions,
            "hook": 1,
            "layers": [0],
            "dose_scale": 10000,
            "accepted_doses": [-10000, -5000, 5000, 10000],
            "combinations": False,
            "qualification_sha256": row.qualification_sha256.hex(),
        }
        for row, positions in ((CAUTION, "all"), (VERVE, "response"))
    ]

    kernels.device.set_control(1, False)
    (model, *_) = (await gateway.get("/aotx/v1/capabilities")).json["models"]
    shown = model["controls"][1]
    assert (shown["available"], shown["accepted_doses"]) == (False, [])


@asynchronous
async def test_each_selection_has_its_own_answer(
    serve: Serve, kernels: Kernels
) -> None:
    """cases J 155: the 48 bytes reach the engine, which says something else."""
    gateway = await serve(kernels)
    answers = {
        await said(gateway, control=control(dose, row.qualification_sha256))
        for row, dose in ((CAUTION, -10000), (CAUTION, 10000), (VERVE, 10000))
    }
    plain = await said(gateway)

    assert len(answers) == 3
    assert plain not in answers
    assert await said(gateway) == plain


@asynchronous
async def test_what_cannot_be_selected(serve: Serve, kernels: Kernels) -> None:
    """503 of the device, and 400 on the standard route."""
    gateway = await serve(kernels)
    for wrong in (control(1), control(digest=b"\1" * 32)):
        refused = await gateway.post(REQUESTS, body(control=wrong))
        assert refused.problem[:2] == (503, "device_refused")
    assert (await gateway.post(REQUESTS, body(control=control()))).status == 202
    kernels.device.set_control(1, False)
    refused = await gateway.post(REQUESTS, body(control=control()))
    assert refused.problem[:2] == (503, "device_refused")
    assert (await gateway.post(CHAT, body(control=control()))).status == 400
