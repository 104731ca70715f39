"""
A llama engine as the runtime uses it: leases served by a child process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from twisted.internet.defer import CancelledError
from zope.interface.verify import verifyObject

from tests.asynchronous import asynchronous, asynchronous_fixture
from tests.engines.llama.batches import driven
from tests.engines.llama.conftest import Make
from tests.engines.llama.served import (
    SEQUENCE_TOKENS,
    SLOW,
    Served,
    is_over,
    is_running,
    made,
    pause,
    until,
)
from tests.engines.llama.tiny import Tiny, successors
from twisted_aotx.device.numbers import Event
from twisted_aotx.engines.llama.binding import Library
from twisted_aotx.engines.llama.model import Model
from twisted_aotx.errors import EngineError
from twisted_aotx.interfaces import IEngine
from twisted_aotx.wire.numbers import Finish, Status

SAID = "é🦊日".encode()


@asynchronous_fixture
async def served(library: Library, tiny: Make) -> AsyncIterator[Served]:
    engine = made(tiny(Tiny()))
    await engine.start()
    yield engine
    await engine.close()


@asynchronous_fixture
async def slow(library: Library, tiny: Make) -> AsyncIterator[Served]:
    engine = made(tiny(SLOW))
    await engine.start()
    yield engine
    await engine.close()


@asynchronous
async def test_an_answer_is_exact_in_bytes_and_tokens(
    library: Library, tiny: Make
) -> None:
    served = made(tiny(Tiny(successors=successors(SAID))))
    await served.start()

    lease = await served.answer("Grüße".encode(), limit=50)

    assert lease.reports[0] == (Event.OPENED, len("user\nGrüße\nassistant\n") + 5, b"")
    pieces = [data for kind, _, data in lease.reports if kind == Event.EMIT]
    assert pieces == [bytes([byte]) for byte in SAID] + [b""]
    assert lease.sampled_tokens == len(SAID) + 1
    assert lease.reports[-1] == (Event.DONE, Finish.STOP, b"")
    assert lease.fault is None
    await served.close()


@asynchronous
async def test_leases_side_by_side_say_what_each_says_alone(
    served: Served, library: Library, tiny: Make
) -> None:
    """Beside the batching loop in this process: nothing is lost on the way."""
    model = Model(library, bytes(tiny(Tiny())))
    alone = driven(library, model)
    texts = [b"one", b"two, longer", b"three " * 30, b"4"] * 2

    leases = [
        served.open(text, slot=slot, limit=60) for slot, text in enumerate(texts, 1)
    ]
    await until(lambda: all(map(is_over, leases)), "the end of all leases")

    for slot, lease in enumerate(leases, 1):
        order, start, spans = lease.order, 0, []
        for end, span_class in order.spans:
            spans.append((span_class, order.rendered[start:end]))
            start = end
        answer = alone.answer(slot, model.prompt(spans), limit=60)
        assert lease.output == answer.data
        assert (lease.sampled_tokens, lease.fault) == (answer.tokens, None)
        assert lease.reports[0][1] == len(model.prompt(spans))


@asynchronous
async def test_a_stopped_lease_is_silent_and_its_slot_serves_the_next(
    slow: Served,
) -> None:
    first = slow.open(limit=900)
    other = slow.open(b"other", slot=2, limit=50)
    await until(lambda: first.sampled_tokens > 3, "an emission")

    slow.engine.stop(1, 1)
    said = first.output
    second = slow.open(generation=2, limit=20)
    await until(lambda: is_over(second) and is_over(other), "the end")

    assert first.output == said
    assert not is_over(first)
    assert second.sampled_tokens == 20
    assert first.output[:20].startswith(second.output[: len(said)])
    assert other.sampled_tokens == 50


@asynchronous
async def test_leases_stopped_at_once_leave_every_sequence_free(slow: Served) -> None:
    """Cancelled before, in and after their prompts, again and again."""
    for generation in range(1, 40):
        for slot in range(1, 9):
            slow.open(b"x" * (slot * 40), slot=slot, generation=generation, limit=300)
        await pause(0.002 * (generation % 5))
        for slot in range(1, 9):
            slow.engine.stop(slot, generation)

    leases = [slow.open(slot=slot, generation=99, limit=5) for slot in range(1, 9)]
    await until(lambda: all(map(is_over, leases)), "the end of all leases")

    assert {lease.sampled_tokens for lease in leases} == {5}
    assert slow.host.said == []


@asynchronous
async def test_a_prompt_that_does_not_fit_is_refused(served: Served) -> None:
    """`device.md` §9, Tokens [D8]: what the child cannot hold either."""
    empty = await served.answer(b"", limit=1)
    room = SEQUENCE_TOKENS - empty.reports[0][1] - 1

    lease = await served.answer(b"x" * room, limit=1)
    assert lease.reports[0] == (Event.OPENED, SEQUENCE_TOKENS - 1, b"")
    assert lease.reports[-1] == (Event.DONE, Finish.LENGTH, b"")
    for size, limit in ((room, 2), (room + 1, 1)):
        lease = await served.answer(b"x" * size, limit=limit)
        assert lease.reports == [(Event.REFUSED, Status.INVALID, b"")]


@asynchronous
async def test_signals_that_stop_a_service_do_not_stop_a_child(served: Served) -> None:
    """They reach every process of a group; the child ends with its runtime."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        served.kill(number)

    lease = await served.answer(limit=5)

    assert lease.sampled_tokens == 5
    assert served.host.said == []


