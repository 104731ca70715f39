"""
How kernel functions are put together (`device.parts`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core import config as _config

from twisted_aotx.device.backend import dev, i64
from twisted_aotx.device.bits import add64

config: Any = _config
pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="of the compiler")


@dev
def _double(words: Any, at: Any) -> Any:
    words[at] = add64(words[at], words[at])
    return i64(at) + 1


@dev
def _double_two(words: Any, at: Any) -> Any:
    return _double(words, _double(words, at))


@njit
def _foreign(words: Any) -> Any:
    return _double_two(words, 0) + _double(words, 2)


def test_python_calls_any_level() -> None:
    """Each function is whole when Python calls it, whoever else calls it."""
    words = np.array([1, 2, 3], np.uint64)

    assert (_double_two(words, 0), _double(words, 2)) == (2, 3)
    assert words.tolist() == [2, 4, 6]


def test_functions_of_others_may_call_kernel_functions() -> None:
    """numba's own way of linking finds all that a part calls."""
    words = np.array([1, 2, 3], np.uint64)

    assert _foreign(words) == 5
    assert words.tolist() == [2, 4, 6]


def test_a_constant_compiles_nothing_anew() -> None:
    @dev
    def callee(at: Any) -> Any:
        return i64(at) + 1

    @dev
    def caller(at: Any) -> Any:
        return callee(1) + callee(2) + callee(i64(at))

    assert caller(3) == 9
    assert len(caller.signatures) == 1
    # What Python may call has not been compiled: kernels call the part.
    assert callee.signatures == []
