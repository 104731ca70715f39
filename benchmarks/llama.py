"""
The llama engine: tokens per second through HTTP, beside the same batching loop called
directly and beside the wheel's own server; and the time that we add to a first token.

All of them run, and are asked in turns, so that a busy machine is busy for all.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO
from urllib.parse import urlsplit

import attrs
import psutil  # type: ignore[import-untyped]  # it ships no types

from benchmarks.http import Target, keep_busy
from benchmarks.table import Row, Samples
from tests.engines.llama.tiny import Tiny
from tests.processes import (
    COMPILE_PATIENCE,
    address,
    edit,
    environment,
    free_port,
    twistd,
)
from twisted_aotx.config.initial import (
    LLAMA_SEQUENCE_TOKENS,
    First,
    make_state_directory,
)
from twisted_aotx.engines.digest import models_directory
from twisted_aotx.engines.llama.environment import child_environment
from twisted_aotx.engines.model_file import read_model_file
from twisted_aotx.models.catalogue import MODELS
from twisted_aotx.models.first import first_for

PARALLEL = (1, 4, 8, 16)
CAPACITY = 16
#: Tokens of each answer, and how often each figure is taken.
TOKENS, ROUNDS = 64, 5
#: Between two rounds.
REST_SECONDS = 0.5
#: Samples of a first token, of a real model and of one that takes no time.
FIRST_TOKENS, FIRST_TOKENS_TINY = 20, 200
#: Seconds that one round may take.
PATIENCE = 300.0


@attrs.frozen
class Round:
    """
    What one round gave.
    """

    tokens: int
    seconds: float
    #: Seconds to the first text's first token.
    first: float


Ask = Callable[[list[str], int], Round]


@attrs.frozen
class Way:
    """
    One way to have texts answered, and the process that does it.
    """

    ask: Ask
    pid: int

    @property
    def cpu(self) -> float:
        """Seconds of all cores that it has used, its children included."""
        process = psutil.Process(self.pid)
        family = [process, *process.children(recursive=True)]
        times = [each.cpu_times() for each in family]
        return float(sum(each.user + each.system for each in times))


@contextmanager
def loop(kind: str, path: Path, threads: int) -> Iterator[Way]:
    """A process of `llama_loops`, with the environment that our child gets."""
    sizes = map(str, (CAPACITY, LLAMA_SEQUENCE_TOKENS, threads))
    command = [sys.executable, "-m", "benchmarks.llama_loops", kind, str(path), *sizes]
    with subprocess.Popen(
        command,
        env={**environment(), **child_environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as popen:
        asks, answers = popen.stdin, popen.stdout
        assert asks
        assert answers

        def ask(texts: list[str], tokens: int) -> Round:
            return _asked(asks, answers, texts, tokens)

        yield Way(ask, popen.pid)
        asks.close()


def _asked(asks: IO[str], answers: IO[str], texts: list[str], tokens: int) -> Round:
    asks.write(json.dumps({"texts": texts, "tokens": tokens}) + "\n")
    asks.flush()
    return Round(**json.loads(answers.readline()))


@contextmanager
def service(path: Path, threads: int) -> Iterator[Way]:
    """A service as `aotx init` makes it, with CAPACITY, asked over HTTP."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        first = First(host="127.0.0.1", port=free_port(), now=1)
        state = folder / "var"
        make_state_directory(state, first_for(first, path, read_model_file(path)))
        value = json.loads((state / "runtime.json").read_text())
        value["models"]["language"].update(capacity=CAPACITY, threads=threads)
        edit(state / "runtime.json", **value)
        model = json.loads((state / "gateway.json").read_text())["models"]
        with twistd(folder, "aotx", "--state", state) as process:
            process.wait_for("[aotx.gateway#info] ready", COMPILE_PATIENCE)
            place = urlsplit(address(state / "gateway.json"))
            assert place.hostname
            assert place.port
            where = (place.hostname, place.port)
            token = (state / "token").read_text().strip()

            def ask(texts: list[str], tokens: int) -> Round:
                return _streamed(where, token, next(iter(model)), texts, tokens)

            yield Way(ask, process.popen.pid)


