"""
Ticks of the CUDA backend beside those of the CPU; as a program: is there a card?
"""

from __future__ import annotations

import sys

import attrs

from benchmarks import device
from benchmarks.table import Row


def describe() -> str:
    """
    The card, for people.

    Raises:
        RuntimeError: there is none that numba can use; says why.
    """
    # numba-cuda is an extra.
    from numba import cuda

    if not cuda.is_available():
        reason = cuda.cuda_error() if hasattr(cuda, "cuda_error") else None
        raise RuntimeError(str(reason or "no usable NVIDIA GPU was found"))
    card = cuda.get_current_device()
    name = card.name.decode() if isinstance(card.name, bytes) else card.name
    major, minor = card.compute_capability
    return f"{name}, compute capability {major}.{minor}"


def measure() -> dict[str, list[Row]]:
    """Ticks on the card, each with its ratio to the same tick on the CPU."""
    rows = [
        attrs.evolve(there, base=attrs.evolve(here, what="CPU"))
        for here, there in zip(device.ticks("cpu"), device.ticks("cuda"), strict=True)
    ]
    return {f"Ticks on {describe()}": rows}


def main() -> None:
    """Exit 0 and name the card, or exit 1 and say why there is none."""
    try:
        sys.stdout.write(f"gpu-check: {describe()}\n")
    except Exception as error:
        reason = " ".join(str(error).split())
        sys.stderr.write(f"gpu-check: no usable card: {reason}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
