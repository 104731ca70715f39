"""
The child's program, spoken to in frames over its pipes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import attrs
import pytest

from tests.engines.llama.conftest import Make
from tests.engines.llama.tiny import Tiny
from twisted_aotx.engines.llama.binding import Library
from twisted_aotx.engines.llama.engine import CHILD_MODULE
from twisted_aotx.engines.llama.environment import child_environment
from twisted_aotx.engines.llama.frames import FrameReader
from twisted_aotx.engines.llama.messages import (
    Broken,
    Done,
    Emit,
    Load,
    Message,
    Open,
    Opened,
    Ping,
    Pong,
    Ready,
    Refused,
    Stop,
)
from twisted_aotx.wire.numbers import Finish, Status

#: Seconds that a child may take to end.
PATIENCE = 30.0


@attrs.define
class Spoken:
    """
    A child, and what it has said.
    """

    popen: subprocess.Popen[bytes]
    reader: FrameReader = attrs.field(factory=FrameReader)
    said: list[Message] = attrs.field(factory=list)

    def say(self, *messages: Message | bytes) -> None:
        assert self.popen.stdin
        for message in messages:
            data = message if isinstance(message, bytes) else message.pack()
            self.popen.stdin.write(data)
        self.popen.stdin.flush()

    def hear(self) -> Message:
        """The next message."""
        assert self.popen.stdout
        while not self.said:
            data = os.read(self.popen.stdout.fileno(), 65536)
            assert data, "it said no more"
            self.said += self.reader.feed(data)
        return self.said.pop(0)

    def end(self) -> int:
        """Its exit code, once its input has ended."""
        assert self.popen.stdin
        self.popen.stdin.close()
        return self.popen.wait(PATIENCE)


@pytest.fixture
def child(library: Library) -> Iterator[Spoken]:
    with subprocess.Popen(
        [sys.executable, "-P", "-m", CHILD_MODULE],
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as popen:
        yield Spoken(popen)
        popen.kill()


def load(tiny: Make, capacity: int = 2, context: int = 512) -> Load:
    return Load(capacity, context, 1, -1, 64, 0, bytes(tiny(Tiny())))


def order(slot: int, text: bytes, generation: int = 1, limit: int = 3) -> Open:
    prompt = Open.join(((len(text), 1),), text)
    return Open(slot, generation, limit, 0.0, 1.0, 0, 1, prompt)


def test_a_conversation(child: Spoken, tiny: Make) -> None:
    child.say(load(tiny))
    ready = child.hear()
    assert isinstance(ready, Ready)
    assert ready.context == 512

    child.say(order(7, b"hello"))
    assert child.hear() == Opened(7, 1, 5)
    for _ in range(3):
        emission = child.hear()
        assert isinstance(emission, Emit)
        assert (emission.slot, emission.generation, emission.tokens) == (7, 1, 1)
        assert len(emission.data) == 1
    assert child.hear() == Done(7, 1, Finish.LENGTH)
    assert child.end() == 0


def test_pings_are_answered_also_before_and_while_it_loads(
    child: Spoken, tiny: Make
) -> None:
    child.say(Ping(1))
    assert child.hear() == Pong(1, 0)
    child.say(load(tiny), Ping(2))

    heard = [child.hear(), child.hear()]

    assert Pong(2, 0) in heard
    assert any(isinstance(each, Ready) for each in heard)


def test_steps_show_in_pings(child: Spoken, tiny: Make) -> None:
    child.say(load(tiny), Ping(1))
    while not isinstance(child.hear(), Ready):
        pass
    child.say(order(1, b"hello"))
    while not isinstance(child.hear(), Done):
        pass
    child.say(Ping(2))

    # Three tokens, each of them a step that began and ended.
    assert child.hear() == Pong(2, 6)


def test_an_end_of_input_ends_it_at_once(child: Spoken, tiny: Make) -> None:
    child.say(load(tiny))
    child.hear()
    child.say(*(order(slot, b"x" * 200, limit=300) for slot in (1, 2)))

    assert child.end() == 0


def test_prompts_without_a_token_or_without_room_are_refused(
    child: Spoken, tiny: Make
) -> None:
    child.say(load(tiny, context=256))
    child.hear()
    child.say(order(1, b""), order(1, b"x" * 254), order(1, b"x" * 253, generation=2))

    assert child.hear() == Refused(1, 1, Status.INVALID)
    assert child.hear() == Refused(1, 1, Status.INVALID)
    assert child.hear() == Opened(1, 2, 253)


def test_a_stop_frees_the_sequence(child: Spoken, tiny: Make) -> None:
    """More leases one after the other than there are sequences at once."""
    child.say(load(tiny, capacity=1))
    child.hear()
    for generation in range(1, 20):
        child.say(order(1, b"hi", generation, limit=400), Stop(1, generation))
    child.say(order(1, b"hi", 99))
    while child.hear() != Done(1, 99, Finish.LENGTH):
        pass

    assert child.end() == 0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff" * 40, b"no frame"),
        (Pong(1, 1), b"Pong is not for a child"),
        (order(1, b"x"), b"Open came before Ready"),
        (Stop(1, 1), b"the first frame was not Load"),
        (Load(1, 512, 1, -1, 64, 0, b"/nowhere.gguf"), b"llama.cpp cannot load it"),
    ],
    ids=["garbage", "direction", "early", "order", "file"],
)
def test_what_it_cannot_do_is_told_before_it_ends(
    child: Spoken, data: Message | bytes, reason: bytes
) -> None:
    child.say(data)

    broken = child.hear()
    assert isinstance(broken, Broken)
    assert reason in broken.reason
    assert child.popen.wait(PATIENCE) == 1


def test_more_leases_than_sequences_are_a_fault(child: Spoken, tiny: Make) -> None:
    child.say(load(tiny, capacity=1))
    child.hear()
    child.say(order(1, b"hi", limit=400), order(2, b"hi", limit=400))

    while not isinstance(broken := child.hear(), Broken):
        pass
    assert b"more leases than sequences" in broken.reason
    assert child.popen.wait(PATIENCE) == 1
