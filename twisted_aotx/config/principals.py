"""
The `principals` list of `gateway.json` (`http.md` §9).

Principals are separate: no id and no token hash may stand in the file twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import attrs

from twisted_aotx.config.section import Section, kind_of
from twisted_aotx.gateway.settings import Principal
from twisted_aotx.wire.numbers import Action

#: Rows that fit a grant file of 65,536 bytes (`wire.md` §6).
PRINCIPALS_MAX: Final = 1022
#: Token hashes of one principal, so that tokens can be rotated.
TOKENS_MAX: Final = 4
QUOTA_MAX: Final = 2**31 - 1
MEDIA_BYTES_MAX: Final = 2**63 - 1

#: The names of the action bits, in the order of their bits.
ACTIONS: Final[dict[str, Action]] = {action.name.lower(): action for action in Action}
#: A name of reference files that gives no bit here [D1, D24].
AFFECT_MANAGE: Final = "affect_manage"

_KEYS = (
    "id",
    "token_sha256",
    "models",
    "actions",
    "pages",
    "tokens",
    "requests",
    "media",
    "media_bytes",
)
_ID = re.compile(r"[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@attrs.define
class _Seen:
    """
    What stood earlier in the file, with where it stood.
    """

    ids: dict[bytes, str] = attrs.field(factory=dict)
    tokens: dict[bytes, str] = attrs.field(factory=dict, repr=False)


def read_principals(top: Section, aliases: Sequence[str]) -> tuple[Principal, ...]:
    """
    Every principal of the file; faults are noted in *top*.

    Args:
        top: The whole file.
        aliases: The names under `models`.
    """
    items = top.items("principals")
    if len(items) > PRINCIPALS_MAX:
        top.fail("principals", f"must be at most {PRINCIPALS_MAX}, not {len(items)}")
    seen = _Seen()
    return tuple(
        _principal(Section.of(top.faults, path, item), aliases, seen)
        for path, item in items
    )


def _principal(part: Section, aliases: Sequence[str], seen: _Seen) -> Principal:
    part.only(_KEYS)
    return Principal(
        id=_id(part, seen),
        token_sha256=_token_hashes(part, seen),
        models=_names(part, "models", aliases),
        actions=_actions(part),
        pages=part.integer("pages", low=0, high=QUOTA_MAX, default=0),
        tokens=part.integer("tokens", low=1, high=QUOTA_MAX, default=256),
        requests=part.integer("requests", low=1, high=QUOTA_MAX, default=2),
        media=part.integer("media", low=0, high=QUOTA_MAX, default=16),
        media_bytes=part.integer(
            "media_bytes", low=0, high=MEDIA_BYTES_MAX, default=32 << 20
        ),
    )


def _id(part: Section, seen: _Seen) -> bytes:
    text = part.text("id")
    if not isinstance(part.value.get("id"), str):
        return bytes(16)
    if not _ID.fullmatch(text) or not int(text, 16):
        part.fail("id", "must be 32 lowercase hex digits, not all zero")
        return bytes(16)
    value = bytes.fromhex(text)
    if value in seen.ids:
        part.fail("id", f"stands already at {seen.ids[value]}")
    seen.ids.setdefault(value, part.key_path("id"))
    return value


def _token_hashes(part: Section, seen: _Seen) -> tuple[bytes, ...]:
    """The hashes; a wrong one is never shown, it may be the token itself."""
    items = part.items("token_sha256")
    is_list = isinstance(part.value.get("token_sha256"), list)
    if is_list and not 1 <= len(items) <= TOKENS_MAX:
        part.fail("token_sha256", f"must hold 1 .. {TOKENS_MAX} hashes")
    hashes: list[bytes] = []
    for path, item in items:
        if not isinstance(item, str) or not _SHA256.fullmatch(item):
            part.faults.note(path, "must be 64 lowercase hex digits")
            continue
        value = bytes.fromhex(item)
        if value in seen.tokens:
            part.faults.note(path, f"stands already at {seen.tokens[value]}")
        seen.tokens.setdefault(value, path)
        hashes.append(value)
    return tuple(hashes)


def _names(part: Section, key: str, known: Sequence[str]) -> tuple[str, ...]:
    """A list of names out of *known*, none of them twice."""
    names: list[str] = []
    for path, item in part.items(key):
        reason = _name_reason(item, known, names)
        if reason is None:
            names.append(item)
        else:
            part.faults.note(path, reason)
    return tuple(names)


def _name_reason(item: Any, known: Sequence[str], names: Sequence[str]) -> str | None:
    if not isinstance(item, str):
        return f"must be a string, not {kind_of(item)}"
    if item not in known:
        return f"is not one of {', '.join(known) or 'nothing'}"
    if item in names:
        return "stands twice"
    return None


def _actions(part: Section) -> int:
    names = _names(part, "actions", (*ACTIONS, AFFECT_MANAGE))
    bits = 0
    for name in names:
        bits |= ACTIONS.get(name, 0)
    if AFFECT_MANAGE in names:
        part.warn("actions", f"{AFFECT_MANAGE} is not offered and gives nothing")
    if not bits and isinstance(part.value.get("actions"), list):
        part.fail("actions", f"must name one action or more of {', '.join(ACTIONS)}")
    if bits & Action.FETCH and not bits & Action.UPLOAD:
        part.fail("actions", "fetch needs upload")
    return bits
