"""
Reading a request body, behind one function (`http.md` §3).

Order, each step with its refusal: content type (415) → declared length (413) → body
buffer and byte credit (429) → reader (429 after a wait) → `100 Continue` if asked →
content encoding (415) → the bytes (408, 413, 400) → credit shrinks to the real size.
Every path out gives back what it took.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs
from twisted.internet.defer import Deferred

from twisted_aotx.gateway.problems import ProblemCode, refusal

if TYPE_CHECKING:
    from twisted_aotx.gateway.budgets import Budgets, Hold
    from twisted_aotx.gateway.txrequest import GatewayRequest


@attrs.frozen(kw_only=True)
class Expected:
    """
    What a route takes as its body.
    """

    #: In lower case, without parameters.
    content_types: frozenset[bytes]
    bytes_max: int
    wrong_type: ProblemCode = ProblemCode.CONTENT_TYPE
    too_long: ProblemCode = ProblemCode.BODY_LIMIT


JSON_TYPES: Final = frozenset({b"application/json"})


class Body:
    """
    A body in memory, with the budgets that it holds.
    """

    def __init__(self, data: bytes, holds: tuple[Hold, ...]) -> None:
        self.data = data
        self._holds = holds

    def release(self) -> None:
        """
        Forget the bytes and give back their budgets. Idempotent.
        """
        self.data = b""
        for hold in self._holds:
            hold.release()


async def read_body(
    txrequest: GatewayRequest,
    budgets: Budgets,
    expected: Expected,
    *,
    principal: bytes,
    sink: Callable[[bytes], object] | None = None,
) -> Body:
    """
    Read the body of *txrequest*. With a *sink* its pieces go there as they arrive, and
    the body is empty; its budgets are held all the same.

    Raises:
        Problem: as the module says, or what *sink* raises.
    """
    if content_type(txrequest) not in expected.content_types:
        raise refusal(expected.wrong_type)
    declared = txrequest.body_length
    if declared is not None and declared > expected.bytes_max:
        raise refusal(expected.too_long)
    buffer = budgets.bodies.take()
    try:
        credit = budgets.body_credit.take(
            expected.bytes_max if declared is None else declared
        )
    except BaseException:
        buffer.release()
        raise
    try:
        reader = await _reader(txrequest, budgets, principal)
        try:
            data = await _read(txrequest, budgets, expected, sink)
        finally:
            budgets.body_deadlines.stop(txrequest)
            reader.release()
    except BaseException:
        buffer.release()
        credit.release()
        raise
    credit.shrink(txrequest.body_bytes)
    return Body(data, (buffer, credit))


async def _read(
    txrequest: GatewayRequest,
    budgets: Budgets,
    expected: Expected,
    sink: Callable[[bytes], object] | None,
) -> bytes:
    txrequest.continue_if_asked()
    if not _is_identity(txrequest):
        raise refusal(ProblemCode.CONTENT_ENCODING)
    budgets.body_deadlines.start(txrequest)
    return await txrequest.read_body(
        expected.bytes_max, too_long=expected.too_long, sink=sink
    )


async def _reader(
    txrequest: GatewayRequest, budgets: Budgets, principal: bytes
) -> Hold:
    """
    A body reader; a client that goes does not wait for one any longer.
    """
    waiting = Deferred.fromCoroutine(budgets.readers.take(principal))
    txrequest.notifyFinish().addErrback(lambda _: waiting.cancel())
    return await waiting


def content_type(txrequest: GatewayRequest) -> bytes:
    """
    The content type of a body, as `plain_type` gives it; empty when there is none.
    """
    values = txrequest.requestHeaders.getRawHeaders(b"Content-Type", [b""])
    return plain_type(values[0])


def plain_type(header: bytes) -> bytes:
    """
    The value of a Content-Type header without parameters, in lower case.
    """
    return header.partition(b";")[0].strip(b" \t").lower()


def _is_identity(txrequest: GatewayRequest) -> bool:
    values = txrequest.requestHeaders.getRawHeaders(b"Content-Encoding", [])
    return all(value.strip(b" \t").lower() in (b"", b"identity") for value in values)
