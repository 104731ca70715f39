"""
Every record that the wire can carry, for Hypothesis.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from twisted_aotx.wire import media, requests
from twisted_aotx.wire.grants import ROLES_MASK, GrantRow, GrantTable
from twisted_aotx.wire.info import ControlRow, Information, ModelRow
from twisted_aotx.wire.layout import Record, layout_of
from twisted_aotx.wire.packet import ReplyHeader, RequestHeader
from twisted_aotx.wire.policy import PolicyReport, PolicyWrite

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
bits = st.integers(0, 1)
ids = st.binary(min_size=16, max_size=16)
real_ids = ids.filter(any)
digests = st.binary(min_size=32, max_size=32)
floats = st.floats(width=32, allow_nan=False)


def plain(record: type[Record], **others: st.SearchStrategy[Any]) -> dict[str, Any]:
    """
    A strategy for each field that a caller gives, by its kind, but for *others*.
    """
    by_code = {"I": u32, "Q": u64, "f": floats}
    layout = layout_of(record)
    return {
        name: others[name]
        if name in others
        else by_code.get(
            kind.code[-1], st.binary(min_size=kind.width, max_size=kind.width)
        )
        for name, kind in layout.fields
        if name not in layout.fixed
    }


request_headers = st.builds(RequestHeader, **plain(RequestHeader))
reply_headers = st.builds(
    ReplyHeader,
    **plain(
        ReplyHeader,
        status=st.sampled_from([200, 202, 403, 404, 409, 410, 413, 429, 503]),
        phase=st.integers(0, 6),
        finish=st.integers(0, 2),
        failure_status=st.just(0) | st.integers(400, 599),
        cancel_requested=bits,
        echo=st.just(bytes(24)),
    ),
)
metadata = st.builds(
    media.Metadata,
    **plain(media.Metadata, phase=st.integers(0, 7), status=st.integers(0, 12)),
)
list_rows = st.builds(media.ListRow, real_ids, metadata)
frames = st.one_of(
    st.builds(
        media.MediaFrame.begin,
        real_ids,
        st.integers(1, media.SOURCE_BYTES_MAX),
        st.builds(media.BeginData, st.sampled_from([1, 3]), digests),
    ),
    st.builds(
        media.MediaFrame.chunk,
        real_ids,
        u64,
        u64,
        st.binary(min_size=1, max_size=200),
    ),
    st.builds(media.MediaFrame.end, real_ids, u64),
    st.builds(media.MediaFrame.cancel, real_ids),
)
policy_writes = st.builds(PolicyWrite, st.integers(1, 5), u64)
policy_reports = st.builds(
    PolicyReport,
    **plain(
        PolicyReport,
        state=st.integers(0, 6),
        review_enabled=bits,
        result_status=st.integers(0, 11),
        reason=st.integers(0, 5),
    ),
)


@st.composite
def grant_tables(draw: st.DrawFn) -> GrantTable:
    """
    Tables of up to 20 rows.
    """
    revision = draw(st.integers(1, 2**64 - 1))
    principals = draw(st.lists(real_ids, unique=True, max_size=20))
    row = plain(
        GrantRow,
        revision=st.just(revision),
        actions=st.integers(1, 255),
        models=st.integers(0, 7).map(lambda mask: mask << 2 & ROLES_MASK),
        tokens=st.integers(1, 2**32 - 1),
        requests=st.integers(1, 2**32 - 1),
    )
    rows = [
        draw(st.builds(GrantRow, **{**row, "principal": st.just(principal)}))
        for principal in principals
    ]
    return GrantTable(revision, tuple(rows))


doses = st.integers(-40000, 40000).filter(bool)
names = st.text("abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=31)


@st.composite
def informations(draw: st.DrawFn) -> Information:
    """
    INFO and METRICS payloads with rows.
    """
    roles = draw(st.lists(st.integers(0, 9), unique=True, max_size=5))
    models = tuple(
        draw(st.builds(ModelRow, st.just(role), u32, digests)) for role in roles
    )
    control = st.builds(
        ControlRow,
        role=st.sampled_from(roles or [0]),
        positions=bits,
        layers=st.integers(1, 2**64 - 1),
        name=names,
        qualification_sha256=digests,
        doses=st.lists(doses, unique=True, max_size=16).map(tuple),
    )
    controls = draw(
        st.lists(control, max_size=16 if roles else 0, unique_by=lambda row: row.name)
    )
    head = plain(
        Information,
        revision=st.just(2),
        image_input=bits,
        audio_input=bits,
        shared=bits,
        selection_version=bits,
    )
    return draw(
        st.builds(
            Information,
            models=st.just(models),
            controls=st.just(tuple(controls)),
            **head,
        )
    )


texts = st.builds(requests.TextPart, st.text(max_size=40).map(str.encode))
media_parts = st.builds(requests.DigestPart, st.sampled_from([1, 2]), digests)
messages = st.one_of(
    st.builds(
        requests.Message,
        st.sampled_from([0, 2]),
        st.lists(texts, min_size=1, max_size=4).map(tuple),
    ),
    st.builds(
        requests.Message,
        st.just(1),
        st.lists(texts | media_parts, min_size=1, max_size=4).map(tuple),
    ),
)
submissions = st.builds(
    requests.Submission,
    u32,
    st.integers(1, 2**32 - 1),
    st.floats(0, 2, width=32),
    st.floats(0, 1, width=32, exclude_min=True),
    st.lists(messages, min_size=1, max_size=5).map(tuple),
    st.just(b"")
    | st.just(bytes(48))
    | st.builds(requests.Selector, doses, digests.filter(any)).map(Record.pack),
)
