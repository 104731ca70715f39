"""
The options of a `llama` engine in runtime.json (docs/models.md).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from twisted_aotx.engines.llama.format_file import OPTION as FORMAT
from twisted_aotx.errors import ConfigError

#: Sequences that llama.cpp can hold (`LLAMA_MAX_SEQ`).
CAPACITY_MAX: Final = 256
#: Threads of one engine; llama.cpp's own limit (`GGML_MAX_N_THREADS`).
THREADS_MAX: Final = 512
#: Tokens of a sequence.
CONTEXT_MAX: Final = 2**31 - 1
#: Layers on a GPU; more than any model has.
GPU_LAYERS_MAX: Final = 4096
#: `gpu_layers` for all of them.
ALL_LAYERS: Final = -1

_OPTIONS: Final = ("path", FORMAT, "capacity", "threads", "context", "gpu_layers")


@attrs.frozen(kw_only=True)
class LlamaOptions:
    """
    What an operator chose, checked.
    """

    #: The GGUF file.
    path: Path
    #: The file of its message format, if not the chat template's.
    format_path: Path | None
    #: Leases at once.
    capacity: int
    #: Threads that compute.
    threads: int
    #: Tokens that one lease can hold; None for the device's.
    context: int | None
    #: Layers on a GPU, −1 for all; without effect in a CPU build of llama.cpp.
    gpu_layers: int


def read_options(options: Mapping[str, Any], slots: int) -> LlamaOptions:
    """
    Check *options* for a device with *slots* slots.

    Raises:
        ConfigError: an option is unknown, missing or out of range.
    """
    for name in options:
        if name not in _OPTIONS:
            known = ", ".join(_OPTIONS)
            raise ConfigError(name, f"the llama engine knows only {known}")
    most = min(slots - 1, CAPACITY_MAX)
    path = _path(options, "path")
    if path is None:
        raise ConfigError("path", "is required: the GGUF file of the model")
    context = None
    if "context" in options:
        context = _integer(options, "context", 2, CONTEXT_MAX, 0)
    return LlamaOptions(
        path=path,
        format_path=_path(options, FORMAT),
        capacity=_integer(options, "capacity", 1, most, most),
        threads=_integer(options, "threads", 1, THREADS_MAX, _cores()),
        context=context,
        gpu_layers=_integer(
            options, "gpu_layers", ALL_LAYERS, GPU_LAYERS_MAX, ALL_LAYERS
        ),
    )


def _cores() -> int:
    """The processors that this process may use."""
    return min(len(os.sched_getaffinity(0)), THREADS_MAX)


def _integer(
    options: Mapping[str, Any], name: str, low: int, high: int, default: int
) -> int:
    value = options.get(name, default)
    if type(value) is not int or not low <= value <= high:
        raise ConfigError(name, f"must be an integer from {low} to {high}")
    return value


def _path(options: Mapping[str, Any], name: str) -> Path | None:
    """An absolute path, whose spelling a file system can hold."""
    if name not in options:
        return None
    value = options[name]
    if not isinstance(value, str) or not value or "\0" in value:
        raise ConfigError(name, "must be the path of a file")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise ConfigError(name, "holds half of a surrogate pair") from None
    path = Path(value)
    if not path.is_absolute():
        raise ConfigError(name, f"must be an absolute path, not {value!a}")
    return path
