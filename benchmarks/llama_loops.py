"""
Two ways to run a model without us in between, each in a process of its own:

    python -m benchmarks.llama_loops direct MODEL CAPACITY CONTEXT THREADS
    python -m benchmarks.llama_loops server MODEL CAPACITY CONTEXT THREADS

`direct` calls the engine's own batching loop; `server` is the wheel's Server class, the
way of llama-server. Each line of JSON on standard input, {"texts": [...], "tokens": n},
is one round: all texts at once, greedy. A line of JSON on standard output answers it:
{"tokens": n, "seconds": s, "first": s}, where `first` is the first text's first token.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from twisted_aotx.engines.formats import CHATML
from twisted_aotx.engines.llama import binding
from twisted_aotx.engines.llama.batch import BatchEngine
from twisted_aotx.engines.llama.maker import PREFILL_ROWS
from twisted_aotx.engines.llama.model import Model
from twisted_aotx.testing.engines import sample_order
from twisted_aotx.wire.numbers import Finish

#: SmolLM2's, and that of small models made for tests as far as it matters.
FORMAT = attrs.evolve(CHATML, think_open=b"", think_close=b"")

Round = Callable[[list[str], int], dict[str, float]]


def direct(path: str, capacity: int, context: int, threads: int) -> Round:
    """The engine's loop: tokenised, attached and stepped in this thread."""
    library = binding.load()
    model = Model(library, path.encode(), stop=FORMAT.assistant_tail)
    engine = BatchEngine(
        library,
        model,
        capacity=capacity,
        context=context,
        threads=threads,
        prefill_rows=PREFILL_ROWS,
    )
    rounds = 0

    def run(texts: list[str], tokens: int) -> dict[str, float]:
        nonlocal rounds
        rounds += 1
        start, first, count, left = time.perf_counter(), 0.0, 0, len(texts)
        for slot, text in enumerate(texts):
            order = sample_order(FORMAT, text.encode())
            begin, spans = 0, []
            for end, span_class in order.spans:
                spans.append((span_class, order.rendered[begin:end]))
                begin = end
            prompt = model.prompt(spans)
            greedy: dict[str, Any] = {"temperature": 0.0, "top_p": 1.0, "seed": 0}
            engine.attach(slot, rounds, prompt, limit=tokens, **greedy)
        while left:
            for each in engine.step():
                count += 1
                left -= each.finish != Finish.NONE
                if each.slot == 0 and not first:
                    first = time.perf_counter() - start
        return {
            "tokens": count,
            "seconds": time.perf_counter() - start,
            "first": first,
        }

    return run


def server(path: str, capacity: int, context: int, threads: int) -> Round:
    """The wheel's server: a thread for each text."""
    import xllamacpp  # type: ignore[import-untyped]  # it ships no types

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_parallel = capacity
    params.n_ctx = capacity * context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.port = 0
    running = xllamacpp.Server(params)

    def run(texts: list[str], tokens: int) -> dict[str, float]:
        start = time.perf_counter()
        first = [0.0] * len(texts)
        counts = [0] * len(texts)

        def ask(index: int) -> None:
            def take(chunk: Any) -> bool:
                value = json.loads(chunk) if isinstance(chunk, str | bytes) else chunk
                for choice in value.get("choices", ()):
                    if choice["delta"].get("content") and not first[index]:
                        first[index] = time.perf_counter() - start
                usage = value.get("usage") or {}
                counts[index] = usage.get("completion_tokens", counts[index])
                return False

            body = {
                "messages": [{"role": "user", "content": texts[index]}],
                "max_tokens": tokens,
                "temperature": 0,
                "stream": True,
                "stream_options": {"include_usage": True},
                "cache_prompt": False,
            }
            running.handle_chat_completions(body, take)

        threads = [
            threading.Thread(target=ask, args=(index,)) for index in range(len(texts))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {
            "tokens": sum(counts),
            "seconds": time.perf_counter() - start,
            "first": first[0],
        }

    return run


def main() -> None:
    """Serve rounds until standard input ends."""
    # What the library prints is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    kind, path, *sizes = sys.argv[1:]
    make = {"direct": direct, "server": server}[kind]
    capacity, context, threads = map(int, sizes)
    run = make(str(Path(path).absolute()), capacity, context, threads)
    for line in sys.stdin:
        asked = json.loads(line)
        answers.write(json.dumps(run(asked["texts"], asked["tokens"])) + "\n")
        answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
