"""
A control selection of a native request: JSON to the 48 selector bytes (`wire.md` §8).

Layer 4, sans-IO.
"""

from __future__ import annotations

import re
from typing import Any, Final

from twisted_aotx.gateway.problems import invalid_field
from twisted_aotx.wire.info import DOSE_MAX
from twisted_aotx.wire.requests import Selector

_KEYS: Final = frozenset({"schema", "kind", "qualification_sha256", "dose"})
_SCHEMA: Final = "aotx.control.selection.v1"
_KIND: Final = "residual_vector"
_DIGEST: Final = re.compile("[0-9a-f]{64}")


def selector(control: Any) -> bytes:
    """
    The selector of *control*, the value of that key.

    Raises:
        Problem: 400 with the param of `http.md` §5.
    """
    if not isinstance(control, dict) or control.keys() != _KEYS:
        raise invalid_field(
            "control", f"control has exactly {', '.join(sorted(_KEYS))}."
        )
    if control["schema"] != _SCHEMA:
        raise invalid_field("control.schema", f"control.schema must be {_SCHEMA}.")
    if control["kind"] != _KIND:
        raise invalid_field("control.kind", f"control.kind must be {_KIND}.")
    digest = control["qualification_sha256"]
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        message = "control.qualification_sha256 must be 64 lowercase hex digits."
        raise invalid_field("control.qualification_sha256", message)
    dose = control["dose"]
    if (
        not isinstance(dose, int)
        or isinstance(dose, bool)
        or not -DOSE_MAX <= dose <= DOSE_MAX
    ):
        message = f"control.dose must be an integer from -{DOSE_MAX} to {DOSE_MAX}."
        raise invalid_field("control.dose", message)
    if not dose or not int(digest, 16):
        raise invalid_field("control", "A zero digest or dose selects nothing.")
    return Selector(dose=dose, qualification_sha256=bytes.fromhex(digest)).pack()
