"""
The library of llama.cpp, and small models on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines.llama.tiny import Tiny
from twisted_aotx.engines.llama import binding
from twisted_aotx.engines.llama.binding import BindingError, Library

Make = Callable[[Tiny], Path]


@pytest.fixture(scope="session")
def library() -> Library:
    """As a child loads it."""
    try:
        return binding.load()
    except BindingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A function that writes a model once, and gives its path."""
    folder = tmp_path_factory.mktemp("tiny")
    made: dict[str, Path] = {}

    def make(model: Tiny) -> Path:
        name = repr(model)
        if name not in made:
            made[name] = model.write(folder / f"{len(made)}.gguf")
        return made[name]

    return make
