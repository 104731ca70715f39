"""
What `aotx init` writes for a model file: the llama engine, sized for a small machine.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import attrs

from twisted_aotx.config.initial import (
    LLAMA_CAPACITY,
    LLAMA_SEQUENCE_TOKENS,
    First,
)
from twisted_aotx.engines.model_file import ModelFile

#: Characters of an alias made from a file's name, at most.
_ALIAS_CHARACTERS_MAX: Final = 64
_UNFIT: Final = re.compile(r"[^a-z0-9._]+")


def alias_of(path: Path) -> str:
    """
    What clients ask for: the file's name without `.gguf`, in lower case, and a dash for
    what cannot stand in an alias.
    """
    alias = _UNFIT.sub("-", path.stem.lower()).strip("-._")
    return alias[:_ALIAS_CHARACTERS_MAX] or "model"


def first_for(first: First, path: Path, model: ModelFile) -> First:
    """
    *first* for the *model* in the file *path*.
    """
    return attrs.evolve(
        first,
        alias=alias_of(path),
        engine="llama",
        options={"path": str(path.absolute()), "capacity": LLAMA_CAPACITY},
        sequence_tokens=min(LLAMA_SEQUENCE_TOKENS, model.context_tokens),
    )
