"""
The `openai` package against a gateway: what its users do, unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import openai
import pytest
from twisted.internet.threads import deferToThread

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import Running
from tests.gateway.serving import TOKEN, Serving
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import Operation, Phase

Result = TypeVar("Result")
SAY_HI: list[Any] = [{"role": "user", "content": "hi"}]


@pytest.fixture(autouse=True)
def without_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A proxy of the environment is not for this machine.
    """
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


async def ask(
    gateway: Serving, use: Callable[[openai.OpenAI], Result], token: str = TOKEN
) -> Result:
    """
    What *use* makes of a client, in a thread of its own.
    """

    def work() -> Result:
        with openai.OpenAI(api_key=token, base_url=f"{gateway.url}/v1") as client:
            return use(client)

    return await deferToThread(work)


def growing(output: str) -> Callable[[Running], None]:
    """
    Each READ finds one byte more.
    """
    rest: Iterator[int] = iter(output.encode())

    def read(request: Running) -> None:
        byte = next(rest, None)
        request.complete() if byte is None else request.say(bytes([byte]))

    return read


@asynchronous
async def test_models_are_listed(gateway: Serving) -> None:
    models = await ask(gateway, lambda client: client.models.list().data)

    assert [model.id for model in models] == ["org/m", "m"]


@asynchronous
async def test_a_chat_and_its_next_turn(gateway: Serving) -> None:
    """
    What came back is sent back as it is, as every chat does.
    """
    gateway.device.on_submit = lambda request: request.complete(b"hello")

    def talk(client: openai.OpenAI) -> Any:
        messages = list(SAY_HI)
        first = client.chat.completions.create(model="m", messages=messages)
        messages += [first.choices[0].message, {"role": "user", "content": "again"}]
        second = client.chat.completions.create(model="m", messages=messages)
        return first, second

    first, second = await ask(gateway, talk)

    assert first.choices[0].message.content == "hello"
    assert first.choices[0].finish_reason == "stop"
    assert first.usage.total_tokens == 10
    assert second.choices[0].message.content == "hello"
    _, last = gateway.device.requests.values()
    said = [message.parts[0] for message in last.submission.messages]
    assert [getattr(part, "text", None) for part in said] == [b"hi", b"hello", b"again"]


@asynchronous
async def test_a_stream_with_usage(gateway: Serving) -> None:
    gateway.device.on_read = growing("héllo 😀")

    def talk(client: openai.OpenAI) -> Any:
        return list(
            client.chat.completions.create(
                model="m",
                messages=SAY_HI,
                stream=True,
                stream_options={"include_usage": True},
            )
        )

    chunks = await ask(gateway, talk)

    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == "héllo 😀"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 11
    assert all(chunk.usage is None for chunk in chunks[:-1])


@asynchronous
async def test_silence_does_not_break_a_stream(serve: Serve) -> None:
    """
    B31: keep-alive lines are nothing to the package.
    """
    gateway = await serve(ping_seconds=1)

    def talk(client: openai.OpenAI) -> Any:
        return list(
            client.chat.completions.create(model="m", messages=SAY_HI, stream=True)
        )

    def end(request: Running) -> None:
        if gateway.device.count(Operation.READ) > 60:
            request.complete(b"at last")

    gateway.device.on_read = end
    chunks = await ask(gateway, talk)

    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == "at last"


@asynchronous
async def test_a_stream_that_fails_raises(gateway: Serving) -> None:
    def fail(request: Running) -> None:
        request.say(b"so far")
        request.end(Phase.FAILED, 500)

    gateway.device.on_submit = fail
    texts: list[str] = []

    def talk(client: openai.OpenAI) -> None:
        with client.chat.completions.create(
            model="m", messages=SAY_HI, stream=True
        ) as chunks:
            texts.extend(chunk.choices[0].delta.content or "" for chunk in chunks)

    with pytest.raises(openai.APIError) as caught:
        await ask(gateway, talk)

    assert caught.value.code == "request_failed"


@pytest.mark.parametrize(
    ("change", "error", "code"),
    [
        ({"model": "nobody"}, openai.NotFoundError, "model_not_found"),
        ({"n": 2}, openai.BadRequestError, "invalid_field"),
        ({"stop": ["x"]}, openai.BadRequestError, "invalid_field"),
        ({"messages": []}, openai.BadRequestError, "invalid_field"),
    ],
)
@asynchronous
async def test_errors_are_the_package_s(
    gateway: Serving, change: dict[str, Any], error: type[Exception], code: str
) -> None:
    def talk(client: openai.OpenAI) -> None:
        arguments: dict[str, Any] = {"model": "m", "messages": SAY_HI} | change
        client.chat.completions.create(**arguments)

    with pytest.raises(error) as caught:
        await ask(gateway, talk)

    assert getattr(caught.value, "code", None) == code
    assert gateway.device.count(Operation.SUBMIT) == 0


@pytest.mark.parametrize(
    ("status", "error", "arrivals"),
    [
        (404, openai.NotFoundError, 1),
        (409, openai.ConflictError, 1),
        (410, openai.APIStatusError, 1),
        (413, openai.APIStatusError, 1),
        (429, openai.RateLimitError, 3),
    ],
)
@asynchronous
async def test_only_what_may_pass_is_tried_again(
    gateway: Serving, status: int, error: type[Exception], arrivals: int
) -> None:
    """
    B87, B89, D19: one arrival for deterministic refusals; the package retries twice.
    """
    gateway.device.before = lambda request: (
        reply_to(request, status, epoch=gateway.device.epoch)
        if request.operation == Operation.SUBMIT
        else NotImplemented
    )

    def talk(client: openai.OpenAI) -> None:
        client.chat.completions.create(model="m", messages=SAY_HI)

    with pytest.raises(error):
        await ask(gateway, talk)

    assert gateway.device.count(Operation.SUBMIT) == arrivals


@asynchronous
async def test_what_the_package_s_users_set_without_meaning_it(
    gateway: Serving,
) -> None:
    """
    D17: neutral values and null.
    """
    gateway.device.on_submit = lambda request: request.complete(b"ok")

    def talk(client: openai.OpenAI) -> Any:
        return client.chat.completions.create(
            model="m",
            messages=[{"role": "developer", "content": "be brief"}, *SAY_HI],
            max_completion_tokens=5,
            temperature=0,
            seed=7,
            n=1,
            frequency_penalty=0,
            presence_penalty=None,
            logprobs=False,
            stop=None,
            tool_choice="none",
            response_format={"type": "text"},
            user="someone",
            metadata={"a": "b"},
            store=False,
        )

    answer = await ask(gateway, talk)

    assert answer.choices[0].message.content == "ok"
    assert gateway.device.only.submission.messages[0].role == 0
