"""
Values that cannot change a result, and null (D17).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.form_samples import (
    TERMS,
    assert_invalid,
    body,
    each,
)
from twisted_aotx.gateway.forms import completion, native

OPTIONAL = [
    *("stream", "stream_options", "n", "modalities", "store", "max_tokens"),
    *("max_completion_tokens", "temperature", "top_p"),
]
NEUTRAL: list[tuple[str, Any]] = [
    ("frequency_penalty", 0),
    ("frequency_penalty", 0.0),
    ("presence_penalty", 0),
    ("presence_penalty", -0.0),
    ("logprobs", False),
    ("logit_bias", {}),
    ("stop", []),
    ("tools", []),
    ("tool_choice", "none"),
    ("response_format", {"type": "text"}),
    ("parallel_tool_calls", True),
    ("parallel_tool_calls", False),
    ("service_tier", "auto"),
    ("user", ""),
    ("user", "someone"),
    ("metadata", {}),
    ("metadata", {"a": "b", "c": ""}),
]
NOT_NEUTRAL: list[tuple[str, Any]] = [
    *each("frequency_penalty", 0.1, -1, False, "0"),
    *each("presence_penalty", 0.1, -1, False, []),
    *each("logprobs", True, 0, "false"),
    *each("logit_bias", {"1": 1}, [], 0),
    *each("stop", ["x"], "x", "", {}),
    *each("tools", [{"type": "function"}], {}, "none"),
    *each("tool_choice", "auto", "required", {"type": "none"}, []),
    *each(
        "response_format", {"type": "json_object"}, {}, "text", {"type": "text", "x": 1}
    ),
    *each("parallel_tool_calls", 0, 1, "true", []),
    *each("service_tier", "default", "", 0, []),
    *each("user", 1, [], {}, True),
    *each("metadata", [], "x", {"a": 1}, {"a": None}, {"a": {}}),
    *each("seed", 0, 1),
]


@pytest.mark.parametrize(("name", "value"), NEUTRAL)
def test_neutral_values_change_nothing(name: str, value: Any) -> None:
    """
    D17: what cannot change the result is accepted on the standard route only.
    """
    assert completion(body(**{name: value}), TERMS) == completion(body(), TERMS)
    assert_invalid(native, body(**{name: value}), "body")


@pytest.mark.parametrize(("name", "value"), NOT_NEUTRAL)
def test_every_other_value_is_refused_by_name(name: str, value: Any) -> None:
    """
    D17: every other value is refused with its name in `param`.
    """
    assert_invalid(completion, body(**{name: value}), name)
    assert_invalid(native, body(**{name: value}), "body")


@pytest.mark.parametrize("temperature", [0, 0.0])
@pytest.mark.parametrize("seed", [0, -5, 2**63, 10**300])
def test_a_seed_is_neutral_when_nothing_is_sampled(
    temperature: float, seed: int
) -> None:
    """
    D17: any integer when temperature is given as 0.
    """
    form = completion(body(temperature=temperature, seed=seed), TERMS)

    assert form == completion(body(temperature=0), TERMS)


@pytest.mark.parametrize(
    "fields",
    [
        {"seed": 1, "temperature": 0.1},
        {"seed": 1, "temperature": None},
        {"seed": True, "temperature": 0},
        {"seed": 1.0, "temperature": 0},
        {"seed": "1", "temperature": 0},
    ],
)
def test_a_seed_is_refused_otherwise(fields: dict[str, Any]) -> None:
    assert_invalid(completion, body(**fields), "seed")


@pytest.mark.parametrize(
    "name", [*OPTIONAL, *sorted({name for name, _ in NEUTRAL}), "seed"]
)
def test_null_is_absent_on_the_standard_route(name: str) -> None:
    """
    D17, B51: null for any optional field means absent.
    """
    assert completion(body(**{name: None}), TERMS) == completion(body(), TERMS)


@pytest.mark.parametrize("name", OPTIONAL)
def test_null_is_refused_on_the_native_route(name: str) -> None:
    param = "max_completion_tokens" if name == "max_tokens" else name

    assert_invalid(native, body(**{name: None}), param)


def test_null_is_no_second_limit() -> None:
    form = completion(body(max_tokens=5, max_completion_tokens=None), TERMS)

    assert form.submission.limit == 5
