"""
The named capacity sets that tests compile kernels for; no test makes another.

Each set costs one compilation (docs/kernels.md), shared through one cache directory.
"""

from __future__ import annotations

from typing import Final

import attrs

from twisted_aotx.limits import Capacities

#: What an operator gets who sizes nothing (D7).
DEFAULT: Final = Capacities()
#: Small enough for table limits to be reached by hand and for the simulator.
SMALL: Final = Capacities(
    slots=8,
    requests=16,
    channels=16,
    principals=16,
    prompt_bytes=4096,
    output_bytes=8192,
    sequence_tokens=8192,
    request_seconds=30,
    upload_seconds=10,
    media_objects=16,
    media_bytes=1 << 20,
)
#: Numbers, not shapes: the kernels of the next two are those of `SMALL`.
#: Feature rows for few sources; media off.
TIGHT: Final = attrs.evolve(SMALL, image_rows=2200, audio_rows=4)
NO_MEDIA: Final = attrs.evolve(SMALL, media_bytes=0)
#: Wide tables with little in each row: costs that follow capacity would show here.
WIDE: Final = Capacities(
    slots=1024,
    requests=16384,
    channels=1024,
    principals=1022,
    prompt_bytes=1024,
    output_bytes=1024,
    sequence_tokens=4096,
    request_seconds=300,
    upload_seconds=120,
    media_objects=1024,
)

BY_NAME: Final = {"default": DEFAULT, "small": SMALL, "wide": WIDE}
