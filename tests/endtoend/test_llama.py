"""
The llama engine behind HTTP and the packet socket, its child killed under it.

Its model is made here: each byte is followed by one other, so the output of a request
follows from the last byte of its prompt, and one byte too many, too few or of another
request is seen. A format file lets the prompt end with what the caller said.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from openai import OpenAI

from tests.asynchronous import asynchronous
from tests.endtoend.conftest import GATEWAY_READY, Service
from tests.endtoend.hardship import (
    CAPACITY,
    Hardship,
    Question,
    every_sequence_is_free,
)
from tests.endtoend.peers import Result, greedy, peer
from tests.engines.llama.tiny import Tiny, successors
from tests.processes import COMPILE_PATIENCE, edit, make_state, twistd
from twisted_aotx.config.initial import REFERENCE_SEQUENCE_TOKENS
from twisted_aotx.wire.numbers import Finish, Phase

pytest.importorskip("xllamacpp", reason="the engine's library is not installed")

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: A step of all sequences takes some milliseconds.
LIMIT = 400
#: Each byte to another, all 256 in one round.
ROUND = {byte: (byte * 5 + 1) % 256 for byte in range(256)}
#: The device's capacities are those of the other tests: nothing is compiled anew.
SMALL = Tiny(context=REFERENCE_SEQUENCE_TOKENS, embedding=64, layers=1)
#: Spans that put the caller's last byte last.
FORMAT = {
    "system_head": "S:",
    "system_tail": "\n",
    "user_head": "U:",
    "user_tail": "",
    "assistant_head": "A:",
    "assistant_tail": "\n",
    "generation_head": "",
}


def expected(last: str, limit: int) -> bytes:
    """What follows a prompt that ends with *last*."""
    found = [ord(last)]
    while len(found) <= limit:
        found.append(ROUND[found[-1]])
    return bytes(found[1:])


def serve(folder: Path, model: Tiny, **options: Any) -> Iterator[Service]:
    state = make_state(folder, completions={"disconnect": "cancel"})
    path = model.write(folder / "model.gguf")
    engine = {
        "engine": "llama",
        "path": str(path),
        "capacity": CAPACITY,
        "threads": 1,
        **options,
    }
    edit(state / "runtime.json", models={"language": engine})
    with twistd(folder, "aotx", "--state", state) as process:
        process.wait_for(GATEWAY_READY, COMPILE_PATIENCE)
        yield Service(process, state)


@pytest.fixture
def rounds(tmp_path: Path) -> Iterator[Service]:
    """A service that says where in the round it is."""
    file = tmp_path / "format.json"
    file.write_text(json.dumps(FORMAT))
    model = attrs.evolve(SMALL, successors=ROUND, feed_forward=16384)
    yield from serve(tmp_path, model, format=str(file))


@asynchronous
async def test_64_requests_cancelled_left_and_killed_at_random(rounds: Service) -> None:
    """Every one ends as the tables allow, and no sequence is lost on the way."""

    def question(number: int) -> Question:
        last = chr(33 + number)
        limit = LIMIT // 2 + number * 7 % (LIMIT // 2)
        whole = Result(
            phase=Phase.COMPLETED,
            finish=Finish.LENGTH,
            failure_status=0,
            prompt_tokens=len("U:Count from x"),
            sampled_tokens=limit,
            data=expected(last, limit),
        )
        return Question(f"Count from {last}", limit, whole)

    async with peer(rounds.socket) as device:
        await Hardship(rounds, device, "reference", question).run()
        await every_sequence_is_free(device, question(0))
    assert not rounds.process.lines("critical")


# --- characters ----------------------------------------------------------------------

SAID = "é🦊日"


@pytest.fixture
def circle(tmp_path: Path) -> Iterator[Service]:
    """A service that says SAID, a byte a token, without an end."""
    table = successors(SAID.encode())
    table[SAID.encode()[-1]] = SAID.encode()[0]
    yield from serve(tmp_path, attrs.evolve(SMALL, successors=table))


@asynchronous
async def test_characters_in_pieces_arrive_whole(circle: Service) -> None:
    """Streamed through the SDK and read natively: one text, no U+FFFD in it."""
    limit = 40 * len(SAID.encode())
    client = OpenAI(base_url=f"{circle.url}/v1", api_key=circle.token, max_retries=0)

    def streamed(limit: int) -> tuple[str, Any]:
        text, usage = "", None
        for chunk in client.chat.completions.create(
            model="reference",
            messages=[{"role": "user", "content": "Say it."}],
            max_tokens=limit,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        ):
            text += "".join(each.delta.content or "" for each in chunk.choices)
            usage = chunk.usage or usage
        return text, usage

    text, usage = streamed(limit)
    async with peer(circle.socket) as device:
        native = await device.run(greedy("Say it.", limit))
        # A limit within a character.
        cut = await device.run(greedy("Say it.", limit + 1))

    assert text == SAID * 40 == native.data.decode()
    assert usage.completion_tokens == native.sampled_tokens == limit
    assert usage.prompt_tokens == native.prompt_tokens
    assert cut.data == native.data + SAID.encode()[:1]
    # Only what the model has left unfinished is replaced, at the end [D18].
    assert streamed(limit + 1)[0] == SAID * 40 + "\ufffd"