def _streamed(
    where: tuple[str, int], token: str, model: str, texts: list[str], tokens: int
) -> Round:
    """All *texts* at once as streamed completions."""
    targets = [
        Target.make(
            where,
            "/v1/chat/completions",
            {"Authorization": f"Bearer {token}"},
            {
                "model": model,
                "messages": [{"role": "user", "content": text}],
                "max_tokens": tokens,
                "temperature": 0,
                "stream": True,
                "stream_options": {"include_usage": True},
            },
        )
        for text in texts
    ]
    received = [bytearray() for _ in texts]
    first = 0.0
    start = time.perf_counter()

    def receiver(index: int) -> Callable[[bytes], bool]:
        def receive(data: bytes) -> bool:
            nonlocal first
            received[index] += data
            # The first chunk has the role and empty text.
            if index == 0 and not first and _has_text(received[0]):
                first = time.perf_counter() - start
            return not data or b"data: [DONE]" in received[index][-64:]

        return receive

    connections = {
        target.connect(): receiver(index) for index, target in enumerate(targets)
    }
    keep_busy(connections, PATIENCE)
    seconds = time.perf_counter() - start
    for connection in connections:
        connection.close()
    return Round(sum(map(_usage, received)), seconds, first)


def _has_text(received: bytearray) -> bool:
    return received.count(b'"content":"') > received.count(b'"content":""')


def _usage(received: bytearray) -> int:
    """Completion tokens, from the chunk before the last."""
    _, found, rest = received.rpartition(b'"completion_tokens":')
    assert found, f"a stream without usage: {bytes(received[-200:])!r}"
    return int(rest.partition(b",")[0].partition(b"}")[0])


def _texts(count: int, turn: int) -> list[str]:
    """Different ones each time: nobody gets by with a cache."""
    return [f"Tell me a story about number {turn * 100 + n}." for n in range(count)]


def _throughput(ways: dict[str, Way]) -> list[Row]:
    """Tokens per second, the median of rounds in turns, and the CPU of one token."""
    rows = []
    for parallel in PARALLEL:
        rates: dict[str, list[float]] = {name: [] for name in ways}
        costs: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(ROUNDS):
            for name in random.sample(list(ways), len(ways)):
                # What one still tidies up is not the next one's.
                time.sleep(REST_SECONDS)
                before = ways[name].cpu
                found = ways[name].ask(_texts(parallel, turn), TOKENS)
                rates[name].append(found.tokens / found.seconds)
                costs[name].append((ways[name].cpu - before) / found.tokens)
        base = None
        for name, found_rates in rates.items():
            what = f"{name}, {parallel} at once"
            cost = statistics.median(costs[name]) * 1e3
            spread = f"{min(found_rates):.0f} to {max(found_rates):.0f}"
            note = f"{spread}; CPU of one: {cost:.1f} ms"
            row = Row(what, statistics.median(found_rates), "tokens/s", note, base)
            base = base or row
            rows.append(row)
    return rows


def _first_token(direct: Way, http: Way, count: int, what: str) -> list[Row]:
    """Milliseconds to a first token, in turns, and the difference of the medians."""
    samples: tuple[list[float], list[float]] = ([], [])
    for turn in range(count):
        for way, taken in zip((direct, http), samples, strict=True):
            taken.append(way.ask(_texts(1, turn), 2).first)
    own, ours = (Samples(taken) for taken in samples)
    base = Row(f"{what}, loop called directly", own.p50 * 1e3, "ms", _spread(own))
    return [
        base,
        Row(f"{what}, through HTTP", ours.p50 * 1e3, "ms", _spread(ours), base),
        Row(f"{what}, added by us", (ours.p50 - own.p50) * 1e3, "ms"),
    ]


def _spread(samples: Samples) -> str:
    return f"p99 {samples.p99 * 1e3:.1f}, {len(samples.seconds)} samples"


def measure() -> dict[str, list[Row]]:
    """Tables by title."""
    path = models_directory() / MODELS["smollm2"].file_name
    if not path.exists():
        raise SystemExit(f"there is no {path}: aotx model fetch smollm2")
    threads = len(os.sched_getaffinity(0))
    with ExitStack() as stack:
        direct = stack.enter_context(loop("direct", path, threads))
        http = stack.enter_context(service(path, threads))
        server = stack.enter_context(loop("server", path, threads))
        ways = {
            "loop called directly": direct,
            "through HTTP": http,
            "the wheel's server": server,
        }
        for way in ways.values():
            way.ask(_texts(CAPACITY, 99), 2)
        tokens = _throughput(ways)
        firsts = _first_token(direct, http, FIRST_TOKENS, "SmolLM2")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        # A model that takes a tenth of a millisecond leaves what is ours.
        tiny = Tiny(context=LLAMA_SEQUENCE_TOKENS).write(folder / "tiny.gguf")
        direct = stack.enter_context(loop("direct", tiny, 1))
        http = stack.enter_context(service(tiny, 1))
        for way in (direct, http):
            way.ask(_texts(1, 99), 2)
        firsts += _first_token(direct, http, FIRST_TOKENS_TINY, "a tiny model")
    return {
        f"Tokens per second, {TOKENS} tokens each, {threads} threads": tokens,
        "Time to the first token": firsts,
    }
