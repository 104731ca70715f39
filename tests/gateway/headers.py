"""
Headers as bytes, to be put together, and how one that is wrong is answered.
"""

from __future__ import annotations

from tests.gateway.serving import TOKEN, Response, Serving, parsed

HOST = b"Host: x\r\n"
AUTH = HOST + b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"
JSON = AUTH + b"Content-Type: application/json\r\n"
CANCEL = b"POST /aotx/v1/requests/req-%016x-%032x/cancel HTTP/1.1\r\n" % (7, 9)
GET = b"GET /healthz HTTP/1.1\r\n"
CLOSE = b"Connection: close\r\n"
END = b"\r\n"
BAD_HEADERS = (400, "invalid_field", "headers")


async def refused(gateway: Serving, data: bytes) -> Response:
    """
    The answer to *data*: JSON with the headers that all have, the connection's last.
    """
    answer = parsed(await gateway.raw(data))
    assert answer.header("connection") == "close"
    assert len(answer.content) == int(answer.header("content-length") or "-1")
    assert answer.header("cache-control") == "no-store"
    assert answer.header("x-content-type-options") == "nosniff"
    assert answer.header("vary") == "Origin"
    assert answer.header("x-should-retry") == "false"
    return answer
