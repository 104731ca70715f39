"""
Caller's text as the kernels walk it: eight plain bytes at a time, the rest one by one.
"""

from __future__ import annotations

import re

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from twisted_aotx.device.backend import i64, u64
from twisted_aotx.device.markers import AGE_MAX, ENGINE_MARKER, MEDIA_LINK, is_plain
from twisted_aotx.device.render import _push_text

MARKERS = (
    "[image:",
    "[audio:",
    "<|vision_",
    "<|image_pad|>",
    "<|video_pad|>",
    "<|audio_",
    "<|AUDIO|>",
)
_LINKS = re.compile(r"\[(image|audio):")

#: Plain runs of every length around 8 and 16, markers, what looks like them.
pieces = st.one_of(
    st.integers(0, 20).map(lambda size: "abcdefghijklmnopqrst"[:size]),
    st.sampled_from((*MARKERS, *(marker[:-1] for marker in MARKERS))),
    st.text("[:_>|é€𐀀\U0010ffff\x7f\x00", max_size=9),
)
texts = st.lists(pieces, max_size=12).map("".join)


def walk(data: bytes) -> tuple[bytes, int, bool]:
    """The last sixteen bytes, the markers found, whether it is UTF-8."""
    frame = np.frombuffer(data + b"?", np.uint8)
    window = u64(0), u64(0), i64(AGE_MAX), i64(0)
    low, high, age, found, valid = _push_text(frame, i64(0), i64(len(data)), window)
    assert age == (AGE_MAX if not data else 0)
    seen = int(high).to_bytes(8, "big") + int(low).to_bytes(8, "big")
    return seen, int(found), bool(valid)


@given(texts)
def test_text_is_walked_whole(text: str) -> None:
    """The window ends where the text does, and no marker is missed or made up."""
    data = text.encode()
    expected = 0
    if _LINKS.search(text):
        expected |= MEDIA_LINK
    if any(marker in text for marker in MARKERS[2:]):
        expected |= ENGINE_MARKER
    assert walk(data) == ((bytes(16) + data)[-16:], expected, True)


@given(st.tuples(st.binary(max_size=40), texts), st.integers(0, 60))
@example((b"\xc3", ""), 0)
@example((b"", "eight by\u20ac"), 1)
def test_utf8_is_strict(parts: tuple[bytes, str], cut: int) -> None:
    """Python's strict decoder agrees (`wire.md` §8)."""
    data = parts[1].encode()
    data = data[: max(0, len(data) - cut)] + parts[0]
    try:
        data.decode()
    except UnicodeDecodeError:
        assert not walk(data)[2]
    else:
        assert walk(data)[2]


@given(st.binary(min_size=8, max_size=8))
def test_eight_plain_bytes(data: bytes) -> None:
    plain = data.isascii() and not set(data) & set(b":_>")
    assert is_plain(np.uint64(int.from_bytes(data, "big"))) == plain
