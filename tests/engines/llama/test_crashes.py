"""
Children that die, hang or cannot load: leases end, the role is inactive, and the next
child serves again (`device.md` §10, engine lost).
"""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from twisted.logger import LogLevel, capturedLogs

from tests.asynchronous import asynchronous, asynchronous_fixture
from tests.engines.llama.conftest import Make
from tests.engines.llama.served import SLOW, Served, made, pause, until
from tests.engines.llama.tiny import Tiny
from twisted_aotx.engines.llama import engine as engine_module
from twisted_aotx.engines.llama.binding import Library
from twisted_aotx.engines.llama.process import Patience
from twisted_aotx.errors import EngineError

pytestmark = pytest.mark.slow

#: Short, for children that do not answer; a busy machine has to keep up with it.
HASTY = Patience(ping_seconds=0.2, silent_pings=8, step_pings=8)


@pytest.fixture(autouse=True)
def quick_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "RESTART_SECONDS", 0.05)


@pytest.fixture
def model_file(library: Library, tiny: Make, tmp_path: Path) -> Path:
    """A copy, to be damaged."""
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny(SLOW).read_bytes())
    return path


@asynchronous_fixture
async def served(model_file: Path) -> AsyncIterator[Served]:
    engine = made(model_file, HASTY)
    await engine.start()
    yield engine
    await engine.close()


async def lost(served: Served, times: int = 1) -> str:
    """Wait for the host to be told; the reason."""
    await until(lambda: len(reasons(served)) == times, "a loss")
    return reasons(served)[-1]


async def back(served: Served, times: int = 1) -> None:
    await until(lambda: served.host.said.count(None) == times, "the return")


def reasons(served: Served) -> list[str]:
    return [each for each in served.host.said if each is not None]


async def serves(served: Served, generation: int) -> None:
    lease = await served.answer(generation=generation, limit=5)
    assert (lease.sampled_tokens, lease.fault) == (5, None)


@pytest.fixture
def errors() -> Iterator[list[str]]:
    """What was logged as an error, filled in when a test looks."""
    found: list[str] = []
    with capturedLogs() as events:

        class Errors(list[str]):
            def __iter__(self) -> Iterator[str]:
                return (
                    str(event.get("why", event.get("reason", event)))
                    for event in events
                    if event["log_level"] >= LogLevel.error
                )

        yield Errors(found)


@asynchronous
async def test_killed_in_the_middle_of_answers(served: Served) -> None:
    leases = [served.open(slot=slot, limit=900) for slot in (1, 2, 3)]
    await until(lambda: all(lease.sampled_tokens for lease in leases), "emissions")
    pid = served.pid
    served.kill(signal.SIGKILL)

    reason = await lost(served)

    assert reason.endswith("model.gguf: its process was ended by SIGKILL")
    said = [lease.sampled_tokens for lease in leases]
    await back(served)
    assert served.pid != pid
    await serves(served, 2)
    # Nobody speaks for the leases of before: the device has ended them.
    assert [lease.sampled_tokens for lease in leases] == said


@asynchronous
async def test_killed_while_idle_and_again_while_the_next_one_loads(
    served: Served,
) -> None:
    served.kill(signal.SIGKILL)
    await lost(served)
    for _ in range(2):
        await until(lambda: served.engine._child is not None, "the next child")
        served.kill(signal.SIGKILL)
        await until(lambda: served.engine._child is None, "its end")

    await back(served)

    assert len(reasons(served)) == 1
    await serves(served, 1)


@asynchronous
async def test_leases_that_come_while_it_is_lost_are_the_devices(
    served: Served,
) -> None:
    served.kill(signal.SIGKILL)
    await lost(served)
    lease = served.open()
    served.engine.stop(1, 1)

    await back(served)
    await serves(served, 2)

    assert lease.reports == []


@asynchronous
async def test_a_stopped_child_with_work_is_killed(served: Served) -> None:
    lease = served.open(limit=900)
    await until(lambda: lease.sampled_tokens, "an emission")
    pid = served.pid
    served.kill(signal.SIGSTOP)

    reason = await lost(served)

    assert reason.endswith("it has not answered for 1.6 s")
    await back(served)
    assert served.pid != pid
    await serves(served, 2)


@asynchronous
async def test_a_stopped_child_without_work_is_left_alone(served: Served) -> None:
    """Until there is some: then it counts from there."""
    await serves(served, 1)
    served.kill(signal.SIGSTOP)
    await pause(2.5)
    assert served.host.said == []
    served.kill(signal.SIGCONT)
    await serves(served, 2)

    served.kill(signal.SIGSTOP)
    await pause(0.1)
    served.open(generation=3)
    await lost(served)


@asynchronous
async def test_a_child_that_is_stopped_for_a_moment_goes_on(served: Served) -> None:
    lease = served.open(limit=400)
    await until(lambda: lease.sampled_tokens, "an emission")
    served.kill(signal.SIGSTOP)
    await pause(0.2)
    served.kill(signal.SIGCONT)

    await until(lambda: lease.sampled_tokens == 400, "the end")

    assert served.host.said == []


