"""
Reading a request body, behind one function (`http.md` §3).

Order, each step with its refusal: content type (415) → declared length (413) → body
buffer and byte credit (429) → reader (429 after a wait) → `100 Continue` if asked →
content encoding (415) → the bytes (408, 413, 400) → credit shrinks to the real size.
Every path out gives back what it took.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from twisted.internet.defer import Deferred

from twisted_aotx.gateway.problems import ProblemCode, refusal

if TYPE_CHECKING:
    from twisted_aotx.gateway.budgets import Budgets, Hold
    from twisted_aotx.gateway.txrequest import GatewayRequest

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
    *,
    principal: bytes,
    content_types: frozenset[bytes],
    bytes_max: int,
) -> Body:
    """
    Read the body of *txrequest*: at most *bytes_max* bytes of one of *content_types*.

    Raises:
        Problem: as the module says.
    """
    if _media_type(txrequest) not in content_types:
        raise refusal(ProblemCode.CONTENT_TYPE)
    declared = txrequest.body_length
    if declared is not None and declared > bytes_max:
        raise refusal(ProblemCode.BODY_LIMIT)
    buffer = budgets.bodies.take()
    try:
        credit = budgets.body_credit.take(bytes_max if declared is None else declared)
    except BaseException:
        buffer.release()
        raise
    try:
        data = await _read(txrequest, budgets, principal, bytes_max)
    except BaseException:
        buffer.release()
        credit.release()
        raise
    credit.shrink(len(data))
    return Body(data, (buffer, credit))


async def _read(
    txrequest: GatewayRequest, budgets: Budgets, principal: bytes, bytes_max: int
) -> bytes:
    reader = await _reader(txrequest, budgets, principal)
    try:
        txrequest.continue_if_asked()
        if not _is_identity(txrequest):
            raise refusal(ProblemCode.CONTENT_ENCODING)
        budgets.body_deadlines.start(txrequest)
        return await txrequest.read_body(bytes_max)
    finally:
        budgets.body_deadlines.stop(txrequest)
        reader.release()


async def _reader(
    txrequest: GatewayRequest, budgets: Budgets, principal: bytes
) -> Hold:
    """
    A body reader; a client that goes does not wait for one any longer.
    """
    waiting = Deferred.fromCoroutine(budgets.readers.take(principal))
    txrequest.notifyFinish().addErrback(lambda _: waiting.cancel())
    return await waiting


def _media_type(txrequest: GatewayRequest) -> bytes:
    """
    The content type without parameters, in lower case; empty when there is none.
    """
    values = txrequest.requestHeaders.getRawHeaders(b"Content-Type", [b""])
    return values[0].partition(b";")[0].strip(b" \t").lower()


def _is_identity(txrequest: GatewayRequest) -> bool:
    values = txrequest.requestHeaders.getRawHeaders(b"Content-Encoding", [])
    return all(value.strip(b" \t").lower() in (b"", b"identity") for value in values)
