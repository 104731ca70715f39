"""
Whether a JPEG can be decoded to the end, by Pillow (`device.md` §13, D12).

For the process that decodes (`decoder_child`); no other imports Pillow.

Rules:
1. The kernels have checked markers and sizes. The size that Pillow reads must be the
   one that they read, before any pixel is allocated; so memory is bounded by
   `image_pixels`.
2. Only Pillow's JPEG reader is used. A warning of Pillow is a refusal, and so is every
   exception, whatever it is: a decoder meets bytes of strangers.
3. What Pillow says is not passed on: it may quote the bytes. The name of the exception
   is all that is told.
"""

from __future__ import annotations

import warnings
from typing import IO

from PIL import ImageFile
from PIL.JpegImagePlugin import JpegImageFile


def fault_of(file: IO[bytes], width: int, height: int) -> str:
    """
    Why *file* is no JPEG of *width* × *height* pixels that decodes without a fault, as
    the name of an exception; empty if it is one.
    """
    try:
        _decode(file, width, height)
    except Exception as error:
        return type(error).__name__
    return ""


def _decode(file: IO[bytes], width: int, height: int) -> None:
    # Both are process-wide, and the process is ours alone.
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    warnings.filterwarnings("error", module=r"PIL\.")
    with JpegImageFile(file) as image:
        if image.size != (width, height):
            raise ValueError("another size than in the header")
        image.load()
