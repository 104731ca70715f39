"""
Bodies to judge, and how their tests judge them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from twisted_aotx.errors import Problem
from twisted_aotx.gateway.forms import Form, Terms, completion, native
from twisted_aotx.limits import PAYLOAD_BYTES_MAX
from twisted_aotx.wire.info import ModelRow
from twisted_aotx.wire.numbers import Modality

Judge = Callable[[dict[str, Any], Terms], Form]

TEXT_ROW = ModelRow(role=2, modalities=Modality.TEXT, sha256=b"m" * 32)
EVERY_ROW = ModelRow(role=4, modalities=7, sha256=b"e" * 32)
TERMS = Terms(
    models={"m": TEXT_ROW, "org/every": EVERY_ROW},
    output_tokens=300,
    prompt_bytes=PAYLOAD_BYTES_MAX,
    control_selection=True,
)
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AAAA"}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
MEDIA = {"type": "media", "media_id": "media-" + "a" * 32, "modality": "image"}
CONTROL = {
    "schema": "aotx.control.selection.v1",
    "kind": "residual_vector",
    "qualification_sha256": "ab" * 32,
    "dose": -40000,
}
BOTH = pytest.mark.parametrize("judge", [completion, native])


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}]} | fields


def said(content: Any, role: str = "user") -> dict[str, Any]:
    return body(messages=[{"role": role, "content": content}])


def each(name: str, *values: Any) -> list[tuple[str, Any]]:
    return [(name, value) for value in values]


def refused(judge: Judge, body: dict[str, Any], terms: Terms = TERMS) -> Problem:
    with pytest.raises(Problem) as caught:
        judge(body, terms)
    return caught.value


def assert_invalid(judge: Judge, body: dict[str, Any], param: str) -> None:
    problem = refused(judge, body)
    assert (problem.status, problem.code, problem.param) == (
        400,
        "invalid_field",
        param,
    )
