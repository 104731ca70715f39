"""
From a checked request to its answer: runs the handler, renders whatever comes of it.

One renderer for this edge: a `Problem`, and every exception that `problems` knows,
becomes an error object; anything else is a fault of ours, 500 `internal_error`, of
which the log gets the class and nothing more (`http.md` §1).
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from twisted_aotx.errors import DeviceRefused, Problem
from twisted_aotx.gateway.answers import Answer, error_answer, write_answer
from twisted_aotx.gateway.checks import Passed
from twisted_aotx.gateway.problems import ProblemCode, of_exception, refusal

if TYPE_CHECKING:
    from twisted_aotx.gateway.checks import Checks
    from twisted_aotx.gateway.resource import Call
    from twisted_aotx.gateway.txrequest import GatewayRequest

# In the class it would be named after the class.
_log = Logger("aotx.gateway")


class Dispatcher(Resource):
    """
    The root of the site, and its only resource: routes are found by `checks`.
    """

    isLeaf = True

    def __init__(self, checks: Checks) -> None:
        super().__init__()
        self.checks = checks

    def render(self, txrequest: GatewayRequest) -> int:
        """
        Answer *txrequest*, now or later. Raises nothing.
        """
        try:
            passed = self.checks.run(txrequest)
        except Exception as error:
            write_answer(txrequest, error_answer(self._problem(error)))
            return NOT_DONE_YET
        if isinstance(passed, Answer):
            write_answer(txrequest, passed)
        else:
            self._handle(passed)
        return NOT_DONE_YET

    def _handle(self, passed: Passed) -> None:
        task = Deferred.fromCoroutine(self._answer(passed))
        task.addErrback(self._lost, passed.call)

    async def _answer(self, passed: Passed) -> None:
        call = passed.call
        try:
            answer = await passed.route.handler(call)
        except Exception as error:
            if call.gone:
                return
            answer = error_answer(self._problem(error, call))
        if answer is not None and not call.gone:
            write_answer(call.txrequest, answer)

    def _problem(self, error: Exception, call: Call | None = None) -> Problem:
        """
        What to answer for *error*.
        """
        if call is not None and _says_stale(error):
            call.gateway.informations.forget(call.caller)
        problem = of_exception(error)
        if problem is None:
            _log.error("a call failed: {error}", error=type(error).__name__)
            problem = refusal(ProblemCode.INTERNAL_ERROR)
        return problem

    def _lost(self, failure: Failure, call: Call) -> None:
        """
        Not even the answer could be written.
        """
        name = failure.type.__name__ if failure.type else "unknown"
        _log.error("an answer failed: {error}", error=name)
        call.end()
        if not call.gone and not call.txrequest.finished:
            call.txrequest.channel.abort()


def _says_stale(error: Exception) -> bool:
    """
    Whether *error* says that the grants or the epoch are others now.
    """
    return isinstance(error, DeviceRefused) and error.status in (403, 410)
