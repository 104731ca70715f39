"""
`/aotx/v1/capabilities` and `/aotx/v1/telemetry`: what the device says, as JSON.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import EPOCH, INFORMATION, DeviceScript
from tests.gateway.serving import P1, TOKEN, Serving, digest
from twisted_aotx.gateway.settings import Limits, Principal
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.info import ControlRow, Information, ModelRow
from twisted_aotx.wire.numbers import Action, Operation

PATH = "/aotx/v1/capabilities"
#: Every field has a value of its own, so that none can stand for another.
DISTINCT = Information(
    slots=65,
    prompt_bytes=65408,
    sequence_tokens=8192,
    requests=129,
    output_bytes=65537,
    channels=130,
    grant_tokens=1001,
    grant_pages=512,
    grant_requests=3,
    grant_actions=255,
    media_objects=131,
    image_input=1,
    audio_input=1,
    grant_media=17,
    media_bytes=2**53 + 1,
    image_pixels=4194304,
    image_dimension=8193,
    image_patches=8194,
    image_rows=131072,
    audio_frames=1440000,
    audio_rows=16384,
    request_seconds=301,
    upload_seconds=121,
    principals=256,
    media_references=909,
    memory_roles=4,
    models=(
        ModelRow(role=2, modalities=7, sha256=b"\1" * 32),
        ModelRow(role=4, modalities=5, sha256=b"\4" * 32),
    ),
    controls=(
        ControlRow(layers=1 << 63 | 5, name="caution", doses=(5000, -40000)),
        ControlRow(
            layers=2, name="calm_2", positions=1, qualification_sha256=b"q" * 32
        ),
    ),
)


async def capabilities(serve: Serve, information: Information) -> Any:
    gateway = await serve(
        DeviceScript(information),
        principals=(
            Principal(
                id=P1,
                token_sha256=(digest(TOKEN),),
                models=("absent", "m"),
                actions=Action.INFER | Action.TELEMETRY,
            ),
        ),
        limits=Limits(work=63, event_bytes=2048),
    )
    answer = await gateway.get(PATH)
    assert answer.status == 200
    return answer.json


@asynchronous
async def test_capabilities_are_exactly_these(serve: Serve) -> None:
    """
    http.md §4; cases L 167: automatic_memory is false whatever the device says.
    """
    told = await capabilities(serve, DISTINCT)

    control = {
        "schema": "aotx.control.v1",
        "name": "caution",
        "kind": "residual_vector",
        "available": True,
        "positions": "all",
        "hook": 1,
        "layers": [0, 2, 63],
        "dose_scale": 10000,
        "accepted_doses": [5000, -40000],
        "combinations": False,
        "qualification_sha256": None,
    }
    second = control | {
        "name": "calm_2",
        "available": False,
        "positions": "response",
        "layers": [1],
        "accepted_doses": [],
        "qualification_sha256": b"q".hex() * 32,
    }
    model = {
        "id": "m",
        "role": 2,
        "sha256": "01" * 32,
        "controls": [control, second],
        "automatic_memory": False,
        "input": ["text", "image", "audio"],
        "published_at": 1,
    }
    other = model | {
        "id": "absent",
        "role": 4,
        "sha256": "04" * 32,
        "controls": [],
        "input": ["text", "audio"],
        "published_at": 2,
    }
    # JSON tells true from 1, Python's == does not.
    assert repr(told.pop("models")) == repr([model, other])
    assert repr(told.pop("limits")) == repr(_LIMITS)
    assert repr(told.pop("features")) == repr(_FEATURES)
    assert told == {
        "schema": "aotx.capabilities.v1",
        "runtime_epoch": str(EPOCH),
        "lineage": None,
        "mode": "inference",
        "retention": {
            "requests": "bounded_device_results",
            "restart": "expire_requests",
            "media": "explicit_removal",
            "shared_operations": None,
        },
        "shared_api": None,
        "media_types": ["image/jpeg", "audio/wav"],
    }


_LIMITS = {
    "execution_slots": 64,
    "wrapped_prompt_bytes": 65408,
    "sequence_tokens": 8192,
    "request_entries": 129,
    "output_bytes": 65537,
    "service_channels": 129,
    "output_tokens": 1001,
    "kv_pages_per_request": 512,
    "active_requests": 3,
    "media_objects": 131,
    "private_media_objects": 17,
    "private_media_bytes": str(2**53 + 1),
    "image_pixels": 4194304,
    "image_dimension": 8193,
    "image_patches": 8194,
    "image_feature_rows": 131072,
    "audio_source_frames": 1440000,
    "audio_feature_rows": 16384,
    "device_request_seconds": 301,
    "device_upload_seconds": 121,
    "principal_entries": 256,
    "media_references": 909,
    "connections": 128,
    "body_readers": 8,
    "json_bytes": 8388608,
    "upload_bytes": 33554432,
    "body_credit": 67108864,
    "work": 63,
    "fetches": 4,
    "write_seconds": 10,
    "body_seconds": 60,
    "header_seconds": 10,
    "operation_seconds": 300,
    "event_bytes": 2048,
    "wire_connections": 64,
}
_FEATURES = {
    "chat_completions": True,
    "streaming": True,
    "private_media": False,
    "https_import": False,
    "telemetry": True,
    "control_selection": True,
    "continuing_ccir": False,
    "persistent_requests": False,
    "embeddings": False,
    "responses": False,
    "tools": False,
    "expression": False,
    "presence": False,
}


@asynchronous
async def test_revision_1_is_understood(serve: Serve) -> None:
    """
    cases L 166: without controls and without selection.
    """
    old = attrs.evolve(INFORMATION, revision=1, controls=(), selection_version=0)

    told = await capabilities(serve, old)

    assert told["features"]["control_selection"] is False
    assert [model["controls"] for model in told["models"]] == [[]]


def broken(payload: bytes, at: int, value: int, width: int = 4) -> bytes:
    return payload[:at] + value.to_bytes(width, "little") + payload[at + width :]


GOOD = INFORMATION.pack()
#: Where the one control row of GOOD begins.
CONTROL = 192 + 40


@asynchronous
@pytest.mark.parametrize(
    "payload",
    [
        b"",
        GOOD[:191],
        GOOD[:-1],
        GOOD + b"\0",
        broken(GOOD, 0, 0),
        broken(GOOD, 0, 3),
        broken(GOOD, 0, 1),
        broken(GOOD, 44, 2),
        broken(GOOD, 160, 17),
        broken(GOOD, 160, 2),
        broken(GOOD, 164, 159),
        broken(GOOD, 168, 2),
        broken(GOOD, 52, 2),
        broken(GOOD, 172, 1),
        broken(GOOD, CONTROL, 4),
        broken(GOOD, CONTROL + 4, 2),
        broken(GOOD, CONTROL + 8, 0),
        broken(GOOD, CONTROL + 8, 2),
        broken(GOOD, CONTROL + 12, 2),
        broken(GOOD, CONTROL + 16, 2),
        broken(GOOD, CONTROL + 20, 17),
        broken(GOOD, CONTROL + 24, 0, 8),
        broken(GOOD, CONTROL + 32, ord("C"), 1),
        broken(GOOD, CONTROL + 63, 1, 1),
        broken(GOOD, CONTROL + 96, 0),
        broken(GOOD, CONTROL + 96, 40001),
        broken(broken(GOOD, CONTROL + 20, 2), CONTROL + 100, 5000),
        broken(GOOD, CONTROL + 100, 1),
        broken(GOOD, 160, 2) + GOOD[CONTROL:],
    ],
)
async def test_information_that_is_refused(gateway: Serving, payload: bytes) -> None:
    """
    http.md §3, cases L 166: 503, wherever INFO is needed, and once for each call.
    """
    gateway.device.before = lambda request: reply_to(request, 200, payload, epoch=EPOCH)

    for _ in range(2):
        for path in (PATH, "/v1/models", "/v1/models/m", "/aotx/v1/telemetry"):
            answer = await gateway.get(path)
            assert answer.problem == (503, "invalid_device_response", None), path
            assert answer.header("retry-after") == "1"


@asynchronous
async def test_telemetry_is_numbers_in_strings(gateway: Serving) -> None:
    """
    cases L 169, http.md §4.
    """
    sample = attrs.evolve(
        INFORMATION, allocation_bytes=2**63, tick=5, clock_ns=2**64 - 1
    )
    gateway.device.before = lambda request: (
        reply_to(request, 200, sample.pack(), epoch=EPOCH)
        if request.operation == Operation.METRICS
        else NotImplemented
    )

    answer = await gateway.get("/aotx/v1/telemetry")

    assert answer.status == 200
    assert answer.json == {
        "schema": "aotx.telemetry.v1",
        "runtime_epoch": str(EPOCH),
        "lineage": None,
        "sample": {
            "service_allocation_bytes": str(2**63),
            "tick": "5",
            "clock_nanoseconds": str(2**64 - 1),
        },
        "affect": None,
        "expression": None,
    }


@asynchronous
async def test_telemetry_without_the_right_is_403(gateway: Serving) -> None:
    """
    cases L 169: the device refuses it.
    """
    gateway.device.before = lambda request: reply_to(request, 403, epoch=EPOCH)

    answer = await gateway.get("/aotx/v1/telemetry")

    assert answer.problem == (403, "device_refused", None)
    assert answer.error["type"] == "permission_error"
    assert gateway.device.operations == [Operation.METRICS]
