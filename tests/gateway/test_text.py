"""
Text of model output (D18, cases I 143): any split gives the same text.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twisted_aotx.gateway.text import TextDecoder, decode

BAD = "\ufffd"


def in_pieces(pieces: list[bytes]) -> str:
    decoder = TextDecoder()
    return "".join([decoder.feed(piece) for piece in pieces]) + decoder.finish()


def oracle(data: bytes) -> str:
    """
    Maximal subparts written down from the table of well-formed byte sequences.
    """
    tail = range(0x80, 0xC0)
    leads = [
        (range(0x80), []),
        (range(0xC2, 0xE0), [tail]),
        (range(0xE0, 0xE1), [range(0xA0, 0xC0), tail]),
        (range(0xE1, 0xED), [tail] * 2),
        (range(0xED, 0xEE), [range(0x80, 0xA0), tail]),
        (range(0xEE, 0xF0), [tail] * 2),
        (range(0xF0, 0xF1), [range(0x90, 0xC0), tail, tail]),
        (range(0xF1, 0xF4), [tail] * 3),
        (range(0xF4, 0xF5), [range(0x80, 0x90), tail, tail]),
    ]
    out = []
    at = 0
    while at < len(data):
        tails = next((tails for lead, tails in leads if data[at] in lead), None)
        end = at + 1
        if tails is not None:
            for allowed in tails:
                if end < len(data) and data[end] in allowed:
                    end += 1
                else:
                    tails = None
                    break
        out.append(BAD if tails is None else data[at:end].decode("utf-8"))
        at = end
    return "".join(out)


#: Bytes at the edges of the table, so that random strings hit its corners.
EDGES = st.sampled_from(
    [bytes([b]) for b in b"a\x00\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf"]
    + [bytes([b]) for b in b"\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff"]
    + ["щ".encode(), "€".encode(), "👩‍👩‍👧".encode(), "🇩🇪".encode()]
)


@given(st.lists(EDGES | st.binary(max_size=3), max_size=40), st.data())
def test_every_split_gives_the_whole_text(
    parts: list[bytes], data: st.DataObject
) -> None:
    """
    cases I 143: stream text and whole text are one, and both follow the table.
    """
    raw = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]

    assert in_pieces(pieces) == decode(raw) == oracle(raw)
    assert in_pieces([raw[i : i + 1] for i in range(len(raw))]) == oracle(raw)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"ok", "ok"),
        (b"\x80", BAD),
        (b"a\xffb", f"a{BAD}b"),
        (b"\xc0\x80", BAD * 2),
        (b"\xed\xa0\x80", BAD * 3),
        (b"\xf4\x90\x80\x80", BAD * 4),
        (b"\xe2\x82", BAD),
        (b"\xf0\x9f\x98", BAD),
        (b"\xf0\x9f\x98a", f"{BAD}a"),
        (b"\xe2\x82\xe2\x82\xac", f"{BAD}€"),
        (b"\xf1\x80\x80\xe1\x80\xc2\x61", f"{BAD * 3}a"),
        (b"\x00\xf4\x8f\xbf\xbf", "\x00\U0010ffff"),
    ],
)
def test_one_replacement_for_each_maximal_subpart(raw: bytes, text: str) -> None:
    """
    D18: once per maximal subpart; a cut sequence at the end gives one.
    """
    assert decode(raw) == text
    assert in_pieces([raw[i : i + 1] for i in range(len(raw))]) == text


def test_a_code_point_is_never_split() -> None:
    """
    http.md §7: bytes of one character that come one by one give it once, at its last.
    """
    decoder = TextDecoder()

    assert [decoder.feed(bytes([b])) for b in "щ😀".encode()] == [
        "",
        "щ",
        *[""] * 3,
        "😀",
    ]
    assert decoder.finish() == ""
