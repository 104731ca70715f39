"""
The library is taken only if it is the one that the binding was written for.
"""

from __future__ import annotations

import ctypes
from importlib import metadata
from pathlib import Path
from typing import Any

import attrs
import pytest

from twisted_aotx.engines.llama import binding
from twisted_aotx.engines.llama.binding import BindingError, Library
from twisted_aotx.engines.llama.structures import (
    CONTEXT_DEFAULTS,
    FUNCTIONS,
    MODEL_DEFAULTS,
    PACKAGE,
    VERSION,
    ContextParams,
)


def test_the_installed_wheel_passes(library: Library) -> None:
    assert library.context_default_params().n_ctx == CONTEXT_DEFAULTS["n_ctx"]
    assert library.model_default_params().split_mode == MODEL_DEFAULTS["split_mode"]


@attrs.frozen
class Wheel:
    """
    What `importlib.metadata` says of an installation.
    """

    version: str
    files: tuple[Any, ...] = ()


def installed(monkeypatch: pytest.MonkeyPatch, wheel: Wheel | None) -> None:
    def distribution(name: str) -> Wheel:
        assert name == PACKAGE
        if wheel is None:
            raise metadata.PackageNotFoundError(name)
        return wheel

    monkeypatch.setattr(metadata, "distribution", distribution)


def test_no_wheel_is_told_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch, None)

    with pytest.raises(BindingError, match=r"not installed: pip install .*\[llama\]"):
        binding.load()


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, Wheel("2026.11.1"))

    with pytest.raises(BindingError, match=rf"2026\.11\.1 is installed.*=={VERSION}"):
        binding.load()


def test_a_build_for_a_gpu_is_the_same_version(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, Wheel(f"{VERSION}+cu128"))

    with pytest.raises(BindingError, match="has no shared library here"):
        binding.load()


def test_the_version_is_the_one_that_the_extra_pins() -> None:
    text = (Path(__file__).parents[3] / "setup.cfg").read_text()

    assert f"{PACKAGE} == {VERSION}" in text


@pytest.mark.parametrize(
    ("table", "name", "value"),
    [(MODEL_DEFAULTS, "split_mode", 2), (CONTEXT_DEFAULTS, "yarn_beta_slow", 1.0)],
)
def test_a_moved_field_is_refused(
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
    table: dict[str, Any],
    name: str,
    value: object,
) -> None:
    """What the library says is then not what is expected there."""
    monkeypatch.setitem(table, name, value)

    with pytest.raises(BindingError, match=f"lays out its structures.*{name} of"):
        binding.load()


def test_a_field_too_many_is_refused(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All behind it are read from the wrong place."""
    fields: list[Any] = [*ContextParams._fields_]
    fields.insert(4, fields[0])

    class Longer(ctypes.Structure):
        _fields_ = fields

    monkeypatch.setattr(binding, "ContextParams", Longer)

    with pytest.raises(BindingError, match="lays out its structures"):
        binding.load()


def test_a_missing_function_is_refused(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FUNCTIONS, "decode_faster", (None, ()))

    with pytest.raises(BindingError, match="has no function llama_decode_faster"):
        binding.load()


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "xllamacpp.so"
    path.write_bytes(b"no library")

    with pytest.raises(BindingError, match="cannot be loaded"):
        Library(path)
