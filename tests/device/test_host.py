"""
What a device refuses of whoever makes it and of those who serve it; nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from tests.device.capacities import SMALL
from tests.device.making import (
    EMIT,
    LETTERS,
    kernel_engine,
    new_device,
    played_engine,
)
from tests.device.stepped import HasFacts
from twisted_aotx.device.host import Device
from twisted_aotx.device.reference_table import CORPUS_BYTES_MAX
from twisted_aotx.engines.reference import ReferenceEngine
from twisted_aotx.errors import ChannelBusy, ConfigError
from twisted_aotx.interfaces import EngineFacts, ReferenceModel
from twisted_aotx.limits import (
    CONTROL_ROWS_MAX,
    EVENT_BYTES_PER_SLOT,
    SPAN_BYTES_MAX,
    Capacities,
)
from twisted_aotx.orders import SourceRecord
from twisted_aotx.wire.info import ControlRow

TOKENS = SMALL.sequence_tokens
FACTS = played_engine(2, capacity=1, sequence_tokens=TOKENS).facts
CONTROL = ControlRow(name="one", layers=1, doses=(1,), qualification_sha256=b"1" * 32)


@attrs.frozen
class Engine:
    facts: EngineFacts


def facts(**changes: Any) -> list[HasFacts]:
    return [Engine(attrs.evolve(FACTS, **changes))]


def in_kernels(
    role: int, corpus: bytes, output: bytes | None = None
) -> ReferenceEngine:
    made = kernel_engine(role, capacity=1, sequence_tokens=TOKENS)
    return ReferenceEngine(
        made.facts, ReferenceModel(corpus=corpus, fixed_output=output)
    )


@pytest.mark.parametrize(
    ("engines", "path", "reason"),
    [
        (facts(role=1), "models", "role 1 is not served"),
        (facts(role=5), "models", "role 5 is not served"),
        (facts(controls=(CONTROL,) * (CONTROL_ROWS_MAX + 1)), "models", "16 controls"),
        (facts(role=3, controls=(CONTROL,)), "models", "role 2 alone"),
        (facts(controls=(CONTROL, CONTROL)), "models", "one name"),
        (facts(sequence_tokens=TOKENS - 1), "device.sequence_tokens", "8191 tokens"),
        (
            facts(
                message_format=attrs.evolve(
                    LETTERS, user_tail=b"u" * (SPAN_BYTES_MAX + 1)
                )
            ),
            "message_format",
            "span 3 is over 512 bytes",
        ),
        (
            facts(message_format=attrs.evolve(LETTERS, prefix_bytes=3)),
            "message_format",
            "longer than its span",
        ),
        (
            [in_kernels(2, b"a cat"), in_kernels(3, b"a rat")],
            "models",
            "share one corpus",
        ),
        (
            [in_kernels(2, b"a" * (CORPUS_BYTES_MAX + 1))],
            "models",
            "a corpus is over",
        ),
        (
            [in_kernels(2, b"a cat", b"x" * (1 << 20))],
            "models",
            "a fixed output is over",
        ),
    ],
)
def test_engines_that_do_not_fit(
    engines: list[HasFacts], path: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        new_device(SMALL, engines)
    assert caught.value.path == path
    assert reason in caught.value.reason


def test_tables_that_are_too_large() -> None:
    """D7: 8 GiB in all."""
    large = Capacities(requests=65536, output_bytes=1 << 20)
    with pytest.raises(ConfigError, match="over 8 GiB"):
        new_device(large)


def test_a_backend_that_there_is_not() -> None:
    with pytest.raises(ConfigError, match="neither cpu nor cuda"):
        new_device(SMALL, backend="abacus")


@pytest.fixture
def device() -> Iterator[Device]:
    made = new_device(SMALL, [Engine(FACTS)])
    yield made
    made.free()


RECORD = SourceRecord(
    owner=b"o" * 16, transfer_id=b"t" * 16, sha256=bytes(32), format=1, offset=0, size=9
)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda device: device.report(0, 1, EMIT, 1),
        lambda device: device.report(SMALL.slots, 1, EMIT, 1),
        lambda device: device.report(1, 1, EMIT, 1, bytes(EVENT_BYTES_PER_SLOT + 1)),
        lambda device: device.set_control(-1, True),
        lambda device: device.set_control(CONTROL_ROWS_MAX, True),
        lambda device: device.record_bytes(RECORD, 0, 10),
        lambda device: device.record_bytes(RECORD, -1, 1),
        lambda device: device.record_bytes(RECORD, 8, -1),
    ],
)
def test_values_out_of_range(
    device: Device, misuse: Callable[[Device], object]
) -> None:
    before = device.digest()
    with pytest.raises(ValueError, match=r"out of range|over the limit|outside of"):
        misuse(device)
    assert device.digest() == before


def test_mailboxes_out_of_turn(device: Device) -> None:
    """`wire.md` §12: who does not own a mailbox does not touch it."""
    with pytest.raises(ChannelBusy):
        device.reply(1)
    with pytest.raises(ChannelBusy):
        device.release(1)
    device.publish(1, bytes(128))
    with pytest.raises(ChannelBusy):
        device.publish(1, bytes(128))
