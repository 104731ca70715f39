"""
What engines report, judged (`device.md` §9, §10).

| event | lawful | else |
|---|---|---|
| opened(n) | first | fault |
| refused(status) | first | fault |
| emit(bytes, tokens) | after opened, not empty, tokens within the limit | fault |
| done(1), done(2) | after opened | fault |
| failed(status) | after opened | fault |
| another generation's | never | dropped and counted [D4] |
| from the host, of a kernel engine's lease | never | dropped and counted |

A fault counts as failed(503). A status outside 400..599 counts as 503.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, load_acquire
from twisted_aotx.device.numbers import (
    BAD,
    COMPLETED,
    EV_DONE,
    EV_EMIT,
    EV_FAILED,
    EV_OPENED,
    EV_REFUSED,
    EVENTS,
    FAILED,
    FINISH_LENGTH,
    FINISH_STOP,
    KIND_KERNEL,
    TOO_LARGE,
    UNAVAILABLE,
)
from twisted_aotx.device.requests import run_request
from twisted_aotx.device.slots import cancel_active, end_lease
from twisted_aotx.limits import PAGE_TOKENS, TAKE_BYTES_MAX


@dev
def _fail(D: Any, slot: Any, status: Any) -> None:
    request = D.s_request[slot]
    if D.r_status[request] == 0:
        D.r_status[request] = status
    end_lease(D, request, FAILED)


@dev
def _failure_status(value: Any) -> Any:
    if value < 400 or value > 599:
        return i64(UNAVAILABLE)
    return value


@dev
def _open(D: Any, slot: Any, tokens: Any) -> None:
    """Judge the prompt's tokens [D8]."""
    request = D.s_request[slot]
    D.s_opened[slot] = 1
    # In this order nothing overflows, whatever an engine reports.
    if tokens < 1 or tokens > D.sequence_tokens - D.r_limit[request]:
        _fail(D, slot, BAD)
        return
    pages = (tokens + D.r_limit[request] + PAGE_TOKENS - 1) // PAGE_TOKENS
    if pages > D.r_pages[request]:
        _fail(D, slot, BAD)
        return
    run_request(D, request, tokens)


@dev
def _finish(D: Any, slot: Any, finish: Any) -> None:
    request = D.s_request[slot]
    if finish != FINISH_STOP and finish != FINISH_LENGTH:
        _fail(D, slot, UNAVAILABLE)
        return
    D.r_finish[request] = finish
    end_lease(D, request, COMPLETED)


@dev
def _emit(D: Any, slot: Any, size: Any, tokens: Any) -> None:
    """Add an emission to the take, or find the engine at fault."""
    limit = D.r_limit[D.s_request[slot]]
    if tokens < 0 or (tokens == 0 and size == 0) or tokens > limit - D.s_tokens[slot]:
        _fail(D, slot, UNAVAILABLE)
        return
    D.s_tokens[slot] += tokens
    D.take_tokens[slot] += tokens
    D.take_bytes[slot] += size


@dev
def _handle(D: Any, slot: Any, kind: Any, value: Any, size: Any) -> None:
    """Handle one event of the current lease; `s_end` says whether it ended."""
    opened = D.s_opened[slot]
    if kind in (EV_REFUSED, EV_DONE, EV_FAILED):
        # Lawful or not, the engine has ended the lease itself.
        D.s_quiet[slot] = 1
    if opened == 0 and kind == EV_OPENED:
        _open(D, slot, value)
    elif opened == 0 and kind == EV_REFUSED:
        _fail(D, slot, _failure_status(value))
    elif opened == 1 and kind == EV_EMIT:
        _emit(D, slot, size, value)
    elif opened == 1 and kind == EV_DONE:
        _finish(D, slot, value)
    elif opened == 1 and kind == EV_FAILED:
        _fail(D, slot, _failure_status(value))
    else:
        _fail(D, slot, UNAVAILABLE)


@dev
def _overflow(D: Any, slot: Any) -> None:
    """
    Discard a take that does not fit; it came before whatever ended the lease [D5].
    """
    request = D.s_request[slot]
    if D.r_total[request] + D.take_bytes[slot] <= D.output_bytes:
        return
    D.take_bytes[slot] = 0
    D.take_tokens[slot] = 0
    D.s_end[slot] = 0
    D.r_status[request] = 0
    cancel_active(D, request, TOO_LARGE)


@dev
def _collect_said(D: Any, slot: Any) -> None:
    """Handle what the kernel engine of *slot* said in this tick; less than a take."""
    for n in range(D.k_events[slot]):
        if D.s_end[slot] == 0:
            _handle(D, slot, D.k_kind[slot][n], D.k_value[slot][n], D.k_size[slot][n])


@dev
def collect_lease(H: Any, D: Any, slot: Any) -> None:
    """
    Handle the events of *slot*'s lease in order, as far as one take goes.
    """
    in_kernels = D.role_kind[D.s_role[slot]] == KIND_KERNEL
    head = H.e_head[slot]
    tail = load_acquire(H.e_tail, slot)
    emissions = i64(0)
    while head < tail and D.s_end[slot] == 0:
        at = head & (EVENTS - 1)
        size = H.e_size[slot][at]
        if in_kernels or H.e_generation[slot][at] != D.s_generation[slot]:
            D.dropped_events += 1
        else:
            if H.e_kind[slot][at] == EV_EMIT:
                if emissions > 0 and D.take_bytes[slot] + size > TAKE_BYTES_MAX:
                    break
                emissions += 1
            _handle(D, slot, H.e_kind[slot][at], H.e_value[slot][at], size)
        head += 1
        D.take_events[slot] += 1
    if in_kernels:
        _collect_said(D, slot)
    _overflow(D, slot)
