"""
`/aotx/v1/policy`: the resident policy, shown and controlled (`http.md` §4).

The route table has checked the action before any body is read (403
`policy_permission`), without the device. All numbers are JSON integers, exact up to
2^64 − 1 both ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from twisted_aotx.client.policy import PolicyReply, policy_read, policy_write
from twisted_aotx.gateway.answers import Answer
from twisted_aotx.gateway.neutral import is_integer
from twisted_aotx.gateway.problems import invalid_field
from twisted_aotx.wire.numbers import PolicyAction, PolicyReason, PolicyState
from twisted_aotx.wire.policy import PolicyWrite

if TYPE_CHECKING:
    from twisted_aotx.gateway.resource import Call

ACTIONS: Final = {action.name.lower(): action for action in PolicyAction}
_KEYS: Final = frozenset({"action", "epoch", "control_revision"})
_WORD_MAX: Final = 2**64 - 1


async def show(call: Call) -> Answer:
    """
    GET: where the policy stands.
    """
    return _answer(await policy_read(call.gateway.client, call.caller))


async def change(call: Call) -> Answer:
    """
    POST: one change of its controls; where it stands after it.
    """
    body = await call.json()
    if body.keys() != _KEYS:
        keys = ", ".join(sorted(_KEYS))
        raise invalid_field("policy", f"The body has exactly {keys}.")
    action = body["action"]
    if not isinstance(action, str) or action not in ACTIONS:
        raise invalid_field("action", f"action is one of {', '.join(ACTIONS)}.")
    epoch = _word(body, "epoch")
    write = PolicyWrite(ACTIONS[action], _word(body, "control_revision"))
    return _answer(await policy_write(call.gateway.client, call.caller, epoch, write))


def _word(body: dict[str, Any], name: str) -> int:
    value = body[name]
    if not is_integer(value) or not 0 <= value <= _WORD_MAX:
        raise invalid_field(name, f"{name} is an integer from 0 to 2^64 - 1.")
    return int(value)


def _answer(reply: PolicyReply) -> Answer:
    report = reply.report
    return Answer(
        body={
            "schema": "aotx.policy.v1",
            "epoch": reply.epoch,
            "abi": report.abi,
            "mode": report.mode,
            "state": PolicyState(report.state).name.lower(),
            "review_enabled": bool(report.review_enabled),
            "pending": report.pending,
            "active_rows": report.active_rows,
            "status": report.result_status,
            "reason": PolicyReason(report.reason).name.lower(),
            "control_revision": report.control_revision,
            "source_frontier": report.source_frontier,
            "completed": report.completed,
            "interrupted": report.interrupted,
            "refused": report.refused,
            "decision": report.decision,
            "saved_generation": report.saved_generation,
            "maximum_ns": report.maximum_ns,
            "last_ns": report.last_ns,
            "written_bytes": report.written_bytes,
            "result_bytes": report.result_bytes,
        }
    )
