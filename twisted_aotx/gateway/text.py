"""
Model output as text: UTF-8 decoded piece by piece [D18]. Layer 4, sans-IO.

Each maximal subpart of an ill-formed sequence becomes one U+FFFD (Unicode 15, §3.9,
table 3-8), wherever the pieces are cut; so a stream and a whole answer give one text.
"""

from __future__ import annotations

import codecs


class TextDecoder:
    """
    Decodes bytes as they come. A sequence cut at the end of a piece waits for the next.
    """

    def __init__(self) -> None:
        # CPython's decoder replaces maximal subparts, incrementally too; the tests hold
        # it to that.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        """
        The text that *data* completes; "" when it only begins a code point.
        """
        return self._decoder.decode(data)

    def finish(self) -> str:
        """
        What a cut sequence at the very end becomes: one U+FFFD, else "".
        """
        return self._decoder.decode(b"", final=True)


def decode(data: bytes) -> str:
    """
    The text of a whole output.
    """
    return data.decode("utf-8", "replace")
