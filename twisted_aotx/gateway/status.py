"""
What a path and a reply say about a request (`http.md` §4, §6, §7). Layer 4.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from twisted_aotx.client import Window
from twisted_aotx.errors import Problem, RemoteWireError
from twisted_aotx.gateway.problems import ProblemCode, invalid_field, refusal
from twisted_aotx.gateway.resource import Call
from twisted_aotx.wire.handles import RequestHandle
from twisted_aotx.wire.numbers import TERMINAL_PHASES, Finish, Phase
from twisted_aotx.wire.packet import ReplyHeader

#: Request phases by their names in JSON.
STATES: Final = {
    Phase.QUEUED: "queued",
    Phase.PREPARING: "preparing",
    Phase.RUNNING: "running",
    Phase.COMPLETED: "completed",
    Phase.FAILED: "failed",
    Phase.CANCELLED: "cancelled",
}
_FINISH_REASONS: Final = {Finish.STOP: "stop", Finish.LENGTH: "length"}


def handle_of(call: Call) -> RequestHandle:
    """
    The handle in the path; its form was checked by the route.

    Raises:
        Problem: 400 param `request_id`: its epoch or id is zero.
    """
    try:
        return RequestHandle.parse(call.args["id"])
    except RemoteWireError:
        message = "Neither epoch nor id of a handle is zero."
        raise invalid_field("request_id", message) from None


def finish_reason(reply: ReplyHeader) -> str | None:
    """
    Why a completed request ended; None unless completed.
    """
    if reply.phase != Phase.COMPLETED:
        return None
    return _FINISH_REASONS.get(Finish(reply.finish))


def usage(reply: ReplyHeader) -> dict[str, int]:
    """
    USAGE: the tokens of a request so far.
    """
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.sampled_tokens,
        "total_tokens": reply.prompt_tokens + reply.sampled_tokens,
    }


def status(
    handle: RequestHandle, reply: ReplyHeader, output: dict[str, Any] | None = None
) -> dict[str, Any]:
    """
    STATUS: a request as a READ or CANCEL tells it; *output* stands in it if given.
    """
    shown = {} if output is None else {"output": output}
    return {
        "schema": "aotx.request.v1",
        "id": str(handle),
        "runtime_epoch": str(handle.epoch),
        "model_role": reply.role,
        "state": STATES[Phase(reply.phase)],
        "cancel_requested": bool(reply.cancel_requested),
        "status": reply.failure_status,
        "persistence": "ephemeral",
        "usage": usage(reply),
        **shown,
        "finish_reason": finish_reason(reply),
    }


def output(window: Window, cursor: int) -> dict[str, Any]:
    """
    The `output` of STATUS: the exact bytes of *window*, which begins at *cursor*.
    """
    return {
        "encoding": "base64",
        "bytes": base64.b64encode(window.data).decode("ascii"),
        "cursor": str(cursor),
        "next_cursor": str(cursor + len(window.data)),
        "total_bytes": str(window.reply.total_bytes),
    }


def ended_badly(reply: ReplyHeader) -> Problem | None:
    """
    The problem of an ended request; None when it completed as it should.

    Success is: completed, finish 1 or 2, status 0, no cancel flag (`http.md` §7).
    """
    assert reply.phase in TERMINAL_PHASES, reply.phase
    if finish_reason(reply) and not reply.failure_status and not reply.cancel_requested:
        return None
    known = 400 <= reply.failure_status <= 599
    cancelled = reply.phase == Phase.CANCELLED or reply.cancel_requested
    code = ProblemCode.REQUEST_CANCELLED if cancelled else ProblemCode.REQUEST_FAILED
    return refusal(code, status=reply.failure_status if known else 503)
