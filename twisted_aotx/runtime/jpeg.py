"""
Whether a JPEG can be decoded to the end, by Pillow (`device.md` §13, D12).

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

from twisted.logger import Logger

_log = Logger("aotx.runtime")


def decodes(file: IO[bytes], width: int, height: int) -> bool:
    """
    Whether *file* is a JPEG of *width* × *height* pixels that decodes without a fault.

    Any thread; takes as long as decoding does, and lets others run meanwhile.
    """
    try:
        _decode(file, width, height)
    except Exception as error:
        _log.debug("an image was not decoded: {kind}", kind=type(error).__name__)
        return False
    return True


def _decode(file: IO[bytes], width: int, height: int) -> None:
    # Importing it takes a tenth of a second, and most runtimes see no image.
    from PIL import ImageFile
    from PIL.JpegImagePlugin import JpegImageFile

    # Both are process-wide and ours alone: nobody else here uses Pillow.
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    warnings.filterwarnings("error", module=r"PIL\.")
    with JpegImageFile(file) as image:
        if image.size != (width, height):
            raise ValueError("another size than in the header")
        image.load()
