"""
Every offset and width of the records equals the tables of `wire.md`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from twisted_aotx.wire.grants import GrantRow
from twisted_aotx.wire.info import ControlRow, Information
from twisted_aotx.wire.layout import Record, layout_of
from twisted_aotx.wire.mailbox import MailboxHead, RegionHead
from twisted_aotx.wire.media import FrameHead, Metadata
from twisted_aotx.wire.packet import ReplyHeader, RequestHeader
from twisted_aotx.wire.policy import PolicyReport
from twisted_aotx.wire.requests import Selector

WIRE = Path(__file__).parent.parent.parent / "docs" / "spec" / "wire.md"
WIDTHS = {"u32": 4, "u64": 8, "i32": 4, "f32": 4}
ROW = re.compile(r"\| (\d+) \| (\w+) \|([^|]*)\|(?:([^|]*)\|)?\n")


def table(section: int, index: int) -> list[tuple[int, int, str]]:
    """
    (offset, width, text) of each row of the *index*-th table of fields in a section.
    """
    text = WIRE.read_text().split(f"\n## {section}. ")[1].split("\n## ")[0] + "\n"
    tables = re.split(r"\n\|(?:---\|)+\n", text)[1:]
    found = []
    for each in tables:
        rows = ROW.findall(each.split("\n\n")[0] + "\n")
        if rows and all(width in WIDTHS or width.isdigit() for _, width, *_ in rows):
            found.append(
                [
                    (int(at), WIDTHS.get(width) or int(width), f"{name} {rule}")
                    for at, width, name, rule in rows
                ]
            )
    return found[index]


@pytest.mark.parametrize(
    ("record", "section", "index"),
    [
        (RequestHeader, 2, 0),
        (ReplyHeader, 3, 0),
        (GrantRow, 6, 0),
        (Information, 7, 0),
        (ControlRow, 7, 1),
        (Selector, 8, 0),
        (FrameHead, 10, 0),
        (Metadata, 10, 1),
        (PolicyReport, 11, 0),
        (RegionHead, 12, 0),
        (MailboxHead, 12, 1),
    ],
)
def test_the_layout_is_that_of_the_contract(
    record: type[Record], section: int, index: int
) -> None:
    """
    Row by row: a field of the same offset and width, or bytes that are reserved.
    """
    layout = layout_of(record)
    fields = {kind.offset: kind.width for _, kind in layout.fields}
    end = 0
    for offset, width, text in table(section, index):
        if offset == record.SIZE:
            # The packet bytes that follow the head of a mailbox.
            break
        assert offset == end, f"{text} at {offset}"
        end = offset + width
        if offset in fields:
            assert fields.pop(offset) == width, text
        else:
            assert any(at <= offset and end <= at + gap for at, gap in layout.gaps)
            assert re.search("zero|reserved|flags|width|height", text), text

    assert end == record.SIZE
    assert not fields
