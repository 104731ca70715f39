"""
The reference engine's options and facts (`device.md` §17).
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
from zope.interface.verify import verifyObject

from twisted_aotx.device.reference import FIXED_BYTES_MAX
from twisted_aotx.device.reference import RATE_MAX as KERNEL_RATE_MAX
from twisted_aotx.device.reference_table import CORPUS_BYTES_MAX
from twisted_aotx.engines import reference
from twisted_aotx.engines.formats import CHATML
from twisted_aotx.engines.registry import make_engine
from twisted_aotx.errors import ConfigError, EngineError
from twisted_aotx.interfaces import IKernelEngine
from twisted_aotx.testing.engines import RecordedHost, RecordedLease, sample_order


def make(**options: Any) -> reference.ReferenceEngine:
    """The engine of the default role on a device of 8 slots."""
    engine = make_engine(
        "reference", 2, options, slots=8, sequence_tokens=512, folder=Path("/")
    )
    assert isinstance(engine, reference.ReferenceEngine)
    return engine


def test_defaults() -> None:
    """Capacity slots - 1, no rate, sampled output."""
    engine = make()

    verifyObject(IKernelEngine, engine)
    assert engine.facts.capacity == 7
    assert engine.facts.sequence_tokens == 512
    assert engine.facts.modalities == 1
    assert [row.name for row in engine.facts.controls] == ["caution", "verve"]
    assert engine.facts.message_format is CHATML
    assert engine.model.rate == 0
    assert engine.model.fixed_output is None


def test_the_digest_is_the_corpus() -> None:
    """SHA-256 of the shipped text, which the kernels can hold."""
    engine = make()

    assert engine.facts.model_sha256 == hashlib.sha256(engine.model.corpus).digest()
    assert engine.model.corpus == reference.read_corpus()
    assert 8 << 10 <= len(engine.model.corpus) <= CORPUS_BYTES_MAX
    assert engine.model.corpus.isascii()


def test_bounds_are_the_kernels() -> None:
    """This file may not import the kernels; its bounds are theirs all the same."""
    assert reference.FIXED_OUTPUT_BYTES_MAX == FIXED_BYTES_MAX
    assert reference.RATE_MAX == KERNEL_RATE_MAX


@pytest.mark.parametrize(
    ("option", "value"),
    [("capacity", 1), ("capacity", 7), ("rate", 0), ("rate", 1), ("rate", 1_000_000)],
)
def test_numbers_within_their_range(option: str, value: int) -> None:
    """Both ends."""
    engine = make(**{option: value})

    assert value == (
        engine.facts.capacity if option == "capacity" else engine.model.rate
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("capacity", 0),
        ("capacity", 8),
        ("capacity", True),
        ("capacity", 2.0),
        ("capacity", "3"),
        ("capacity", None),
        ("rate", -1),
        ("rate", 1_000_001),
        ("rate", 1.5),
        ("text", 1),
        ("text", None),
        ("text", "x" * 65537),
        ("text", "\ud800"),
        ("bytes", 1),
        ("bytes", "A"),
        ("bytes", "AA=="[:3]),
        ("bytes", "QQ=\n="),
        ("bytes", "QR=="),
        ("bytes", "Q Q="),
        ("bytes", "_-A="),
        ("bytes", "é"),
        ("bytes", base64.b64encode(bytes(65537)).decode()),
        ("modalities", "image"),
        ("modalities", None),
        ("modalities", ["text"]),
        ("modalities", ["video"]),
        ("modalities", [["image"]]),
        ("modalities", ["audio", "audio"]),
        ("temperature", 1),
        ("engine", "reference"),
    ],
)
def test_an_option_that_cannot_be_used(option: str, value: Any) -> None:
    """The error names the option."""
    with pytest.raises(ConfigError) as caught:
        make(**{option: value})

    assert caught.value.path == option
    assert caught.value.reason


def test_text_and_bytes_exclude_each_other() -> None:
    """One output only."""
    with pytest.raises(ConfigError) as caught:
        make(text="a", bytes="YQ==")

    assert caught.value.path == "bytes"


@pytest.mark.parametrize(
    ("options", "output"),
    [
        ({"text": ""}, b""),
        ({"text": "Grüße\0"}, "Grüße\0".encode()),
        ({"text": "é" * 32768}, "é".encode() * 32768),
        ({"bytes": ""}, b""),
        ({"bytes": "/wD+"}, b"\xff\x00\xfe"),
        ({"bytes": base64.b64encode(bytes(65536)).decode()}, bytes(65536)),
    ],
)
def test_fixed_output(options: dict[str, str], output: bytes) -> None:
    """Text as UTF-8, bytes as they are, up to 65,536 bytes."""
    assert make(**options).model.fixed_output == output


@pytest.mark.parametrize(
    ("names", "modalities"),
    [([], 1), (["image"], 3), (["audio"], 5), (["audio", "image"], 7)],
)
def test_modalities(names: list[str], modalities: int) -> None:
    """Text, and what the option names."""
    assert make(modalities=names).facts.modalities == modalities


def test_the_kernels_open_its_sequences() -> None:
    """Nobody calls `open`; the other verbs have nothing to do."""
    engine = make()
    engine.start(RecordedHost())
    lease = RecordedLease(sample_order(CHATML))
    with pytest.raises(EngineError):
        engine.open(lease)
    engine.stop(1, 1)
    engine.close()

    assert lease.reports == []
