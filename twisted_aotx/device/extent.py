"""
Feature rows of a source, and samples of audio: whole numbers from first to last
(`device.md` §13).

An image's sides become multiples of 32, and its area 65,536 pixels at least and 256
times `image_patches` at most; a row is 32 × 32 pixels. Where a side is a square root,
`k = floor(sqrt(a / b))` is the largest k with k² ≤ floor(a / b), and `ceil` likewise,
so nothing is rounded on the way.
"""

from __future__ import annotations

from typing import Any, Final

from twisted_aotx.device.backend import dev, i64

#: Sides are multiples of it, a row is its square.
SIDE_UNIT: Final = 32
#: Smallest and largest area that an image is brought to.
AREA_MIN: Final = 65536
AREA_MAX: Final = 16777216
PATCH_PIXELS: Final = 256
#: The longer side is at most so many times the shorter.
ASPECT_MAX: Final = 200
#: The rate that samples are counted at.
CANONICAL_HZ: Final = 16000

_UNIT_AREA: Final = SIDE_UNIT * SIDE_UNIT


@dev
def root_floor(number: Any) -> Any:
    """The largest k with k² ≤ *number*, 0 .. 2^62 - 1."""
    low = i64(0)
    high = i64(1) << 31
    while high - low > 1:
        middle = (low + high) >> 1
        if middle * middle <= number:
            low = middle
        else:
            high = middle
    return low


@dev
def root_ceil(number: Any) -> Any:
    """The smallest k with k² ≥ *number*."""
    root = root_floor(number)
    if root * root < number:
        root += 1
    return root


@dev
def nearest_side(side: Any) -> Any:
    """The multiple of 32 nearest to *side*, the even multiple of two; 32 at least."""
    units = side // SIDE_UNIT
    rest = side % SIDE_UNIT
    if 2 * rest > SIDE_UNIT or (2 * rest == SIDE_UNIT and units & 1 == 1):
        units += 1
    return max(i64(1), units) * SIDE_UNIT


@dev
def shrunk_side(side: Any, other: Any, area: Any) -> Any:
    """*side* of an image of at most *area* pixels and the same shape."""
    units = root_floor(area * side // (other * _UNIT_AREA))
    return max(i64(1), units) * SIDE_UNIT


@dev
def grown_side(side: Any, other: Any) -> Any:
    """*side* of an image of at least 65,536 pixels and the same shape."""
    scaled = AREA_MIN // _UNIT_AREA * side
    return root_ceil((scaled + other - 1) // other) * SIDE_UNIT


@dev
def image_rows(width: Any, height: Any, patches: Any) -> Any:
    """
    Feature rows of an image of *width* × *height* pixels, each 1 .. 65,535.

    They may be more than *patches* / 4 where a side cannot shrink below 32, or where
    there is no multiple of 32 that is near enough: such an image has no extent.
    """
    area_max = min(i64(AREA_MAX), patches * PATCH_PIXELS)
    wide = nearest_side(width)
    high = nearest_side(height)
    area = wide * high
    if area > area_max:
        wide = shrunk_side(width, height, area_max)
        high = shrunk_side(height, width, area_max)
    elif area < AREA_MIN:
        wide = grown_side(width, height)
        high = grown_side(height, width)
    return wide * high // _UNIT_AREA


@dev
def too_long(width: Any, height: Any) -> Any:
    """1 if one side is more than 200 times the other, else 0."""
    return i64(max(width, height) > ASPECT_MAX * min(width, height))


@dev
def audio_samples(frames: Any, rate: Any) -> Any:
    """Samples at 16 kHz of *frames* at *rate* Hz."""
    return (frames * CANONICAL_HZ + rate - 1) // rate


@dev
def audio_rows(samples: Any) -> Any:
    """Feature rows of *samples* at 16 kHz; none up to 320 of them."""
    frames = (samples + 159) // 160
    return (frames + 1) // 2 // 2
