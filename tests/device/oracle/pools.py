"""
Contiguous spans of source bytes and of feature rows, first fit (`device.md` §12).
"""

from __future__ import annotations

import attrs


@attrs.define
class Pool:
    """
    *size* units; `spans` are the taken ones, start → length.
    """

    size: int
    spans: dict[int, int] = attrs.field(factory=dict)

    def room(self, length: int) -> int | None:
        """Where the first gap of *length* units begins."""
        at = 0
        for start in sorted(self.spans):
            if start - at >= length:
                break
            at = start + self.spans[start]
        return at if at + length <= self.size else None

    def take(self, length: int) -> int | None:
        start = self.room(length)
        if start is not None:
            self.spans[start] = length
        return start

    def free(self, start: int) -> None:
        del self.spans[start]

    def shrink(self, start: int, length: int) -> None:
        assert 0 < length <= self.spans[start]
        self.spans[start] = length
