"""
Framing of server-sent events (`http.md` §6, §7, D23).
"""

from __future__ import annotations

import pytest

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.feeds import CHAT, body, feed
from tests.gateway.serving import TOKEN, digest
from twisted_aotx.gateway.settings import Limits, ModelAlias, Principal
from twisted_aotx.gateway.sse import DONE, PING, raw_bytes_max, record


@pytest.mark.parametrize(
    ("event_bytes", "raw"),
    [(1024, 42), (1025, 42), (1026, 43), (25343, 4095), (25344, 4096), (65536, 4096)],
)
def test_raw_bytes_of_one_event(event_bytes: int, raw: int) -> None:
    """
    min(4096, floor((event_bytes − 768) / 6)).
    """
    assert raw_bytes_max(event_bytes) == raw


def test_a_record_is_one_line_of_data() -> None:
    text = "line\nbreak\r\n \u2028 é"

    assert record({"a": text}) == (
        'data: {"a":"line\\nbreak\\r\\n \u2028 é"}\n\n'.encode()
    )
    assert record([1], event="status", id="x:1") == (
        b"event: status\nid: x:1\ndata: [1]\n\n"
    )


def test_the_end_and_the_keep_alive() -> None:
    """
    B31, B35: one comment line with one newline is no event; no `retry:`.
    """
    assert DONE == b"data: [DONE]\n\n"
    assert PING == b": ping\n"


@asynchronous
async def test_the_longest_name_fits_the_smallest_event(serve: Serve) -> None:
    """
    event_bytes ≥ 1024 leaves room for every record that a stream has.
    """
    alias = "m" * 128
    gateway = await serve(
        models=(ModelAlias(alias=alias, role=2, published_at=0),),
        limits=Limits(event_bytes=1024),
        principals=_granted(alias),
    )
    gateway.device.on_submit = lambda request: request.complete(b"\x00" * 500)

    read = await feed(
        gateway,
        CHAT,
        json=body(model=alias, stream=True, stream_options={"include_usage": True}),
    )
    await read.ended

    assert read.records[-1].data == "[DONE]"
    assert max(len(raw) + 2 for raw in read.raw.split(b"\n\n")) <= 1024


@asynchronous
async def test_an_event_that_cannot_fit(serve: Serve) -> None:
    """
    503 `event_limit`: a name that no configuration file allows makes records too long.
    """
    alias = "m" * 1000
    gateway = await serve(
        models=(ModelAlias(alias=alias, role=2, published_at=0),),
        limits=Limits(event_bytes=1024),
        principals=_granted(alias),
    )

    read = await feed(gateway, CHAT, json=body(model=alias, stream=True))
    await read.ended

    (error,) = read.records
    assert error.data["error"]["code"] == "event_limit"
    assert gateway.gateway.budgets.work.held == 0


def _granted(alias: str) -> tuple[object, ...]:
    return (
        Principal(
            id=b"p" * 16, token_sha256=(digest(TOKEN),), models=(alias,), actions=1
        ),
    )
