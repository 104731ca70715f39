"""
SmolLM2 behind HTTP and the packet socket.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI

from tests.asynchronous import asynchronous
from tests.endtoend.conftest import GATEWAY_READY, Service
from tests.endtoend.hardship import Hardship, Question, every_sequence_is_free
from tests.endtoend.peers import greedy, peer
from tests.processes import COMPILE_PATIENCE, edit, free_port, twistd
from tests.real_model import smollm2
from twisted_aotx.config.initial import First, make_state_directory
from twisted_aotx.engines.model_file import read_model_file
from twisted_aotx.models.first import first_for
from twisted_aotx.wire.numbers import Phase

pytest.importorskip("xllamacpp", reason="the engine's library is not installed")

pytestmark = [pytest.mark.e2e, pytest.mark.model, pytest.mark.slow]

TEXTS = (
    "Tell me a story.",
    "Explain why the sky is blue.",
    "Write a poem about rain.",
    "What is the sun?",
    "Count to ten.",
)
LIMIT = 32


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """As `aotx init --engine llama` sets it up; clients that leave cancel."""
    path = smollm2()
    folder = tmp_path_factory.mktemp("smollm2")
    first = First(host="127.0.0.1", port=free_port(), now=1)
    state = folder / "var"
    make_state_directory(state, first_for(first, path, read_model_file(path)))
    edit(state / "gateway.json", completions={"disconnect": "cancel"})
    with twistd(folder, "aotx", "--state", state) as process:
        process.wait_for(GATEWAY_READY, COMPILE_PATIENCE)
        yield Service(process, state)


@asynchronous
async def test_64_requests_cancelled_left_and_killed_at_random(
    service: Service,
) -> None:
    """Those that complete say what they say alone, and count what they count alone."""
    async with peer(service.socket) as device:
        alone = []
        for text in TEXTS:
            whole = await device.run(greedy(text, LIMIT))
            assert whole.phase == Phase.COMPLETED
            alone.append(Question(text, LIMIT, whole))
        assert len({each.whole.data for each in alone}) == len(TEXTS)

        def question(number: int) -> Question:
            return alone[number % len(TEXTS)]

        await Hardship(service, device, "smollm2", question).run()
        await every_sequence_is_free(device, alone[0])
    assert not service.process.lines("critical")


@asynchronous
async def test_a_long_answer_streamed_and_read_natively(service: Service) -> None:
    """One text, one usage."""
    text, limit = "Tell me a long story.", 200
    client = OpenAI(base_url=f"{service.url}/v1", api_key=service.token, max_retries=0)
    said, usage = "", None
    for chunk in client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": text}],
        max_tokens=limit,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    ):
        said += "".join(each.delta.content or "" for each in chunk.choices)
        usage = chunk.usage or usage

    async with peer(service.socket) as device:
        native: Any = await device.run(greedy(text, limit))

    assert usage is not None
    assert said == native.data.decode()
    assert len(said.split()) > 50
    assert usage.completion_tokens == native.sampled_tokens
    assert usage.prompt_tokens == native.prompt_tokens
