"""
What frames, grants and engines of tests are made of.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Sequence

import attrs

from tests.device.stepped import HasFacts
from twisted_aotx.device.host import Device
from twisted_aotx.engines.reference import ReferenceEngine
from twisted_aotx.interfaces import (
    EngineFacts,
    MessageFormat,
    ReferenceModel,
)
from twisted_aotx.limits import Capacities
from twisted_aotx.wire.grants import GrantRow
from twisted_aotx.wire.info import ControlRow
from twisted_aotx.wire.numbers import Role

OPENED, REFUSED, EMIT, DONE, FAILED = 1, 2, 3, 4, 5

EPOCH = 0x0102030405060708
HASH_KEY = 0x1122334455667788
SEED_KEY = 0x99AABBCCDDEEFF01
SECOND = 1_000_000_000

#: Where devices of tests run; `cuda` needs a card (bin/gpu-check).
BACKEND = os.environ.get("AOTX_BACKEND", "cpu")

P1, P2, P3, P4 = (bytes([0] * 15 + [index]) for index in (1, 2, 3, 4))

#: The format of the worked example in `device.md` §5.
LETTERS = MessageFormat(
    system_head=b"PS",
    system_tail=b"s",
    user_head=b"U",
    user_tail=b"u",
    assistant_head=b"A",
    assistant_tail=b"a",
    generation_head=b"G",
    think_open=b"(",
    think_close=b")",
    prefix_bytes=1,
)
CHATML = MessageFormat(
    system_head=b"<|im_start|>system\n",
    system_tail=b"<|im_end|>\n",
    user_head=b"<|im_start|>user\n",
    user_tail=b"<|im_end|>\n",
    assistant_head=b"<|im_start|>assistant\n",
    assistant_tail=b"<|im_end|>\n",
    generation_head=b"<|im_start|>assistant\n",
    think_open=b"<think>\n\n",
    think_close=b"</think>\n\n",
)


@attrs.frozen
class Played:
    """An engine whose sequences the tests play by hand."""

    facts: EngineFacts


def new_device(
    capacities: Capacities,
    engines: Sequence[HasFacts] = (),
    backend: str = BACKEND,
    *,
    epoch: int = EPOCH,
) -> Device:
    """A device with the secrets that the oracle knows."""
    return Device(
        capacities,
        epoch=epoch,
        hash_key=HASH_KEY,
        seed_key=SEED_KEY,
        engines=engines,  # type: ignore[arg-type]  # only their facts, or IKernelEngine
        backend=backend,
    )


def played_engine(
    role: int = Role.LANGUAGE,
    *,
    capacity: int,
    sequence_tokens: int,
    message_format: MessageFormat = LETTERS,
    modalities: int = 1,
    controls: tuple[ControlRow, ...] = (),
) -> Played:
    digest = hashlib.sha256(b"model of role %d" % role).digest()
    return Played(
        EngineFacts(
            role=role,
            model_sha256=digest,
            modalities=modalities,
            capacity=capacity,
            sequence_tokens=sequence_tokens,
            message_format=message_format,
            controls=controls,
        )
    )


#: Quickly counted.
CORPUS = b"a cat sat on a mat and a rat ran at a cat. a mat!\n\nno cat is a rat.\n"


def kernel_engine(
    role: int,
    *,
    capacity: int,
    sequence_tokens: int,
    rate: int = 0,
    modalities: int = 1,
    controls: tuple[ControlRow, ...] = (),
) -> ReferenceEngine:
    """The model in the device's kernels, made from a short text."""
    facts = EngineFacts(
        role=role,
        model_sha256=hashlib.sha256(CORPUS).digest(),
        modalities=modalities,
        capacity=capacity,
        sequence_tokens=sequence_tokens,
        message_format=CHATML,
        controls=controls,
    )
    return ReferenceEngine(facts, ReferenceModel(corpus=CORPUS, rate=rate))


def grant(
    principal: bytes = P1,
    *,
    actions: int = 1,
    models: int = 1 << 2,
    pages: int = 0,
    tokens: int = 64,
    requests: int = 4,
    media: int = 0,
    media_bytes: int = 0,
) -> GrantRow:
    """A row of any table; `Driver.install` gives it the table's revision."""
    return GrantRow(
        principal=principal,
        revision=1,
        actions=actions,
        models=models,
        pages=pages,
        tokens=tokens,
        requests=requests,
        media=media,
        media_bytes=media_bytes,
    )


def request_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def part(data: bytes, kind: int = 0) -> bytes:
    return struct.pack("<II", kind, len(data)) + data


def message(role: int, *texts: bytes) -> bytes:
    """A message of text parts; 0 system, 1 user, 2 assistant. Nothing is checked."""
    parts = b"".join(part(text) for text in texts)
    return struct.pack("<II", role, len(texts)) + parts


def payload_of(*messages: bytes) -> bytes:
    return struct.pack("<I", len(messages)) + b"".join(messages)


#: A payload that every prompt capacity has room for.
HELLO = payload_of(message(1, b"hello"))
