"""
Memory that a model takes, and memory that there is (docs/models.md).

For an engine, at start: `check(need(model, capacity, sequence_tokens), available())`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import attrs

from twisted_aotx.engines.model_file import ModelFile
from twisted_aotx.errors import EngineError

#: llama.cpp gives each sequence a multiple of so many tokens.
CONTEXT_STEP_TOKENS: Final = 256
#: Bytes of the engine's process without model, KV cache and buffers of a step.
PROCESS_BYTES: Final = 80 << 20
#: Rows that one step computes at most.
STEP_ROWS: Final = 64
#: Numbers of 4 bytes that a step keeps for each row: the logits, and this many rows
#: between layers.
_ROWS_BETWEEN_LAYERS: Final = 16
_MEMINFO: Final = re.compile(r"^MemAvailable: +(\d+) kB$", re.MULTILINE)
#: Files of a control group with its limit, its use, and the part of it that is cache:
#: version 2, then 1.
_CGROUP_FILES: Final = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
#: Control groups above a process, at most.
_CGROUP_DEPTH_MAX: Final = 64
#: Bytes of a file of the system's that are read.
_TEXT_BYTES_MAX: Final = 1 << 16


@attrs.frozen
class Need:
    """
    Memory that a model takes while it serves, in bytes.
    """

    file: int
    kv: int
    overhead: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.file + self.kv + self.overhead

    def __str__(self) -> str:
        return (
            f"{gigabytes(self.total)} (model {gigabytes(self.file)}, KV cache "
            f"{gigabytes(self.kv)}, the rest {gigabytes(self.overhead)})"
        )


def need(model: ModelFile, capacity: int, sequence_tokens: int) -> Need:
    """
    What *model* takes with so many leases at once, each of so many tokens.
    """
    tokens = -(-sequence_tokens // CONTEXT_STEP_TOKENS) * CONTEXT_STEP_TOKENS
    row = 4 * (model.vocabulary + _ROWS_BETWEEN_LAYERS * model.embedding)
    return Need(
        file=model.size,
        kv=model.kv_bytes_per_token * tokens * capacity,
        overhead=PROCESS_BYTES + STEP_ROWS * row,
    )


def available(root: Path = Path("/")) -> int | None:
    """
    Bytes that a new process can still use: what the system has without swapping, or
    less if a control group allows less. None if the system does not say.

    Args:
        root: Where `proc` and `sys` lie.
    """
    found = _MEMINFO.search(_text(root / "proc/meminfo"))
    amounts = [int(found[1]) << 10] if found else []
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        base = root / "sys/fs/cgroup"
        if number != "0":
            if "memory" not in controllers.split(","):
                continue
            base /= "memory"
        amounts += _group_amounts(base, group)
    return min(amounts, default=None)


def check(needed: Need, there_is: int | None, model: str) -> None:
    """
    Refuse what cannot fit. *model* names it.

    Raises:
        EngineError: one line, with what can be changed.
    """
    if there_is is not None and needed.total > there_is:
        raise EngineError(
            f"{model} needs {needed} of memory, but only {gigabytes(there_is)} can be "
            "had: lower its capacity or device.sequence_tokens, or take a smaller model"
        )


def gigabytes(size: int) -> str:
    """A size for people."""
    return f"{size / 1e9:.2f} GB"


def _group_amounts(base: Path, group: str) -> list[int]:
    """
    What a control group and those above it leave, each that has a limit.

    In a container the group's own path may not be there; then the root is the group.
    """
    folder = base / group.strip("/")
    amounts = []
    for _ in range(_CGROUP_DEPTH_MAX):
        for limit, use, cache in _CGROUP_FILES:
            most, now = _number(folder / limit), _number(folder / use)
            if most is not None and now is not None:
                amounts.append(max(0, most - now + _cached(folder, cache)))
        if folder == base:
            break
        folder = folder.parent
    return amounts


def _cached(folder: Path, name: str) -> int:
    """Bytes of a group's use that are file cache and given back when needed."""
    found = re.search(rf"^{name} (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
    return int(found[1]) if found else 0


def _number(path: Path) -> int | None:
    """The number in a file; None for `max` and for a file that is not there."""
    text = _text(path).strip()
    return int(text) if text.isdecimal() and len(text) <= 20 else None


def _text(path: Path) -> str:
    try:
        with path.open() as file:
            return file.read(_TEXT_BYTES_MAX)
    except (OSError, ValueError):
        return ""
