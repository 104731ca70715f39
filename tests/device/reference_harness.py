"""
The reference model's kernels alone: a region D with nothing but their fields.

Runs compiled, as plain Python (NUMBA_DISABLE_JIT=1) and in the CUDA simulator (that and
NUMBA_ENABLE_CUDASIM=1); `python -m tests.device.reference_harness` prints what a fixed
list of requests gives on the target that the environment chooses.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numba import cuda, njit

from twisted_aotx.device import reference
from twisted_aotx.limits import Capacities

CORPUS = (
    Path(reference.__file__).parent.parent / "engines" / "corpus.txt"
).read_bytes()

_PLAIN = os.environ.get("NUMBA_DISABLE_JIT") == "1"
_SIMULATOR = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


@njit(nogil=True)
def _load(
    A: Any,
    role: Any,
    corpus: Any,
    n: Any,
    rate: Any,
    fixed: Any,
    n_fixed: Any,
    result: Any,
) -> None:
    result[0] = reference.ref_load_corpus(A[0], role, corpus, n, rate, fixed, n_fixed)


@njit(nogil=True)
def _open(
    A: Any,
    s: Any,
    role: Any,
    limit: Any,
    t: Any,
    p: Any,
    seed: Any,
    prompt: Any,
    n: Any,
    control: Any,
    dose: Any,
    result: Any,
) -> None:
    result[0] = reference.ref_open(A[0], s, role, 1, limit, t, p, seed, prompt, n)
    reference.ref_select(A[0], s, control, dose)


@njit(nogil=True)
def _step(A: Any, s: Any, now_ns: Any, out: Any, room: Any, result: Any) -> None:
    written, made, finish = reference.ref_step(A[0], s, now_ns, out, room)
    result[0] = written
    result[1] = made
    result[2] = finish
    result[3] = reference.ref_due_ns(A[0], s, now_ns)


def _launcher(kernel: Any) -> Any:
    if _SIMULATOR:
        return cuda.jit(kernel)[1, 1]
    return kernel


def f32_bits(value: float) -> int:
    """The bits of *value* as a 32-bit float."""
    return int(np.float32(value).view(np.uint32))


def _bytes_array(data: bytes) -> Any:
    return np.frombuffer(data or b"\0", np.uint8).copy()


@attrs.define
class Sequences:
    """
    *slots* sequences of the kernel model.
    """

    slots: int = 4
    region: Any = attrs.field(init=False)
    _load: Any = attrs.field(init=False, factory=lambda: _launcher(_load))
    _open: Any = attrs.field(init=False, factory=lambda: _launcher(_open))
    _step: Any = attrs.field(init=False, factory=lambda: _launcher(_step))

    def __attrs_post_init__(self) -> None:
        fields = reference.reference_fields(Capacities(slots=self.slots))
        self.region = np.zeros(1, np.dtype(fields, align=True))
        if _PLAIN and not _SIMULATOR:
            self.region = self.region.view(np.recarray)

    def load(
        self, corpus: bytes, role: int = 2, rate: int = 0, fixed: bytes | None = None
    ) -> int:
        """`ref_load_corpus`; its status."""
        result = np.zeros(4, np.int64)
        size = -1 if fixed is None else len(fixed)
        self._load(
            self.region,
            role,
            _bytes_array(corpus),
            len(corpus),
            rate,
            _bytes_array(fixed or b""),
            size,
            result,
        )
        return int(result[0])

    def open(
        self,
        slot: int,
        prompt: bytes,
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 1,
        limit: int = 256,
        role: int = 2,
        control: int = -1,
        dose: int = 0,
    ) -> int:
        """`ref_open` and `ref_select`; the prompt's tokens."""
        result = np.zeros(4, np.int64)
        self._open(
            self.region,
            slot,
            role,
            limit,
            f32_bits(temperature),
            f32_bits(top_p),
            np.uint64(seed),
            _bytes_array(prompt),
            len(prompt),
            control,
            dose,
            result,
        )
        return int(result[0])

    def step(
        self, slot: int, now_ns: int = 0, room: int = 4096
    ) -> tuple[bytes, int, int]:
        """`ref_step`: the bytes, the tokens, the finish."""
        out = np.zeros(max(1, room), np.uint8)
        result = np.zeros(4, np.int64)
        self._step(self.region, slot, now_ns, out, room, result)
        return out[: result[0]].tobytes(), int(result[1]), int(result[2])

    def due_ns(self, slot: int, now_ns: int) -> int:
        """`ref_due_ns`."""
        result = np.zeros(4, np.int64)
        self._step(self.region, slot, now_ns, np.zeros(1, np.uint8), 0, result)
        return int(result[3])

    def run(self, slot: int, now_ns: int = 0) -> tuple[bytes, int, int]:
        """Step until the sequence of *slot* ends."""
        output, tokens = b"", 0
        while True:
            data, made, finish = self.step(slot, now_ns)
            output += data
            tokens += made
            if finish:
                return output, tokens, finish
            assert made, "a sequence without a rate stood still"

    def generate(self, prompt: bytes, **options: Any) -> tuple[bytes, int, int]:
        """Open slot 1 and run it to its end."""
        self.open(1, prompt, **options)
        return self.run(1)


def main() -> None:
    """Write outputs and the region's digest to standard output, as JSON."""
    corpus = CORPUS[:1500]
    sequences = Sequences()
    sequences.load(corpus)
    sequences.load(corpus, role=3, fixed=bytes(range(256)))
    outputs = []
    for index, (temperature, top_p) in enumerate(
        ((0, 1), (0.7, 0.9), (2, 1), (1, 0.2))
    ):
        outputs.append(
            sequences.generate(
                b"prompt %d" % index,
                temperature=temperature,
                top_p=top_p,
                seed=2**64 - 1 - index,
                limit=130,
            )
        )
    sequences.open(2, b"fixed", role=3, limit=300)
    outputs.append(sequences.run(2))
    region = hashlib.sha256(sequences.region.tobytes()).hexdigest()
    shown = [(data.hex(), tokens, finish) for data, tokens, finish in outputs]
    sys.stdout.write(json.dumps({"outputs": shown, "region": region}))


if __name__ == "__main__":
    main()
