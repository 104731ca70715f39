"""
The C API of llama.cpp, as the pinned `xllamacpp` wheel exports it, through ctypes.

The library's structures are passed by value and change within weeks, so `load` refuses
every other version of the wheel, and checks by what the library says its defaults are
that it lays the structures out as this file does. `Model` and `BatchEngine` then check
that what they asked for is what they got.

ctypes releases the GIL around every call.
"""

from __future__ import annotations

import ctypes
import math
from collections import deque
from ctypes import Structure, c_uint8
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from twisted_aotx.engines.llama.structures import (
    CONTEXT_DEFAULTS,
    FUNCTIONS,
    LOG_CALLBACK,
    MODEL_DEFAULTS,
    PACKAGE,
    VERSION,
    ContextParams,
    ModelParams,
)

#: Lines of the library's errors that are kept for whoever asks why.
LOG_LINES: Final = 4
#: ggml's log level of errors.
_LOG_ERROR: Final = 4
#: Bytes behind a structure that a longer one of another version may overwrite.
_SPARE_BYTES: Final = 512


class BindingError(Exception):
    """
    The library is not there, or not the one that this file was written for.
    """


class Library:
    """
    The functions of `structures.FUNCTIONS` as attributes; their names lack `llama_`.

    Raises:
        BindingError: a function is missing or a structure is laid out otherwise.
    """

    def __init__(self, path: Path) -> None:
        try:
            # Its name is enough once a process has loaded it, so this is cheap.
            self._shared = ctypes.CDLL(str(path))
        except OSError as error:
            raise BindingError(f"{PACKAGE} cannot be loaded: {error}") from None
        for name, (result, arguments) in FUNCTIONS.items():
            try:
                function = self._shared[f"llama_{name}"]
            except AttributeError:
                raise BindingError(f"{PACKAGE} has no function llama_{name}") from None
            function.restype = result
            function.argtypes = arguments
            setattr(self, name, function)
        self._check(self.model_default_params, ModelParams, MODEL_DEFAULTS)
        self._check(self.context_default_params, ContextParams, CONTEXT_DEFAULTS)
        #: The library's last complaints.
        self.complaints: deque[str] = deque(maxlen=LOG_LINES)
        # Kept here: the library calls it for as long as it lives.
        self._log = LOG_CALLBACK(self._note)
        self.log_set(self._log, None)
        self.backend_init()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    @property
    def complaint(self) -> str:
        """The last complaints in one line; empty if there is none."""
        return "; ".join(self.complaints)

    def _note(self, level: int, text: bytes, _data: object) -> None:
        line = text.decode(errors="replace").strip()
        if level == _LOG_ERROR and line:
            self.complaints.append(line)

    def _check(
        self, function: Any, structure: type[Structure], defaults: dict[str, Any]
    ) -> None:
        """That a structure's defaults are where they are expected."""

        class Padded(structure):  # type: ignore[valid-type, misc]
            _fields_ = (("spare", c_uint8 * _SPARE_BYTES),)

        function.restype = Padded
        found = function()
        function.restype = structure
        for name, *_ in structure._fields_:
            value, expected = getattr(found, name), defaults.get(name, 0)
            if value is None:
                value = 0
            if not math.isclose(value, expected):
                raise BindingError(
                    f"{PACKAGE} lays out its structures otherwise: {name} of "
                    f"{structure.__name__} is {value}, not {expected}"
                )


def load(version: str = VERSION) -> Library:
    """
    The library of the installed wheel, which must be *version*.

    Raises:
        BindingError: it is not installed, is another version, or fails its checks.
    """
    try:
        wheel = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        raise BindingError(
            f"{PACKAGE} is not installed: pip install 'twisted-aotx[llama]'"
        ) from None
    # A build for a GPU is the same code: 2026.10.11549+cu128.
    if wheel.version.partition("+")[0] != version:
        raise BindingError(
            f"{PACKAGE} {wheel.version} is installed, but the llama engine is made for "
            f"{version}: pip install {PACKAGE}=={version}"
        )
    for file in wheel.files or ():
        if file.name.startswith(f"{PACKAGE}.") and file.suffix == ".so":
            return Library(Path(str(wheel.locate_file(file))))
    raise BindingError(f"{PACKAGE} {wheel.version} has no shared library here")
