"""
One valid record of every kind, and where each stands in `wire.md`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs

from twisted_aotx.wire.grants import GrantRow
from twisted_aotx.wire.info import ControlRow, Information, ModelRow
from twisted_aotx.wire.layout import Record
from twisted_aotx.wire.mailbox import MailboxHead, RegionHead
from twisted_aotx.wire.media import BeginData, FrameHead, ListRow, Metadata
from twisted_aotx.wire.messages import MessageHead, PartHead, PayloadHead
from twisted_aotx.wire.packet import ReplyHeader, RequestHeader
from twisted_aotx.wire.policy import PolicyReport, PolicyWrite
from twisted_aotx.wire.requests import Selector
from twisted_aotx.wire.watch import Notice, Watch

PRINCIPAL = bytes(15) + b"\1"
ID = bytes(range(16))
SHA = bytes(range(32))

METADATA = Metadata(SHA, 6, 6, 0, 3, 16000, 25)

INFORMATION = Information(
    slots=64,
    prompt_bytes=65408,
    sequence_tokens=8192,
    requests=128,
    output_bytes=65536,
    channels=128,
    grant_tokens=256,
    grant_pages=512,
    grant_requests=2,
    grant_actions=15,
    request_seconds=300,
    upload_seconds=120,
    principals=256,
    media_references=909,
)

SAMPLES: tuple[Record, ...] = (
    RequestHeader(3, PRINCIPAL, 7, 9, ID, 0, 2, 256, 0.25, 0.75, 126, 0),
    ReplyHeader(200, 3, PRINCIPAL, 7, 9, ID, 5, 2, 8, 20, 4, 3, 1, 413, 1),
    GrantRow(PRINCIPAL, 7, 15, 4, 0, 256, 2, 16, 33554432),
    ModelRow(2, 3, SHA),
    Watch(PRINCIPAL, ID, 9, 300, 3),
    Notice(PRINCIPAL, ID, 9, 301, 4),
    ControlRow(
        positions=1,
        layers=1 << 24,
        name="curiosity",
        qualification_sha256=SHA,
        doses=(5000, -5000),
    ),
    INFORMATION,
    Selector(-5000, SHA),
    PayloadHead(4),
    MessageHead(1, 2),
    PartHead(0, 13),
    BeginData(3, SHA),
    FrameHead(2, ID, 6, 2, 4),
    METADATA,
    ListRow(ID, METADATA),
    PolicyWrite(1, 4),
    PolicyReport(state=3, review_enabled=1, pending=5, reason=2, control_revision=1),
    RegionHead(128, 0, 9),
    MailboxHead(1, 3, 128),
)


def name_of(record: Record) -> str:
    """
    What pytest calls the case of *record*.
    """
    return type(record).__name__


@attrs.frozen
class Vector:
    """
    One golden packet.
    """

    name: str
    layout: str
    fields: dict[str, Any]
    data: bytes


def vectors() -> dict[str, Vector]:
    """
    Every golden packet by its name.
    """
    path = Path(__file__).parent.parent / "vectors" / "packets.json"
    return {
        each["name"]: Vector(
            each["name"], each["layout"], each["fields"], bytes.fromhex(each["hex"])
        )
        for each in json.loads(path.read_text())
    }
