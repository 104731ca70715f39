"""
The runtime: device thread, doorbells, and the bridge between device and engines.
"""

from twisted_aotx.runtime.service import RuntimeService

__all__ = ["RuntimeService"]
