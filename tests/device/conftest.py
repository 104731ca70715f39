"""
The kernel cache must be chosen before any test module imports a kernel.
"""

from __future__ import annotations

from twisted_aotx.device.cache import prepare_cache

prepare_cache()
