"""
What a process is made of, and how its faults are told. Layer 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from twisted.internet.error import CannotListenError

from twisted_aotx.errors import AOTXError, ConfigErrors


class Part(Protocol):
    """
    Something that a process starts, reloads and stops: a runtime, a gateway.
    """

    name: str

    @property
    def stop_seconds(self) -> float:
        """Seconds that `stop` may take, as it is configured now."""

    async def start(self, died: Callable[[str], None]) -> None:
        """
        Come up; on an error leave nothing behind that `stop` does not undo.

        *died* is to be called with a reason when it fails later.
        """

    def read_again(self) -> None:
        """
        Read again what `reload` would take, and change nothing.

        It raises what `start` would when that could not be taken.
        """

    async def reload(self, late: Callable[[], object]) -> None:
        """
        Take what was read; on an error go on as before.

        *late* is to be called when it happens after all, once this has failed.
        """

    def reloaded(self, reasons: Sequence[str]) -> None:
        """
        A reload of all parts has ended: well, or for *reasons* with the old of some.
        """

    async def stop(self) -> None:
        """Go down, also after half a start."""


#: What a start or a reload may fail with for reasons that its operator can mend.
EXPECTED = (AOTXError, OSError, CannotListenError)


def reasons(error: BaseException | None) -> list[str]:
    """The lines that tell an operator why a start or a reload failed."""
    if isinstance(error, ConfigErrors):
        return [str(one) for one in error.errors]
    text = str(error) or type(error).__name__
    return [" ".join(text.split())]
