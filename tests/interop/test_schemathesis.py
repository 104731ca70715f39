"""
schemathesis against `/openapi.json`: what it generates is answered as it is told there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import EPOCH, WITH_MEDIA, DeviceScript, Running
from tests.gateway.serving import TOKEN
from tests.interop.programs import need, run
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import Operation, PolicyState
from twisted_aotx.wire.packet import RequestHeader
from twisted_aotx.wire.policy import PolicyReport

#: Without `unsupported_method`: it sends GET with a body, which is 400 before any route
#: is looked at (`http.md` §1). Without `positive_data_acceptance`: names of models and
#: requests that fit the pattern need not exist.
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance,"
    "allow_header_conformance,ignored_auth,negative_data_rejection"
)


@pytest.mark.slow
@asynchronous
async def test_nothing_contradicts_the_document(serve: Serve, tmp_path: Path) -> None:
    need("st")
    gateway = await serve(DeviceScript(WITH_MEDIA, media=True))

    def hello(request: Running) -> None:
        request.complete(b"hello")

    def others(request: RequestHeader) -> Any:
        if request.operation == Operation.METRICS:
            return reply_to(request, 200, WITH_MEDIA.pack(), epoch=EPOCH)
        if request.operation == Operation.POLICY:
            report = PolicyReport(state=PolicyState.QUIET).pack()
            return reply_to(request, 200, report, epoch=EPOCH)
        return NotImplemented

    gateway.device.on_submit = hello
    gateway.device.before = others
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps((await gateway.get("/openapi.json")).json))

    done = await run(
        *("st", "run", str(document), "--url", gateway.url),
        *("-H", f"Authorization: Bearer {TOKEN}", "--checks", CHECKS),
        # A service that is off and hosts that are away: their 503 and 502 are answers,
        # not failures of the server.
        *("--exclude-path-regex", "^/aotx/v1/(media/import|shared)"),
        *("--phases", "examples,coverage,fuzzing", "--max-examples", "30"),
        *("--seed", "1", "--no-color", "--warnings", "off"),
        seconds=280,
        folder=tmp_path,
    )

    assert done.code == 0, done.out[-8000:]
