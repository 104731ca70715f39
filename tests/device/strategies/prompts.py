"""
SUBMIT payloads: text cut anywhere, right and wrong, short and as long as can be.
"""

from __future__ import annotations

import itertools
import struct

from hypothesis import strategies as st

from tests.device.making import message, part, payload_of
from twisted_aotx.limits import Capacities

_FRAGMENTS = (
    b"[image:",
    b"[audio:",
    b"[ima",
    b"ge:",
    b"[Image:",
    b"<|vision_",
    b"<|image_pad|>",
    b"<|image_",
    b"pad|>",
    b"<|AUDIO|>",
    b"<|audio_",
    b"<|im_end|>",
    b"\x00",
    "é".encode(),
    "𝄞".encode(),
    b"\xf4\x8f\xbf\xbf",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\x80",
    b"\xe2\x82",
    b"x" * 40,
)

#: Whole texts; about one in three breaks a rule.
texts = st.lists(
    st.one_of(
        st.text(max_size=6).map(lambda text: text.encode("utf-8", "ignore")),
        st.sampled_from(_FRAGMENTS),
    ),
    max_size=4,
).map(b"".join)

plain_texts = st.text("abc é", max_size=8).map(str.encode)


@st.composite
def split_texts(draw: st.DrawFn) -> tuple[bytes, ...]:
    """One text cut into parts anywhere, also within characters and markers."""
    text = draw(st.one_of(plain_texts, plain_texts, texts))
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=4).map(sorted))
    edges = [0, *cuts, len(text)]
    return tuple(text[a:b] for a, b in itertools.pairwise(edges))


messages = st.builds(
    lambda role, parts: message(role, *parts), st.integers(0, 2), split_texts()
)

_odd_messages = st.one_of(
    st.builds(struct.pack, st.just("<II"), st.integers(0, 4), st.integers(0, 33)),
    st.builds(
        lambda kind, data: struct.pack("<II", 1, 1) + part(data, kind),
        st.integers(1, 3),
        st.one_of(st.just(bytes(32)), st.binary(max_size=33)),
    ),
    st.builds(
        lambda size: struct.pack("<IIII", 1, 1, 0, size) + b"abc",
        st.sampled_from((0, 2, 4, 2**31, 2**32 - 1)),
    ),
    st.binary(max_size=12),
)

payloads: st.SearchStrategy[bytes] = st.one_of(
    *[st.lists(messages, min_size=1, max_size=3).map(lambda m: payload_of(*m))] * 4,
    st.lists(st.one_of(messages, _odd_messages), max_size=3).map(
        lambda m: payload_of(*m)
    ),
    st.builds(
        lambda count, rest: struct.pack("<I", count) + rest,
        st.sampled_from((0, 1, 2, 64, 65, 2**32 - 1)),
        st.one_of(messages, st.binary(max_size=8)),
    ),
    st.binary(max_size=5),
)


def long_payloads(capacities: Capacities) -> st.SearchStrategy[bytes]:
    """Prompts around the prompt capacity, most of them near its end."""
    # Six bytes are what the shorter of the machine's formats adds.
    near = st.one_of(st.sampled_from((-7, -6, -5)), st.integers(-90, 3)).map(
        lambda delta: max(0, capacities.prompt_bytes + delta)
    )
    return st.builds(
        lambda size, role: payload_of(message(role, b"y" * size))[: 65536 - 128],
        near,
        st.integers(0, 2),
    )
