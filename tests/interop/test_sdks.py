"""
The openai packages of Python and Node: one script of calls, the same results, and as
many arrivals as the errors deserve (D17, D19, B71, B87, B89).
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest
from twisted.internet.threads import deferToThread

from tests.asynchronous import asynchronous, asynchronous_fixture
from tests.gateway.conftest import Serve
from tests.gateway.device_script import EPOCH, DeviceScript, Running
from tests.gateway.feeds import eventually
from tests.gateway.serving import TOKEN, Serving
from tests.interop.programs import need, run
from twisted_aotx.gateway.settings import Limits
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import RequestHeader

HELLO = "grüße 👋"
Call = dict[str, Any]


def chat(**fields: Any) -> Call:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}]} | fields


def refused(status: int, arrivals: int) -> tuple[Call, Call, int]:
    """
    The device refuses a limit of that many tokens with that status.
    """
    body = chat(max_tokens=status)
    result = {"status": status, "code": "device_refused", "param": None}
    return {"kind": "chat", "body": body}, result, arrivals


def invalid(param: str, **fields: Any) -> tuple[Call, Call, int]:
    result = {"status": 400, "code": "invalid_field", "param": param}
    return {"kind": "chat", "body": chat(**fields)}, result, 1


_TEXT = {"text": HELLO, "usage": 5 + len(HELLO.encode())}
_WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}
#: Calls with their results and how often each arrives: the packages try again twice
#: what may pass.
SCRIPT: list[tuple[Call, Call, int]] = [
    ({"kind": "models"}, {"ids": ["org/m", "m"]}, 1),
    ({"kind": "model", "id": "m"}, {"ids": ["m"]}, 1),
    ({"kind": "model", "id": "org/m"}, {"ids": ["org/m"]}, 1),
    (
        {"kind": "model", "id": "none"},
        {"status": 404, "code": "model_not_found", "param": "model"},
        1,
    ),
    ({"kind": "chat", "body": chat()}, _TEXT, 1),
    ({"kind": "chat", "body": chat(model="org/m")}, _TEXT, 1),
    ({"kind": "chat", "body": chat(max_tokens=1)}, _TEXT, 1),
    ({"kind": "chat", "body": chat(temperature=0, seed=1, stop=None)}, _TEXT, 1),
    ({"kind": "chat", "body": chat(tools=[], logprobs=False, user="u")}, _TEXT, 1),
    ({"kind": "stream", "body": chat(stream=True)}, {"text": HELLO, "usage": None}, 1),
    ({"kind": "stream", "body": chat(**_WITH_USAGE)}, _TEXT, 1),
    invalid("temperature", temperature=3),
    invalid("n", n=2),
    invalid("logprobs", logprobs=True),
    invalid("messages", messages=[]),
    invalid("body", top_logprobs=5),
    (
        {"kind": "chat", "body": chat(), "token": "x" * 40},
        {"status": 401, "code": "invalid_api_key", "param": None},
        1,
    ),
    (
        {"kind": "chat", "body": chat(model="none", stream=True)},
        {"status": 404, "code": "model_not_found", "param": "model"},
        1,
    ),
    refused(404, 1),
    refused(409, 1),
    refused(410, 1),
    refused(413, 1),
    refused(429, 3),
    ({"kind": "many", "bodies": [chat()] * 32}, {"texts": 32}, 32),
    ({"kind": "leave", "body": chat(stream=True, max_tokens=500)}, {"left": True}, 1),
]
CALLS = [call for call, _, _ in SCRIPT]


@asynchronous_fixture
async def served(serve: Serve) -> AsyncIterator[Serving]:
    """
    A device that says HELLO, but for limits that tell it otherwise.
    """
    device = DeviceScript()

    def submitted(request: Running) -> None:
        if request.submission.limit == 500:
            request.say(b"without an end")
        else:
            request.complete(HELLO.encode())

    def before(request: RequestHeader) -> Any:
        if request.operation == Operation.SUBMIT and 400 <= request.limit < 500:
            return reply_to(request, request.limit, epoch=EPOCH)
        return NotImplemented

    device.on_submit = submitted
    device.before = before
    yield await serve(device, limits=Limits(operation_seconds=20))


async def arrivals(gateway: Serving) -> int:
    """
    Requests that have ended, this one's predecessors.
    """
    text = (await gateway.get("/metrics")).content.decode().splitlines()
    name = "aotx_http_requests_total{"
    routes = [line for line in text if line.startswith(name) and "/v1/" in line]
    others = [line for line in text if line.startswith(name) and '"other"' in line]
    return int(sum(float(line.split()[-1]) for line in routes + others))


async def judge(gateway: Serving, results: list[Call]) -> None:
    for (call, expected, _), result in zip(SCRIPT, results, strict=True):
        assert result == expected, call
    await eventually(lambda: gateway.gateway.budgets.work.held == 0)
    assert await arrivals(gateway) == sum(count for _, _, count in SCRIPT)


@asynchronous
async def test_node(served: Serving) -> None:
    """
    `AOTX_NODE_MODULES` is a node_modules with the package in it.
    """
    need("node")
    modules = os.environ.get("AOTX_NODE_MODULES", "")
    if not Path(modules, "openai").is_dir():
        pytest.skip("AOTX_NODE_MODULES names no folder with the openai package")
    script = Path(__file__).with_name("sdk.mjs")
    sent = {"url": served.url, "token": TOKEN, "calls": CALLS}

    done = await run("node", str(script), sent=json.dumps(sent))

    assert done.code == 0, done.err
    await judge(served, json.loads(done.out))


@asynchronous
async def test_python(served: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    await judge(served, await deferToThread(Script(served.url).run))


class Script:
    """
    sdk.mjs with Python's package.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def run(self) -> list[Call]:
        results: list[Call] = []
        for call in CALLS:
            try:
                results.append(getattr(self, f"_{call['kind']}")(call))
            except openai.APIStatusError as error:
                told = {"code": error.code, "param": error.param}
                results.append({"status": error.status_code, **told})
        return results

    def _client(self, token: str = TOKEN) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self._url}/v1", api_key=token)

    def _models(self, _call: Call) -> Call:
        return {"ids": [model.id for model in self._client().models.list().data]}

    def _model(self, call: Call) -> Call:
        return {"ids": [self._client().models.retrieve(call["id"]).id]}

    def _chat(self, call: Call) -> Call:
        client = self._client(call.get("token", TOKEN))
        answer: Any = client.chat.completions.create(**call["body"])
        usage = answer.usage.total_tokens
        return {"text": answer.choices[0].message.content, "usage": usage}

    def _stream(self, call: Call, *, leave: bool = False) -> Call:
        text, usage = "", None
        stream: Any = self._client().chat.completions.create(**call["body"])
        for chunk in stream:
            if chunk.choices:
                text += chunk.choices[0].delta.content or ""
            if chunk.usage is not None:
                usage = chunk.usage.total_tokens
            if leave and text:
                stream.close()
                return {"left": True}
        return {"text": text, "usage": usage}

    def _leave(self, call: Call) -> Call:
        return self._stream(call, leave=True)

    def _many(self, call: Call) -> Call:
        with ThreadPoolExecutor(32) as pool:
            calls = [{"body": body} for body in call["bodies"]]
            return {"texts": len(list(pool.map(self._chat, calls)))}
