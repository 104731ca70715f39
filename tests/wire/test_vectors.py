"""
The golden packets, byte for byte, in both directions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.wire.samples import Vector, vectors
from twisted_aotx.wire import media, requests
from twisted_aotx.wire.grants import GrantRow, GrantTable
from twisted_aotx.wire.info import ControlRow, Information, ModelRow
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import (
    ReplyHeader,
    RequestHeader,
    join,
    split_reply,
    split_request,
)
from twisted_aotx.wire.policy import PolicyReport, PolicyWrite

VECTORS = vectors()


def of_layout(*layouts: str) -> list[Any]:
    return [
        pytest.param(vector, id=vector.name)
        for vector in VECTORS.values()
        if vector.layout in layouts
    ]


def test_the_file_is_whole() -> None:
    path = Path(__file__).parent.parent / "vectors" / "packets.json"
    for each in json.loads(path.read_text()):
        data = bytes.fromhex(each["hex"])

        assert len(data) == each["bytes"]
        assert hashlib.sha256(data).hexdigest() == each["sha256"]
    assert len(VECTORS) == 25


# --- requests -------------------------------------------------------------------------


def header_of(fields: Mapping[str, Any]) -> RequestHeader:
    plain = ("operation", "revision", "epoch", "cursor", "role", "limit")
    given = {name: fields[name] for name in plain if name in fields}
    return RequestHeader(
        principal=bytes.fromhex(fields["principal"]),
        id=bytes.fromhex(fields.get("id", "00" * 16)),
        temperature=fields.get("temperature", 0.0),
        top_p=fields.get("top_p", 0.0),
        selector_bytes=fields.get("selector_bytes", 0),
        **given,
    )


def part_of(part: Mapping[str, Any]) -> requests.TextPart | requests.DigestPart:
    data = bytes.fromhex(part["hex"])
    if part["kind"] == 0:
        return requests.TextPart(data)
    return requests.DigestPart(part["kind"], data)


def submission_of(fields: Mapping[str, Any]) -> requests.Submission:
    selector = b""
    if "selector" in fields:
        given = fields["selector"]
        selector = requests.Selector(
            given["dose"], bytes.fromhex(given["digest"])
        ).pack()
    return requests.Submission(
        fields["role"],
        fields["limit"],
        fields["temperature"],
        fields["top_p"],
        tuple(
            requests.Message(each["role"], tuple(map(part_of, each["parts"])))
            for each in fields["messages"]
        ),
        selector,
    )


def frame_of(fields: Mapping[str, Any]) -> media.MediaFrame:
    transfer, frame = bytes.fromhex(fields["id"]), fields["media"]
    data = bytes.fromhex(frame["data"])
    size, offset = frame["size"], frame["offset"]
    if frame["op"] == 1:
        begin = media.BeginData(data[0], data[16:])
        return media.MediaFrame.begin(transfer, size, begin)
    if frame["op"] == 2:
        return media.MediaFrame.chunk(transfer, size, offset, data)
    if frame["op"] == 3:
        return media.MediaFrame.end(transfer, size)
    return media.MediaFrame.cancel(transfer)


def payload_of(fields: Mapping[str, Any]) -> bytes:
    if "messages" in fields:
        return requests.encode(submission_of(fields))
    if "media" in fields:
        return frame_of(fields).pack()
    if "policy" in fields:
        given = fields["policy"]
        return PolicyWrite(given["action"], given["control_revision"]).pack()
    return b""


@pytest.mark.parametrize("vector", of_layout("packet"))
def test_requests_are_built(vector: Vector) -> None:
    packet = join(header_of(vector.fields), payload_of(vector.fields))

    assert packet == vector.data


@pytest.mark.parametrize("vector", of_layout("packet"))
def test_requests_are_read(vector: Vector) -> None:
    header, payload = split_request(vector.data)

    expected = header_of(vector.fields)
    assert header == attrs.evolve(expected, payload_bytes=len(vector.data) - 128)
    if header.operation == Operation.SUBMIT:
        submission = requests.decode(header, payload)
        assert submission == submission_of(vector.fields)
        rebuilt = submission.header(
            principal=header.principal,
            revision=header.revision,
            epoch=header.epoch,
            id=header.id,
        )
        assert join(rebuilt, requests.encode(submission)) == vector.data
    elif header.operation == Operation.MEDIA:
        assert media.MediaFrame.unpack(payload) == frame_of(vector.fields)
    elif payload:
        assert PolicyWrite.unpack(payload).control_revision == 4


# --- grants ---------------------------------------------------------------------------


@pytest.mark.parametrize("vector", of_layout("grants"))
def test_grant_tables_in_both_directions(vector: Vector) -> None:
    table = GrantTable(
        vector.fields["revision"],
        tuple(
            GrantRow(**{**row, "principal": bytes.fromhex(row["principal"])})
            for row in vector.fields["rows"]
        ),
    )

    assert table.pack() == vector.data
    assert GrantTable.unpack(vector.data) == table


# --- replies --------------------------------------------------------------------------


def information_of(fields: Mapping[str, Any]) -> Information:
    derived = {"models", "control_rows", "control_stride", "model_rows", "controls"}
    given = {name: fields[name] for name in fields if name not in derived}
    given["image_input"] = given.pop("image")
    given["audio_input"] = given.pop("audio")
    given["lineage"] = bytes.fromhex(given["lineage"])
    return Information(
        **given,
        models=tuple(
            ModelRow(row["role"], row["modalities"], bytes.fromhex(row["sha256"]))
            for row in fields["model_rows"]
        ),
        controls=tuple(
            ControlRow(
                role=row["role"],
                positions=row["positions"],
                layers=row["layers"],
                name=row["name"],
                qualification_sha256=bytes.fromhex(row["digest"]),
                doses=tuple(row["doses"]),
            )
            for row in fields["controls"]
        ),
    )


#: The golden reply lists two rows of one digest, which its fields leave out.
LISTED = bytes.fromhex(
    "41cf6794ba4200b839c53531555f0f3998df4cbb01a4d5cb0b94e3ca5e23947d"
)


def metadata_of(fields: Mapping[str, Any]) -> media.Metadata:
    return media.Metadata(
        bytes.fromhex(fields["sha256"]) if "sha256" in fields else LISTED,
        fields["bytes"],
        fields["phase"],
        fields["status"],
        fields["format"],
        fields["samples"],
        fields["rows"],
    )


def reply_payload_of(fields: Mapping[str, Any]) -> bytes:
    if "information" in fields:
        return information_of(fields["information"]).pack()
    if "metadata" in fields:
        return metadata_of(fields["metadata"]).pack()
    if "rows" in fields:
        return media.pack_list(
            media.ListRow(bytes.fromhex(row["id"]), metadata_of(row))
            for row in fields["rows"]
        )
    if "policy" in fields:
        fixed = {"schema", "abi", "mode"}
        return PolicyReport(
            **{k: v for k, v in fields["policy"].items() if k not in fixed}
        ).pack()
    return bytes.fromhex(fields.get("payload", ""))


def reply_of(fields: Mapping[str, Any]) -> ReplyHeader:
    total, prompt, sampled = (
        fields.get(name, 0) for name in ("total", "prompt", "sampled")
    )
    if "echo_76" in fields:
        total, prompt, sampled = fields["echo_76"], 0x3E800000, 0x3F400000
    return ReplyHeader(
        fields["status"],
        fields["phase"],
        bytes.fromhex(fields["principal"]),
        fields["revision"],
        fields["epoch"],
        bytes.fromhex(fields.get("id", "00" * 16)),
        fields.get("next_cursor", fields.get("cursor", 0)),
        fields.get("role", 0),
        total,
        prompt,
        sampled,
        0,
        fields.get("finish", 0),
        fields.get("failure", 0),
        fields.get("cancelling", 0),
    )


@pytest.mark.parametrize("vector", of_layout("packet-reply"))
def test_replies_are_built(vector: Vector) -> None:
    packet = join(reply_of(vector.fields), reply_payload_of(vector.fields))

    assert packet == vector.data


@pytest.mark.parametrize("vector", of_layout("packet-reply"))
def test_replies_are_read(vector: Vector) -> None:
    header, payload = split_reply(vector.data)

    expected = reply_of(vector.fields)
    assert header == attrs.evolve(expected, payload_bytes=len(vector.data) - 128)
    if "information" in vector.fields:
        information = Information.unpack(payload)
        assert information == information_of(vector.fields["information"])
        assert information.controls[0].available == 1
    elif "metadata" in vector.fields:
        metadata = media.Metadata.unpack(payload)
        assert metadata == metadata_of(vector.fields["metadata"])
    elif "rows" in vector.fields:
        rows = media.unpack_list(payload)
        assert [row.metadata for row in rows] == list(
            map(metadata_of, vector.fields["rows"])
        )
    elif "policy" in vector.fields:
        report = PolicyReport.unpack(payload)
        assert (report.schema, report.abi, report.mode, report.state) == (1, 3, 2, 3)
    else:
        assert payload.hex() == vector.fields.get("payload", "")
