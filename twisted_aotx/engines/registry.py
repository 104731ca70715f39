"""
From the name in `runtime.json` to an engine whose facts the device can serve.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.logger import Logger
from twisted.plugin import getPlugins
from zope.interface import Invalid
from zope.interface.verify import verifyObject

from twisted_aotx import limits
from twisted_aotx.errors import EngineError, UnknownEngine
from twisted_aotx.interfaces import EngineFacts, IEngine, IEngineMaker, MessageFormat
from twisted_aotx.wire.numbers import Modality, Role

_log = Logger()

_SPANS = (
    "system_head",
    "system_tail",
    "user_head",
    "user_tail",
    "assistant_head",
    "assistant_tail",
    "generation_head",
    "think_open",
    "think_close",
)


def engine_makers() -> dict[str, IEngineMaker]:
    """
    Every maker that `twisted/plugins/` offers, by name.

    A plugin that does not implement `IEngineMaker` is left out with a warning; of two
    with one name the first found stays, with a warning.
    """
    makers: dict[str, IEngineMaker] = {}
    for maker in getPlugins(IEngineMaker):
        try:
            verifyObject(IEngineMaker, maker)
        except Invalid as error:
            _log.warn("an engine plugin cannot be used: {error}", error=str(error))
            continue
        known = makers.setdefault(maker.name, maker)
        if known is not maker and known != maker:
            _log.warn("two plugins make engines named {name!r}", name=maker.name)
    return makers


def engine_named(name: str) -> IEngineMaker:
    """
    The maker of the engines called *name*.

    Raises:
        UnknownEngine: no plugin has this name; it lists the names that exist.
    """
    makers = engine_makers()
    if name not in makers:
        raise UnknownEngine(name, tuple(sorted(makers)))
    return makers[name]


def make_engine(
    name: str,
    role: int,
    options: Mapping[str, Any],
    slots: int,
    sequence_tokens: int,
    folder: Path,
) -> IEngine:
    """
    Make the engine *name* of *role* and check what it declares. Blocks.

    *folder*, absolute, is where relative paths among *options* count from.

    Raises:
        UnknownEngine: no plugin has this name.
        ConfigError: an option cannot be used; its path is the option.
        EngineError: the engine declares what the device cannot serve.
    """
    maker = engine_named(name)
    engine = maker.make(
        role, _with_paths(options, maker.paths, folder), slots, sequence_tokens
    )
    try:
        verifyObject(IEngine, engine)
    except Invalid as error:
        raise EngineError(f"engine {name!r} is no IEngine: {error}") from error
    faults = fact_faults(engine.facts, role, sequence_tokens)
    if faults:
        raise EngineError(f"engine {name!r}: {faults[0]}")
    return engine


def _with_paths(
    options: Mapping[str, Any], paths: tuple[str, ...], folder: Path
) -> dict[str, Any]:
    """
    *options* with those named in *paths* made absolute; what is no path, and an empty
    one, is left to the maker to judge.
    """
    values = dict(options)
    for name in paths:
        value = values.get(name)
        if isinstance(value, str) and value:
            values[name] = str(folder / value)
    return values


def fact_faults(facts: EngineFacts, role: int, sequence_tokens: int) -> list[str]:
    """
    What is wrong with *facts* for *role* (`device.md` §10), as sentences.

    *sequence_tokens* is the device's: what an engine must hold at least.
    """
    faults = []
    if facts.role != role:
        faults.append(f"it declares role {facts.role}, not {role}")
    if not isinstance(facts.model_sha256, bytes) or len(facts.model_sha256) != 32:
        faults.append("its model digest is not 32 bytes")
    if not facts.modalities & Modality.TEXT or facts.modalities & ~sum(Modality):
        faults.append(
            f"its modalities {facts.modalities} lack text or hold unknown bits"
        )
    if facts.capacity < 1:
        faults.append(f"its capacity is {facts.capacity}; at least 1 is needed")
    if facts.sequence_tokens < sequence_tokens:
        faults.append(
            f"it holds {facts.sequence_tokens} tokens, but device.sequence_tokens "
            f"is {sequence_tokens}"
        )
    if facts.controls and role != Role.LANGUAGE:
        faults.append("only the engine of the default language role has controls")
    if len(facts.controls) > limits.CONTROL_ROWS_MAX:
        faults.append(f"it has more than {limits.CONTROL_ROWS_MAX} controls")
    return faults + _format_faults(facts.message_format)


def _format_faults(message_format: MessageFormat) -> list[str]:
    faults = [
        f"{name} of its message format has more than {limits.SPAN_BYTES_MAX} bytes"
        for name in _SPANS
        if len(getattr(message_format, name)) > limits.SPAN_BYTES_MAX
    ]
    head = len(message_format.system_head)
    if not 0 <= message_format.prefix_bytes <= head:
        faults.append(
            f"the prefix of its message format is {message_format.prefix_bytes} of the "
            f"{head} bytes of its system head"
        )
    return faults