@asynchronous
async def test_closing_ends_the_child(served: Served) -> None:
    """Also in the middle of an answer; nothing is reported as lost."""
    lease, pid = served.open(limit=1000), served.pid
    await until(lambda: lease.sampled_tokens, "an emission")

    await served.close()

    assert not is_running(pid)
    assert served.host.said == []


@asynchronous
async def test_closing_ends_a_child_that_is_stopped(served: Served) -> None:
    pid = served.pid
    os.kill(pid, signal.SIGSTOP)

    await served.close()

    assert not is_running(pid)


@asynchronous
async def test_a_close_while_it_loads(library: Library, tiny: Make) -> None:
    served = made(tiny(Tiny()))
    starting = served.engine.start(served.host)
    pid = served.pid

    await served.close()

    with pytest.raises(CancelledError):
        await starting
    assert not is_running(pid)


@asynchronous
async def test_a_cut_file_fails_the_start_with_the_reason(
    library: Library, tiny: Make, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny(Tiny()).read_bytes())
    served = made(path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 4000)

    with pytest.raises(EngineError, match=r"model\.gguf: llama\.cpp cannot load it: "):
        await served.start()

    await served.close()
    assert served.host.said == []


@asynchronous
async def test_a_file_replaced_while_it_loads_is_not_served(
    library: Library, tiny: Make, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny(Tiny()).read_bytes())
    served = made(path)
    other = Tiny(seed=2).write(tmp_path / "other.gguf")
    other.replace(path)

    with pytest.raises(EngineError, match="its file changed while it was loaded"):
        await served.start()
    await served.close()


def test_it_is_an_engine(library: Library, tiny: Make) -> None:
    assert verifyObject(IEngine, made(tiny(Tiny())).engine)


def test_a_child_of_a_killed_runtime_ends(library: Library, tiny: Make) -> None:
    """Also one that is stopped and cannot see that its input ended."""
    for stops in ("", "os.kill(served.pid, signal.SIGSTOP)"):
        program = f"""
import os, signal, sys
from pathlib import Path
from twisted.internet import reactor
from tests.engines.llama.served import made
served = made(Path({str(tiny(Tiny()))!r}))
def started(_):
    {stops}
    sys.stdout.write(str(served.pid))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
served.engine.start(served.host).addCallback(started)
reactor.run()
"""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            stdout=subprocess.PIPE,
            timeout=60,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL
        pid = int(done.stdout)
        for _ in range(1000):
            if not is_running(pid):
                break
            time.sleep(0.01)
        assert not is_running(pid)


def test_the_child_imports_neither_twisted_nor_numba() -> None:
    """It starts in a moment and holds the model, not the runtime."""
    names = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys, twisted_aotx.engines.llama.child; print(*sys.modules)",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.split()

    roots = {name.split(".")[0] for name in names}
    assert not roots & {"twisted", "numba", "numpy", "jinja2", "xllamacpp"}


@asynchronous
async def test_the_childs_threads_soon_sleep(served: Served) -> None:
    """And a failed assertion of C code calls no debugger."""
    variables = Path(f"/proc/{served.pid}/environ").read_bytes().split(b"\0")

    assert b"OMP_WAIT_POLICY=passive" in variables
    assert b"GOMP_SPINCOUNT=300" in variables
    assert b"GGML_NO_BACKTRACE=1" in variables
