"""
Whatever is packed comes back; whatever arrives is read or refused, never anything else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire import strategies
from tests.wire.samples import ID, PRINCIPAL, vectors
from twisted_aotx.errors import RemoteWireError
from twisted_aotx.wire import media, requests
from twisted_aotx.wire.grants import GrantTable
from twisted_aotx.wire.info import Information
from twisted_aotx.wire.packet import (
    ReplyHeader,
    RequestHeader,
    join,
    split_reply,
    split_request,
)
from twisted_aotx.wire.policy import PolicyReport, PolicyWrite


@given(strategies.request_headers)
def test_request_headers(header: RequestHeader) -> None:
    assert RequestHeader.unpack(header.pack()) == header


@given(strategies.reply_headers, st.binary(max_size=100))
def test_replies(header: ReplyHeader, payload: bytes) -> None:
    packet = join(header, payload)

    again, read = split_reply(packet)
    assert (join(again, read), read) == (packet, payload)


@given(strategies.submissions)
def test_submissions(submission: requests.Submission) -> None:
    header = submission.header(principal=PRINCIPAL, revision=7, epoch=9, id=ID)
    packet = join(header, requests.encode(submission))

    assert requests.decode(*split_request(packet)) == submission


@given(strategies.grant_tables())
def test_grant_tables(table: GrantTable) -> None:
    assert GrantTable.unpack(table.pack()) == table


@given(strategies.informations())
def test_informations(information: Information) -> None:
    assert Information.unpack(information.pack()) == information


@given(strategies.frames)
def test_media_frames(frame: media.MediaFrame) -> None:
    assert media.MediaFrame.unpack(frame.pack()) == frame


@given(st.lists(strategies.list_rows, max_size=5).map(tuple))
def test_media_lists(rows: tuple[media.ListRow, ...]) -> None:
    assert media.unpack_list(media.pack_list(rows)) == rows


@given(strategies.policy_writes, strategies.policy_reports)
def test_policy(write: PolicyWrite, report: PolicyReport) -> None:
    assert PolicyWrite.unpack(write.pack()) == write
    assert PolicyReport.unpack(report.pack()) == report


def _submission(packet: bytes) -> bytes:
    header, payload = split_request(packet)
    return join(header, requests.encode(requests.decode(header, payload)))


READERS: dict[str, Callable[[bytes], bytes]] = {
    "submit-media-request": _submission,
    "submit-selector-request": _submission,
    "read-request": lambda data: join(*split_request(data)),
    "read-reply-running": lambda data: join(*split_reply(data)),
    "grant-table": lambda data: GrantTable.unpack(data).pack(),
    "telemetry-reply": lambda data: Information.unpack(data[128:]).pack(),
    "media-begin-request": lambda data: media.MediaFrame.unpack(data[128:]).pack(),
    "media-list-reply": lambda data: media.pack_list(media.unpack_list(data[128:])),
    "policy-reply-paused": lambda data: PolicyReport.unpack(data[128:]).pack(),
}


@pytest.mark.parametrize("name", READERS)
@given(st.data())
def test_a_changed_packet_is_refused_or_means_itself(
    name: str, data: st.DataObject
) -> None:
    """
    One byte of a golden packet changed: what is read packs to the very bytes that came,
    so nothing that was sent is dropped unseen.
    """
    packet = bytearray(vectors()[name].data)
    at = data.draw(st.integers(0, len(packet) - 1))
    packet[at] = data.draw(st.integers(0, 255))
    changed = bytes(packet)
    with contextlib.suppress(RemoteWireError):
        assert changed.endswith(READERS[name](changed))


@pytest.mark.parametrize("name", READERS)
@given(st.binary(max_size=400))
def test_noise_is_refused_or_means_itself(name: str, noise: bytes) -> None:
    for data in (noise, vectors()[name].data[:128] + noise):
        with contextlib.suppress(RemoteWireError):
            assert data.endswith(READERS[name](data))
