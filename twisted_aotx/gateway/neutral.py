"""
Fields that cannot change a result, and their values that we take [D17].

Layer 4, sans-IO. The standard route only: there every other value is refused with the
field's name; the native route knows none of these keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from twisted_aotx.gateway.problems import invalid_field


def check_neutral(fields: Mapping[str, Any]) -> None:
    """
    Judge the neutral fields among *fields*, which hold no null.

    Raises:
        Problem: 400 with the field's name.
    """
    for name, accepted in NEUTRAL.items():
        if name in fields and not accepted(fields[name], fields):
            raise invalid_field(name, f"This value of {name} is not offered.")


def is_integer(value: object) -> bool:
    """
    Whether *value* is a whole number of JSON; `true` is none.
    """
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """
    Whether *value* is a number of JSON; `true` is none.
    """
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_zero(value: object, fields: Mapping[str, Any]) -> bool:
    return is_number(value) and value == 0


def _seed(value: object, fields: Mapping[str, Any]) -> bool:
    return is_integer(value) and _is_zero(fields.get("temperature"), fields)


def _metadata(value: object, fields: Mapping[str, Any]) -> bool:
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())


#: What cannot change the result, by field [D17]: (value, every field) → accepted.
NEUTRAL: Final[dict[str, Callable[[Any, Mapping[str, Any]], bool]]] = {
    "frequency_penalty": _is_zero,
    "presence_penalty": _is_zero,
    "logprobs": lambda value, _: value is False,
    "logit_bias": lambda value, _: value == {},
    "stop": lambda value, _: value == [],
    "tools": lambda value, _: value == [],
    "tool_choice": lambda value, _: value == "none",
    "seed": _seed,
    "response_format": lambda value, _: value == {"type": "text"},
    "parallel_tool_calls": lambda value, _: isinstance(value, bool),
    "service_tier": lambda value, _: value == "auto",
    "user": lambda value, _: isinstance(value, str),
    "metadata": _metadata,
}
