"""
Imports: a source from an https URL of the caller's (`http.md` §8).

Order, each step with its refusal: action → no other import of the principal → URL →
budgets → the source is fetched (`imports_fetch`) → content type → upload. Nothing
reaches the device before the source is whole and its type is right.
"""

from __future__ import annotations

from collections.abc import Mapping

from twisted_aotx.errors import Problem
from twisted_aotx.gateway.bodies import plain_type
from twisted_aotx.gateway.budgets import Hold
from twisted_aotx.gateway.imports_fetch import TOTAL_SECONDS
from twisted_aotx.gateway.imports_urls import ImportURL, parse_url
from twisted_aotx.gateway.media_spool import Spool
from twisted_aotx.gateway.problems import ProblemCode, refusal
from twisted_aotx.gateway.resource import Call
from twisted_aotx.gateway.uploads import Source, upload
from twisted_aotx.gateway.waiting import ClientLeft, TimeUp, when_gone, within
from twisted_aotx.wire.numbers import Action, MediaFormat


async def import_source(
    call: Call,
    url: object,
    formats: Mapping[bytes, MediaFormat],
    *,
    takes_work: bool,
) -> Source:
    """
    Fetch *url* and make it a source of the caller.

    Args:
        url: what the body holds there, of any type.
        formats: the content types that are taken.
        takes_work: whether the call has no work slot yet.

    Raises:
        Problem: as the module says, and what `uploads` says.
        ClientLeft: the client went before the source was whole.
    """
    gateway, principal = call.gateway, call.principal
    budgets = gateway.budgets
    if not principal.actions & Action.FETCH:
        raise refusal(ProblemCode.URL_FORBIDDEN)
    budgets.fetches.check(principal.id)
    parsed = parse_url(url)
    bytes_max = min(call.settings.limits.upload_bytes, principal.media_bytes)
    holds: list[Hold] = []
    with call.keeping():
        try:
            if takes_work:
                call.hold_work()
            holds.append(budgets.fetches.take(principal.id))
            holds.append(budgets.body_credit.take(bytes_max))
            with Spool() as spool:
                sent_type = await _fetched(call, parsed, spool, bytes_max)
                format = formats.get(plain_type(sent_type))
                if format is None:
                    raise refusal(ProblemCode.MEDIA_TYPE)
                if not spool.size:
                    raise refusal(ProblemCode.MEDIA_LIMIT)
                holds[-1].shrink(spool.size)
                return await upload(
                    gateway, call.caller, spool, format, origin="import"
                )
        finally:
            for hold in holds:
                hold.release()


async def _fetched(call: Call, url: ImportURL, spool: Spool, bytes_max: int) -> bytes:
    gateway = call.gateway
    counted = gateway.metrics.media.imported
    fetching = gateway.fetcher.fetch(url, call.settings.urls, spool, bytes_max)
    clock, gone = gateway.reactor, when_gone(call)
    try:
        found = await within(fetching, clock=clock, seconds=TOTAL_SECONDS, left=gone)
    except Problem as problem:
        counted(problem.code)
        raise
    except TimeUp:
        counted(ProblemCode.SOURCE_TRANSFER.value)
        raise refusal(ProblemCode.SOURCE_TRANSFER) from None
    except ClientLeft:
        counted("left")
        raise
    counted()
    return found
