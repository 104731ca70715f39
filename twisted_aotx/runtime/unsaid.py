"""
Failures whose words are not told.

What an engine, a decoder or our own code raises while it has a prompt, an output or a
source in its hands may quote it. The log gets the exception's class and the traceback,
which say where to look, and nothing of its text.
"""

from __future__ import annotations

from twisted.python.failure import Failure


class Unsaid(Exception):
    """
    Stands for an exception whose text stays untold.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(f"{kind}, whose text is not told: it may quote a caller")


def unsaid(error: BaseException) -> Failure:
    """
    *error* for `Logger.failure`: its class and traceback, not its text nor what it came
    from.
    """
    return Failure(Unsaid(type(error).__name__), Unsaid, error.__traceback__)
