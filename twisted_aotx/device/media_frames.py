"""
What the files of media frames share: where the frame head's fields are, and the answer
with metadata (`wire.md` §10).
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev
from twisted_aotx.device.frames import answer
from twisted_aotx.device.numbers import HEADER
from twisted_aotx.device.receipts import write_refusal
from twisted_aotx.device.sources import METADATA_BYTES, write_metadata

#: Byte offsets of the frame head, from the start of the packet, and of the data.
AT_SCHEMA = HEADER
AT_COMMAND = HEADER + 4
AT_TRANSFER = HEADER + 8
AT_SIZE = HEADER + 24
AT_OFFSET = HEADER + 32
AT_DATA_BYTES = HEADER + 40
AT_HEAD_RESERVED = HEADER + 44
AT_DATA = HEADER + 64
HEAD_BYTES = 64


@dev
def answer_node(D: Any, channel: Any, status: Any, node: Any) -> None:
    """*status* with the metadata of *node*."""
    answer(D, channel, status, 0, METADATA_BYTES)
    if node < D.media_objects:
        write_metadata(D, D.frame[channel], HEADER, node)
    else:
        write_refusal(D, D.frame[channel], HEADER, node - D.media_objects)
