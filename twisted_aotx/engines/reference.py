"""
The `reference` engine: a small language model that needs nothing (`device.md` §17).

The model itself runs in the device's kernels (`device.reference`); this file reads the
engine's options and declares it. docs/reference-model.md describes both.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

import attrs
from zope.interface import implementer

from twisted_aotx.engines.formats import CHATML
from twisted_aotx.errors import ConfigError, EngineError
from twisted_aotx.interfaces import (
    EngineFacts,
    EngineHost,
    IKernelEngine,
    Lease,
    ReferenceModel,
)
from twisted_aotx.wire.info import ControlRow
from twisted_aotx.wire.numbers import Modality, Positions, Role

#: Tokens per second, the most that `rate` may say.
RATE_MAX: Final = 1_000_000
#: Bytes of `text` or `bytes`; the device's buffer has this size.
FIXED_OUTPUT_BYTES_MAX: Final = 65536

_OPTIONS: Final = ("capacity", "rate", "text", "bytes", "modalities")
#: What `modalities` may name beside text.
_MODALITIES: Final = {"image": Modality.IMAGE, "audio": Modality.AUDIO}


def _control(name: str, positions: Positions) -> ControlRow:
    digest = hashlib.sha256(f"aotx-reference-control:{name}".encode()).digest()
    return ControlRow(
        name=name,
        positions=positions,
        layers=1,
        qualification_sha256=digest,
        doses=(-10000, -5000, 5000, 10000),
    )


#: What the default language role's engine declares, in the order that the kernels know.
CONTROLS: Final = (
    _control("caution", Positions.ALL),
    _control("verve", Positions.RESPONSE),
)


@implementer(IKernelEngine)
@attrs.frozen
class ReferenceEngine:
    """
    Declares the kernels' model; has nothing to start and nothing to free.
    """

    facts: EngineFacts
    model: ReferenceModel

    def start(self, host: EngineHost) -> None:
        """See `IEngine.start`: it is ready, and it cannot be lost."""

    def open(self, lease: Lease) -> None:
        """
        Never called.

        Raises:
            EngineError: the kernels open this engine's sequences, nobody else.
        """
        raise EngineError("the device's kernels open the sequences of this engine")

    def stop(self, slot: int, generation: int) -> None:
        """See `IEngine.stop`: the kernels drop the sequence with its slot."""

    def close(self) -> None:
        """See `IEngine.close`."""


def read_corpus() -> bytes:
    """The text that the model is made from; its SHA-256 is the model's digest."""
    return resources.files(__package__).joinpath("corpus.txt").read_bytes()


def make(
    role: int, options: Mapping[str, Any], slots: int, sequence_tokens: int
) -> ReferenceEngine:
    """
    See `IEngineMaker.make`.

    Options: `capacity` (1 .. slots − 1), `rate` (0 .. 1,000,000 tokens per second and
    request), `text` or `bytes` (base64), which is emitted instead of the model's, and
    `modalities`, what it takes beside text: `image`, `audio` or both.
    """
    for option in options:
        if option not in _OPTIONS:
            known = ", ".join(_OPTIONS)
            raise ConfigError(option, f"the reference engine knows only {known}")
    corpus = read_corpus()
    facts = EngineFacts(
        role=role,
        model_sha256=hashlib.sha256(corpus).digest(),
        modalities=Modality.TEXT | _modalities(options),
        capacity=_integer(options, "capacity", 1, slots - 1, slots - 1),
        sequence_tokens=sequence_tokens,
        message_format=CHATML,
        controls=CONTROLS if role == Role.LANGUAGE else (),
    )
    model = ReferenceModel(
        corpus=corpus,
        rate=_integer(options, "rate", 0, RATE_MAX, 0),
        fixed_output=_fixed_output(options),
    )
    return ReferenceEngine(facts, model)


def _integer(
    options: Mapping[str, Any], name: str, low: int, high: int, default: int
) -> int:
    value = options.get(name, default)
    if type(value) is not int or not low <= value <= high:
        raise ConfigError(name, f"must be an integer from {low} to {high}")
    return value


def _modalities(options: Mapping[str, Any]) -> int:
    names = options.get("modalities", [])
    known = isinstance(names, list) and all(
        isinstance(name, str) and name in _MODALITIES for name in names
    )
    if not known or len(set(names)) < len(names):
        raise ConfigError("modalities", "must be a list of image, audio or both")
    return sum(_MODALITIES[name] for name in names)


def _fixed_output(options: Mapping[str, Any]) -> bytes | None:
    if "text" in options and "bytes" in options:
        raise ConfigError("bytes", "cannot stand beside text")
    for name, decode in (("text", _text), ("bytes", _base64)):
        if name in options:
            data = decode(options[name])
            if len(data) > FIXED_OUTPUT_BYTES_MAX:
                raise ConfigError(
                    name, f"has {len(data)} bytes, more than {FIXED_OUTPUT_BYTES_MAX}"
                )
            return data
    return None


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ConfigError("text", "must be a string")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise ConfigError("text", "holds half of a surrogate pair") from None


def _base64(value: Any) -> bytes:
    if isinstance(value, str):
        try:
            data = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            data = None
        if data is not None and base64.b64encode(data).decode() == value:
            return data
    raise ConfigError("bytes", "must be base64 (standard alphabet, padded)")
