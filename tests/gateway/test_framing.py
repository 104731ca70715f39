"""
Where a body ends: lengths and chunks that mean the same to everybody (D16).
"""

from __future__ import annotations

import pytest

from tests.asynchronous import asynchronous
from tests.gateway.headers import (
    BAD_HEADERS,
    CANCEL,
    CLOSE,
    END,
    JSON,
    refused,
)
from tests.gateway.serving import Serving, parsed


@asynchronous
@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: +2\r\n",
        b"Content-Length: -2\r\n",
        b"Content-Length: 0x2\r\n",
        b"Content-Length: 2 2\r\n",
        b"Content-Length: 2, 2\r\n",
        b"Content-Length:\r\n",
        b"Content-Length : 2\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Content-Length: " + b"0" * 20 + b" 2\r\n",
        b"Content-Length: " + b"0" * 20 + b"x\r\n",
        b"Content-Length: +" + b"9" * 20 + b"\r\n",
        b"Content-Length: 2\r\nContent-Length: 2\r\n",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked \x0b\r\n",
        b"Transfer-Encoding:\r\n",
    ],
)
async def test_framing_that_is_contradictory_is_400(
    gateway: Serving, fields: bytes
) -> None:
    """
    D16, B69: two parties might see two bodies in it, so nobody sees one.
    """
    answer = await refused(gateway, CANCEL + JSON + fields + END + b"{}")

    assert answer.problem == BAD_HEADERS
    assert gateway.device.operations == []


CHUNKED = CANCEL + JSON + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"


@asynchronous
@pytest.mark.parametrize(
    "rest",
    [
        b"0\r\nno field\r\n\r\n",
        b"0\r\n: x\r\n\r\n",
        b"0\r\nX : y\r\n\r\n",
        b"0\r\n X: y\r\n\r\n",
        b"0\r\nX: y\r\n folded\r\n\r\n",
        b"0\r\nX: y\rZ: z\r\n\r\n",
        b"0\r\nX: \0\r\n\r\n",
        b"0\r\nContent-Length: 2\r\n\r\n",
        b"0\r\nX: y\r\ntransfer-encoding:\r\n\r\n",
        b"0\r\nHost: y\r\n\r\n",
        # Where a line feed ends a line, this is another request.
        b"0\r\nX: y\n\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"0\n\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"0" * 17 + b"\r\n\r\n",
        b"0" * 16 + b"g\r\n\r\n",
        b"0x0\r\n\r\n",
    ],
)
async def test_the_end_of_a_chunked_body_is_one_to_everybody(
    gateway: Serving, rest: bytes
) -> None:
    """
    RFC 9112 §7.1, §11.2: what some take for an end of the body and others do not.
    """
    answer = await refused(gateway, CHUNKED + rest)

    assert answer.problem == (400, "invalid_field", "body")
    assert gateway.device.operations == []


@asynchronous
@pytest.mark.parametrize(
    "rest",
    [
        b"0\r\n\r\n",
        b"0\r\nX: y\r\nZ:\r\n\r\n",
        b"0\r\nX-Host: y\r\nContent-MD5: x\r\n\r\n",
        b"0;ext=1\r\nX: \t\x80 y\r\n\r\n",
        b"0" * 16 + b"\r\n\r\n",
    ],
)
async def test_trailers_are_read_and_thrown_away(gateway: Serving, rest: bytes) -> None:
    """
    RFC 9112 §7.1.2, B61.
    """
    raw = await gateway.connect()
    raw.send(CHUNKED + rest)

    # The device has no such request.
    assert parsed(await raw.until(b"}}")).problem == (404, "device_refused", None)


@asynchronous
@pytest.mark.parametrize("digits", [19, 20, 4301, 8000])
async def test_a_length_beyond_every_limit_is_413(
    gateway: Serving, digits: int
) -> None:
    """
    However many digits it has, H130; more than 4,300 Python does not read.
    """
    length = b"Content-Length: " + b"9" * digits + b"\r\n"
    answer = await refused(gateway, CANCEL + JSON + length + END)

    assert answer.problem == (413, "body_limit", None)


@asynchronous
@pytest.mark.parametrize("zeros", [1, 18, 19, 8000])
async def test_zeros_before_a_length_say_nothing(gateway: Serving, zeros: int) -> None:
    head = CANCEL + JSON + CLOSE + b"Content-Length: " + b"0" * zeros
    answer = parsed(await gateway.raw(head + b"2\r\n\r\n{}"))
    assert answer.problem == (404, "device_refused", None)
    answer = await refused(gateway, head + b"9999999999\r\n\r\n")
    assert answer.problem == (413, "body_limit", None)


@asynchronous
async def test_a_chunked_http_1_0_request_is_refused(gateway: Serving) -> None:
    """
    D16: that version knows no chunks, so a proxy may have seen another body.
    """
    post = CANCEL.replace(b"HTTP/1.1", b"HTTP/1.0") + JSON
    answer = await refused(
        gateway, post + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    )
    assert answer.problem == BAD_HEADERS
    answer = parsed(await gateway.raw(post + b"Content-Length: 2\r\n\r\n{}"))
    assert answer.problem == (404, "device_refused", None)
