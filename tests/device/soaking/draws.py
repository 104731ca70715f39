"""
Values of Hypothesis strategies from a plain generator of random numbers.

Hypothesis remembers every example that it made and stops one that grows long; a run of
hours wants neither. So a strategy is asked for a value here, with a provider whose
choices depend on nothing but the generator: not on what Hypothesis finds in modules.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis.control import BuildContext
from hypothesis.errors import StopTest
from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.internal.conjecture.providers import PrimitiveProvider
from hypothesis.strategies import SearchStrategy

if TYPE_CHECKING:
    from hypothesis.internal.intervalsets import IntervalSet

T = TypeVar("T")
#: Characters and bytes drawn at most where a strategy names no limit.
_SIZE_MAX = 16
#: Integers without a bound are drawn up to this one.
_INTEGER_MAX = 2**64


class _Plain(PrimitiveProvider):
    """Every choice evenly, but small sizes and plain letters more often."""

    lifetime = "test_case"

    def __init__(self, conjecturedata: ConjectureData | None, /, random: Random):
        super().__init__(conjecturedata)
        self._random = random

    def draw_boolean(self, p: float = 0.5) -> bool:
        return self._random.random() < p

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: dict[int, float] | None = None,
        shrink_towards: int = 0,
    ) -> int:
        low = -_INTEGER_MAX if min_value is None else min_value
        high = _INTEGER_MAX if max_value is None else max_value
        return self._random.randint(low, max(low, high))

    def draw_float(self, *, min_value: float = 0.0, **limits: Any) -> float:
        raise NotImplementedError("no strategy of the machine draws a float")

    def draw_string(
        self, intervals: IntervalSet, *, min_size: int = 0, max_size: int = _SIZE_MAX
    ) -> str:
        few = min(len(intervals), 128 if self.draw_boolean(0.8) else len(intervals))
        return "".join(
            intervals.char_in_shrink_order(self._random.randrange(few))
            for _ in range(self._size(min_size, max_size))
        )

    def draw_bytes(self, min_size: int = 0, max_size: int = _SIZE_MAX) -> bytes:
        return self._random.randbytes(self._size(min_size, max_size))

    def _size(self, min_size: int, max_size: int) -> int:
        return self._random.randint(min_size, min(max_size, min_size + _SIZE_MAX))


class Unlucky(Exception):
    """A strategy filters its values, and none of those drawn passed."""


class Draws:
    """
    What a step draws. With *shown*, values that a rule draws by itself are printed.
    """

    def __init__(self, random: Random, *, shown: bool = False) -> None:
        self._data = ConjectureData(
            random=None, provider=_Plain, provider_kw={"random": random}
        )
        self._context = BuildContext(
            self._data, is_final=shown, wrapped_test=lambda: None
        )

    def __enter__(self) -> Draws:
        self._context.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._context.__exit__(*failure)

    def of(self, strategy: SearchStrategy[T]) -> T:
        """
        One value.

        Raises:
            Unlucky: there is none to be had.
        """
        try:
            return self._data.draw(strategy)
        except StopTest:
            raise Unlucky from None
