"""
Every fuzzer, by its name.
"""

from __future__ import annotations

from typing import Final

from tests.fuzz.harness import Target
from tests.fuzz.target_bodies import BodiesTarget
from tests.fuzz.target_broker import BrokerTarget
from tests.fuzz.target_config import ConfigTarget
from tests.fuzz.target_device import DeviceTarget
from tests.fuzz.target_gguf import GGUFTarget
from tests.fuzz.target_grants import GrantsTarget
from tests.fuzz.target_http import HTTPTarget
from tests.fuzz.target_inline import InlineTarget
from tests.fuzz.target_media import MediaTarget

TARGETS: Final[dict[str, type[Target]]] = {
    each.name: each
    for each in (
        BrokerTarget,
        DeviceTarget,
        HTTPTarget,
        BodiesTarget,
        InlineTarget,
        GrantsTarget,
        ConfigTarget,
        GGUFTarget,
        MediaTarget,
    )
}
