"""
Where numba keeps a compiled kernel: by what it is, not by where its source lies.

The cache directory is named after the hash of all kernel sources (`cache`), so two
checkouts or environments with the same kernels share what either has compiled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numba.core import config as _config
from numba.core.caching import CacheImpl, UserProvidedCacheLocator

# Its names are made when it is imported.
config: Any = _config

_PACKAGE = Path(__file__).parent


class KernelCacheLocator(UserProvidedCacheLocator):
    """
    For functions of this package; other people's go where they always did.
    """

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """None for a function that is not of this package."""
        if Path(py_file).parent != _PACKAGE:
            return None
        return super().from_function(py_func, py_file)

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """The part of the path below the cache directory: the package's name."""
        return Path(py_file).parent.name


def use_locator() -> None:
    """Have numba ask for it first; before any kernel is decorated."""
    ours = f"{KernelCacheLocator.__module__}.{KernelCacheLocator.__qualname__}"
    others = config.CACHE_LOCATOR_CLASSES or ",".join(
        locator.__name__ for locator in CacheImpl._locator_classes
    )
    if not others.startswith(ours):
        config.CACHE_LOCATOR_CLASSES = f"{ours},{others}"
