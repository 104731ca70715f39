"""
Compiles every kernel to PTX for one architecture, without a card, and assembles it:
`python -m tests.device.ptx_report 9.0` writes what came of it as JSON.

One process serves one architecture: numba keeps device functions per signature alone.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.device.capacities import SMALL
from tests.device.offline import compile_ptx
from twisted_aotx.device import tables

_THREADS = re.compile(r"\.maxntid (\d+), 1, 1")
_RESULT = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers",
    re.DOTALL,
)


def find_ptxas() -> Path | None:
    """The assembler of the nvidia-cuda-nvcc wheel."""
    found = importlib.util.find_spec("nvidia")
    for folder in found.submodule_search_locations or () if found else ():
        for path in sorted(Path(folder).rglob("ptxas")):
            return path
    return None


def missing() -> str | None:
    """Why PTX cannot be made here, or None."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"NVIDIA's compilers are no wheels for {platform.machine()}"
    try:
        for name in ("numba_cuda", "cuda.core", "nvidia.cu13"):
            if importlib.util.find_spec(name) is None:
                return f"{name} is not installed"
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed"
    if find_ptxas() is None:
        return "nvidia-cuda-nvcc is not installed"
    return None


def _assemble(ptx: str, architecture: str) -> dict[str, Any]:
    """What ptxas says."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        done = subprocess.run(
            [
                str(find_ptxas()),
                "--verbose",
                "--warn-on-spills",
                f"--gpu-name={architecture}",
                str(source),
                f"--output-file={folder}/kernel.cubin",
            ],
            capture_output=True,
            check=False,
            text=True,
            timeout=200,
        )
    assert done.returncode == 0, done.stderr
    result = _RESULT.search(done.stderr)
    assert result is not None, done.stderr
    return {name: int(value) for name, value in result.groupdict().items()}


def report(capability: tuple[int, int]) -> dict[str, dict[str, Any]]:
    """Kernel → registers, stack, spills, seconds, and what its PTX holds."""
    # Needs numba-cuda, an extra.
    from twisted_aotx.device import gpu, gpu_words

    gpu_words.register()
    kernels = gpu.kernels(tables.regions_of(SMALL))
    found = {}
    for name, (function, signature, threads) in kernels.items():
        start = time.monotonic()
        text = compile_ptx(function, signature, threads, capability)
        found[name] = {
            "f64": text.count(".f64"),
            "acquires": text.count("ld.acquire.sys"),
            "releases": text.count("st.release.sys"),
            "barriers": len(re.findall(r"\b(?:bar|barrier)\.sync", text)),
            "bytes": len(text),
            "threads": int(_THREADS.findall(text)[0]),
            **_assemble(text, "sm_{}{}".format(*capability)),
            "seconds": round(time.monotonic() - start, 1),
        }
    return found


def main() -> None:
    major, minor = map(int, sys.argv[1].split("."))
    sys.stdout.write(json.dumps(report((major, minor))))


if __name__ == "__main__":
    main()
