"""
The child process of a `llama` engine: `python -m twisted_aotx.engines.llama.child`.

It loads one model, serves the frames of `messages` on standard input and output, and
ends when its input does, so that it never outlives the runtime. Signals that stop a
service are for the runtime, so it ignores them. What C code prints goes to standard
error.

Two threads. The reader takes frames: it tokenises prompts, answers pings at once, and
interrupts a step for a cancelled prompt. The main thread loads and steps, and takes
what the reader has put down between two steps.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from types import TracebackType
from typing import Final, NoReturn

from twisted_aotx.engines.llama import binding
from twisted_aotx.engines.llama.batch import BatchEngine
from twisted_aotx.engines.llama.frames import FrameReader
from twisted_aotx.engines.llama.messages import (
    Broken,
    Done,
    Emit,
    FrameError,
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
from twisted_aotx.engines.llama.model import Model, ModelError
from twisted_aotx.wire.numbers import Finish, Status

#: Bytes read at once.
_READ_BYTES: Final = 1 << 16
#: prctl's number for the signal that comes when the parent ends.
_PR_SET_PDEATHSIG: Final = 1
_IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Child:
    """
    Both threads' shared state.

    Args:
        source, sink: Descriptors of the frames, both blocking.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._writing = threading.Lock()
        self._arrived = threading.Condition()
        #: What the main thread has to do, in order; a prompt comes with its tokens.
        self._work: deque[Load | tuple[Open, list[int]] | Stop] = deque()
        #: Set once, before `Ready` is sent.
        self._model: Model | None = None
        self._engine: BatchEngine | None = None

    def run(self) -> NoReturn:
        """Serve until the input ends."""
        threading.Thread(target=self._read, name="reader", daemon=True).start()
        try:
            self._serve()
        except (binding.BindingError, ModelError) as error:
            self._send(Broken(str(error).encode()))
            os._exit(1)

    # --- the main thread ---------------------------------------------------------

    def _serve(self) -> NoReturn:
        engine = self._load()
        while True:
            for item in self._take(wait=engine.is_idle):
                if isinstance(item, Stop):
                    engine.release(item.slot, item.generation)
                elif isinstance(item, tuple):
                    self._attach(engine, *item)
            frames: list[Message] = []
            for each in engine.step():
                name = (each.slot, each.generation)
                frames.append(Emit(*name, 1, each.data))
                if each.finish != Finish.NONE:
                    frames.append(Done(*name, each.finish))
            self._send(*frames)

    def _load(self) -> BatchEngine:
        """Wait for `Load`, do it, and say so."""
        load = next(iter(self._take(wait=True)))
        if not isinstance(load, Load):
            raise ModelError("the first frame was not Load")
        began = time.monotonic()
        library = binding.load()
        self._model = Model(
            library, load.path, gpu_layers=load.gpu_layers, stop=load.stop
        )
        self._engine = BatchEngine(
            library,
            self._model,
            capacity=load.capacity,
            context=load.context,
            threads=load.threads,
            prefill_rows=load.prefill_rows,
        )
        load_ms = round((time.monotonic() - began) * 1000)
        self._send(Ready(self._engine.context_tokens, load_ms))
        return self._engine

    def _attach(self, engine: BatchEngine, order: Open, tokens: list[int]) -> None:
        done = engine.attach(
            order.slot,
            order.generation,
            tokens,
            limit=order.limit,
            temperature=order.temperature,
            top_p=order.top_p,
            seed=order.seed,
        )
        if not done:
            raise ModelError(f"more leases than sequences, or slot {order.slot} twice")

    def _take(self, *, wait: bool) -> list[Load | tuple[Open, list[int]] | Stop]:
        """All that is there; if there is nothing and *wait*, wait for something."""
        with self._arrived:
            while wait and not self._work:
                self._arrived.wait()
            items = list(self._work)
            self._work.clear()
        return items

    # --- the reader ----------------------------------------------------------------

    def _read(self) -> NoReturn:
        reader = FrameReader()
        try:
            while data := os.read(self._source, _READ_BYTES):
                for message in reader.feed(data):
                    self._handle(message)
        except (FrameError, ModelError) as error:
            self._send(Broken(str(error).encode()))
            os._exit(1)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)

    def _handle(self, message: Message) -> None:
        match message:
            case Ping():
                progress = self._engine.progress if self._engine else 0
                self._send(Pong(message.number, progress))
            case Open():
                self._tokenize(message)
            case Stop():
                self._put(message)
                if self._engine is not None:
                    self._engine.interrupt(message.slot, message.generation)
            case Load():
                self._put(message)
            case _:
                raise FrameError(f"{type(message).__name__} is not for a child")

    def _tokenize(self, order: Open) -> None:
        if self._model is None or self._engine is None:
            raise FrameError("Open came before Ready")
        tokens = self._model.prompt(order.spans)
        if not 1 <= len(tokens) <= self._engine.context_tokens - order.limit:
            self._send(Refused(order.slot, order.generation, Status.INVALID))
            return
        self._send(Opened(order.slot, order.generation, len(tokens)))
        self._put((order, tokens))

    def _put(self, item: Load | tuple[Open, list[int]] | Stop) -> None:
        with self._arrived:
            self._work.append(item)
            self._arrived.notify()

    # --- both ------------------------------------------------------------------------

    def _send(self, *messages: Message) -> None:
        """Write whole frames, in order; the other side is gone if that fails."""
        data = b"".join(message.pack() for message in messages)
        with self._writing:
            while data:
                try:
                    data = data[os.write(self._sink, data) :]
                except OSError:
                    os._exit(0)


def print_fault(
    kind: type[BaseException], error: BaseException, at: TracebackType | None
) -> None:
    """
    Tell an error that ends this process by its place and class: its text may quote a
    prompt, and the last line that is printed goes to the runtime's log.
    """
    traceback.print_tb(at)
    sys.stderr.write(f"{kind.__qualname__}\n")


def main() -> NoReturn:
    """Serve standard input and output."""
    sys.excepthook = print_fault
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # A child that is stopped would not see its input end.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    sink = os.dup(1)
    os.dup2(2, 1)
    Child(0, sink).run()


if __name__ == "__main__":
    main()
