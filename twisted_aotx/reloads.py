"""
SIGHUP: the parts of a process take their files as they are now (`http.md` §10).

Rules:

1. One round at a time. Whoever asks during one, or during the start, gets another
   after it; that is one, however often it was asked for.
2. A round first has every part read its files: an error there changes nothing.
3. Then the parts reload in their order. The first that fails ends the round, so that
   nothing is taken that counts on it.
4. What could not be done in time and happens later asks for a round: it finds done
   what is, and does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from twisted_aotx.parts import EXPECTED, Part, reasons

# In the class it would be named after the class.
_log = Logger("aotx")


class Reloads:
    """
    The rounds of one process.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._may_begin = False
        self._is_under_way = False
        self._is_asked_for = False

    def open(self) -> None:
        """
        Every part has started.
        """
        self._may_begin = True
        self._begin()

    def close(self) -> None:
        """
        The parts are going to stop: begin nothing more, say nothing of what breaks off.
        """
        self._may_begin = False

    def ask(self) -> None:
        """
        Have a round that reads every file after this moment.
        """
        self._is_asked_for = True
        self._begin()

    def _begin(self) -> None:
        if self._is_asked_for and self._may_begin and not self._is_under_way:
            self._is_asked_for = False
            self._is_under_way = True
            Deferred.fromCoroutine(self._round()).addBoth(self._ended)

    def _ended(self, _result: object) -> None:
        self._is_under_way = False
        self._begin()

    async def _round(self) -> None:
        lines: list[str] = []
        part = self._parts[0]
        try:
            for part in self._parts:
                part.read_again()
            for part in self._parts:
                await part.reload(self._late)
        except Exception as error:
            lines = reasons(error)
            if self._may_begin:
                _tell(part, lines, error)
        for part in self._parts:
            part.reloaded(lines)

    def _late(self) -> None:
        _log.info("what a reload gave up has happened: reloading again")
        self.ask()


def _tell(part: Part, lines: Sequence[str], error: Exception) -> None:
    for line in lines:
        _log.error("{part} goes on as before: {line}", part=part.name, line=line)
    if not isinstance(error, EXPECTED):
        _log.failure("the reload failed in an unexpected way", Failure(error))
