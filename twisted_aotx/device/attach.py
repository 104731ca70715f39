"""
Telling the device its capacities, and what its engines declared (`device.md` §10).
Start only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twisted_aotx import limits
from twisted_aotx.device import entries, roles
from twisted_aotx.device.controls import CONTROL_ROLE
from twisted_aotx.device.launch import Launch
from twisted_aotx.device.numbers import KIND_HOST, KIND_KERNEL
from twisted_aotx.device.reference import FIXED_BYTES_MAX
from twisted_aotx.device.reference_table import CORPUS_BYTES_MAX
from twisted_aotx.errors import ConfigError
from twisted_aotx.interfaces import (
    EngineFacts,
    IEngine,
    IKernelEngine,
    MessageFormat,
    ReferenceModel,
)


def _spans(message_format: MessageFormat) -> tuple[Any, Any]:
    """The nine spans as (9, 512) u8 and their sizes as (9,) i64."""
    parts = (
        message_format.system_head,
        message_format.system_tail,
        message_format.user_head,
        message_format.user_tail,
        message_format.assistant_head,
        message_format.assistant_tail,
        message_format.generation_head,
        message_format.think_open,
        message_format.think_close,
    )
    spans = np.zeros((roles.SPAN_COUNT, limits.SPAN_BYTES_MAX), np.uint8)
    for n, part in enumerate(parts):
        if len(part) > limits.SPAN_BYTES_MAX:
            raise ConfigError("message_format", f"span {n} is over 512 bytes")
        spans[n, : len(part)] = np.frombuffer(part, np.uint8)
    if not 0 <= message_format.prefix_bytes <= len(parts[0]):
        raise ConfigError("message_format", "the prefix is longer than its span")
    return spans, np.array([len(part) for part in parts], np.int64)


def _check(capacities: limits.Capacities, facts: EngineFacts) -> None:
    if not roles.ROLE_FIRST <= facts.role <= roles.ROLE_LAST:
        raise ConfigError("models", f"role {facts.role} is not served")
    if len(facts.controls) > limits.CONTROL_ROWS_MAX:
        raise ConfigError(
            "models", f"an engine has more than {limits.CONTROL_ROWS_MAX} controls"
        )
    for control in facts.controls:
        if facts.role != CONTROL_ROLE or control.role != CONTROL_ROLE:
            raise ConfigError("models", f"role {CONTROL_ROLE} alone has controls")
    if len({control.name for control in facts.controls}) < len(facts.controls):
        raise ConfigError("models", "two controls have one name")
    if facts.sequence_tokens < capacities.sequence_tokens:
        raise ConfigError(
            "device.sequence_tokens",
            f"the engine of role {facts.role} holds {facts.sequence_tokens} tokens",
        )


def _check_model(model: ReferenceModel, corpus: bytes) -> None:
    """All kernel engines read one table, so they must share *corpus*."""
    if model.corpus != corpus:
        raise ConfigError("models", "kernel engines must share one corpus")
    if len(model.corpus) > CORPUS_BYTES_MAX:
        raise ConfigError("models", f"a corpus is over {CORPUS_BYTES_MAX} bytes")
    if len(model.fixed_output or b"") > FIXED_BYTES_MAX:
        raise ConfigError("models", f"a fixed output is over {FIXED_BYTES_MAX} bytes")


def _load(launch: Launch, role: int, model: ReferenceModel) -> None:
    corpus = np.frombuffer(model.corpus, np.uint8)
    fixed = np.frombuffer(model.fixed_output or b"\0", np.uint8)
    size = -1 if model.fixed_output is None else len(model.fixed_output)
    launch.on_device(
        entries.load_reference, role, corpus, len(corpus), model.rate, fixed, size
    )


def configure_device(
    launch: Launch,
    c: limits.Capacities,
    service_bytes: int,
    epoch: int,
    hash_key: int,
    seed_key: int,
) -> None:
    """Tell the device its capacities *c* and its secrets."""
    numbers = (
        c.slots,
        c.requests,
        c.channels,
        c.principals,
        c.prompt_bytes,
        c.output_bytes,
        c.sequence_tokens,
        c.request_seconds,
        c.upload_seconds,
        service_bytes,
        c.media_objects,
        c.media_bytes,
        c.image_rows,
        c.image_workers,
        c.image_pixels,
        c.image_dimension,
        c.image_patches,
        c.audio_rows,
        c.audio_workers,
        c.audio_frames,
    )
    secrets = np.array([epoch, hash_key, seed_key], np.uint64)
    launch.once(entries.configure, np.array(numbers, np.int64), secrets)


def attach_engines(
    launch: Launch, capacities: limits.Capacities, engines: Sequence[IEngine]
) -> None:
    """
    Record the facts of *engines*, one per role, and load what kernels run.

    Raises:
        ConfigError: an engine does not fit the device or the others.
    """
    models = [
        IKernelEngine(engine).model
        for engine in engines
        if IKernelEngine.providedBy(engine)
    ]
    for model in models:
        _check_model(model, models[0].corpus)
    for engine in engines:
        facts = engine.facts
        _check(capacities, facts)
        spans, span_bytes = _spans(facts.message_format)
        kernel = IKernelEngine.providedBy(engine)
        numbers: Any = np.array(
            [
                KIND_KERNEL if kernel else KIND_HOST,
                facts.modalities,
                facts.capacity,
                facts.message_format.prefix_bytes,
            ],
            np.int64,
        )
        digest = np.frombuffer(facts.model_sha256, np.uint8)
        launch.on_device(
            entries.configure_role, facts.role, numbers, digest, spans, span_bytes
        )
        for control in facts.controls:
            row = np.frombuffer(control.pack(), np.uint8)
            launch.on_device(entries.configure_control, row)
        if kernel:
            _load(launch, facts.role, IKernelEngine(engine).model)