@asynchronous
async def test_a_file_cut_while_it_is_served_and_put_back(
    served: Served, model_file: Path, errors: list[str]
) -> None:
    """The weights are mapped, so what is missing ends the child."""
    whole = model_file.read_bytes()
    os.truncate(model_file, 4096)
    served.open(limit=900)

    reason = await lost(served)
    assert "ended by SIGBUS" in reason
    await until(lambda: any("another model" in each for each in errors), "a refusal")
    assert served.host.said.count(None) == 0

    model_file.unlink()
    await until(lambda: any("No such file" in each for each in errors), "a refusal")
    model_file.write_bytes(whole)
    await back(served)
    await serves(served, 2)


@asynchronous
async def test_another_model_in_its_place_is_not_served(
    served: Served, model_file: Path, errors: list[str], tmp_path: Path
) -> None:
    """Facts are constant: queued requests were admitted for the old digest."""
    old = model_file.read_bytes()
    Tiny(seed=9).write(tmp_path / "new.gguf").replace(model_file)
    served.kill(signal.SIGKILL)
    await lost(served)
    await until(lambda: any("another model" in each for each in errors), "a refusal")
    assert served.host.said.count(None) == 0

    (tmp_path / "old.gguf").write_bytes(old)
    (tmp_path / "old.gguf").replace(model_file)
    await back(served)
    await serves(served, 1)


@asynchronous
async def test_no_memory_for_the_model(library: Library, tiny: Make) -> None:
    """A limit that holds Python and the library, but not a GiB of KV cache."""
    served = made(tiny(Tiny(embedding=512, context=2**17)), capacity=2, context=2**17)
    limit = 7 << 27
    starting = served.engine.start(served.host)
    resource.prlimit(served.pid, resource.RLIMIT_AS, (limit, limit))
    with pytest.raises(EngineError, match=r"cannot make a context: .*alloc"):
        await starting
    await served.close()


@asynchronous
async def test_no_memory_for_the_next_child(served: Served, errors: list[str]) -> None:
    """It is tried again until there is some."""
    served.kill(signal.SIGKILL)
    await lost(served)
    for _ in range(2):
        await until(lambda: served.engine._child is not None, "the next child")
        resource.prlimit(served.pid, resource.RLIMIT_AS, (1 << 26, 1 << 26))
        await until(lambda: served.engine._child is None, "its end")
    told = re.compile("memory|process ended|cannot be loaded")
    assert any(map(told.search, errors)), list(errors)

    await back(served)
    await serves(served, 1)


def odd(
    monkeypatch: pytest.MonkeyPatch, tiny: Make, oddity: str, patience: Patience = HASTY
) -> Served:
    monkeypatch.setattr(engine_module, "CHILD_MODULE", "tests.engines.llama.odd_child")
    monkeypatch.setenv("AOTX_ODD_CHILD", oddity)
    return made(tiny(Tiny()), patience)


@pytest.mark.parametrize(
    ("oddity", "reason"),
    [
        ("nonsense", r"it spoke nonsense: no frame: \d+ bytes of kind"),
        ("broken", "its process ended with exit code 3: ggml: cannot go on$"),
        ("mute", "it did not load within 1 s"),
    ],
)
@asynchronous
async def test_a_start_that_goes_wrong_says_why(
    monkeypatch: pytest.MonkeyPatch, tiny: Make, oddity: str, reason: str
) -> None:
    served = odd(monkeypatch, tiny, oddity, Patience(start_seconds=1.0))

    with pytest.raises(EngineError, match=reason):
        await served.start()
    await served.close()


@asynchronous
async def test_no_process_can_be_started(
    monkeypatch: pytest.MonkeyPatch, tiny: Make
) -> None:
    served = made(tiny(Tiny()))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    with pytest.raises(EngineError, match=r"no process can be started|exit code"):
        await served.start()
    await served.close()


@asynchronous
async def test_a_step_that_never_ends(
    monkeypatch: pytest.MonkeyPatch, tiny: Make
) -> None:
    """It answers pings, but nothing moves."""
    served = odd(monkeypatch, tiny, "stuck")
    await served.start()
    served.open()

    assert (await lost(served)).endswith("it has not moved for 1.6 s")
    await served.close()


@asynchronous
async def test_a_frame_that_is_not_for_the_runtime(
    monkeypatch: pytest.MonkeyPatch, tiny: Make
) -> None:
    served = odd(monkeypatch, tiny, "garbled")
    await served.start()
    served.open()

    assert (await lost(served)).endswith("it spoke nonsense: Ping")
    await served.close()


@asynchronous
async def test_pauses_double_until_it_serves_for_a_while(
    monkeypatch: pytest.MonkeyPatch, served: Served
) -> None:
    monkeypatch.setattr(engine_module, "RESTART_SECONDS_MAX", 0.15)
    pauses = []
    for times in (1, 2, 3):
        pauses.append(served.engine._pause)
        served.kill(signal.SIGKILL)
        await lost(served, times)
        await back(served, times)
    assert pauses == [0.05, 0.1, 0.15]

    monkeypatch.setattr(engine_module, "STEADY_SECONDS", 0.0)
    served.kill(signal.SIGKILL)
    await lost(served, 4)
    await back(served, 4)
    assert served.engine._pause == 0.1
