"""
Control selections of native requests (cases J 155).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.form_samples import (
    CONTROL,
    TERMS,
    assert_invalid,
    body,
    refused,
)
from twisted_aotx.gateway.forms import Terms, completion, native
from twisted_aotx.wire.requests import Selector


@pytest.mark.parametrize("dose", [-40000, -1, 1, 40000])
def test_a_control_becomes_the_selector(dose: int) -> None:
    """
    cases J 155: exactly 48 bytes.
    """
    form = native(body(control=CONTROL | {"dose": dose}), TERMS)

    assert form.submission.selector == (
        b"\1\0\0\0\1\0\0\0" + dose.to_bytes(4, "little", signed=True) + bytes(4)
    ) + bytes.fromhex("ab" * 32)
    assert Selector.unpack(form.submission.selector).dose == dose


@pytest.mark.parametrize(
    ("control", "param"),
    [
        (None, "control"),
        ([], "control"),
        ({}, "control"),
        (CONTROL | {"extra": 1}, "control"),
        ({k: v for k, v in CONTROL.items() if k != "dose"}, "control"),
        (CONTROL | {"schema": "aotx.control.v1"}, "control.schema"),
        (CONTROL | {"schema": None}, "control.schema"),
        (CONTROL | {"kind": "other"}, "control.kind"),
        (CONTROL | {"kind": 1}, "control.kind"),
        *[
            (CONTROL | {"qualification_sha256": v}, "control.qualification_sha256")
            for v in ("AB" * 32, "ab" * 31, "ab" * 32 + "a", "zz" * 32, 5, None)
        ],
        *[
            (CONTROL | {"dose": v}, "control.dose")
            for v in (True, 0.5, 1.0, "1", None, 40001, -40001)
        ],
        (CONTROL | {"dose": 0}, "control"),
        (CONTROL | {"qualification_sha256": "0" * 64}, "control"),
    ],
)
def test_a_control_of_another_form(control: Any, param: str) -> None:
    """
    cases J 155.
    """
    assert_invalid(native, body(control=control), param)


def test_control_is_unknown_on_the_standard_route() -> None:
    assert_invalid(completion, body(control=CONTROL), "body")
    assert_invalid(completion, body(control=None), "body")


def test_a_device_without_selection() -> None:
    """
    cases J 155: 503 `control_selection`, after every fault of the body.
    """
    terms = Terms(
        models=TERMS.models, output_tokens=9, prompt_bytes=9, control_selection=False
    )

    problem = refused(native, body(control=CONTROL), terms)

    assert (problem.status, problem.code) == (503, "control_selection")
    assert refused(native, body(control=CONTROL, n=2), terms).param == "n"
