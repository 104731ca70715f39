"""
What every answer of a gateway is held to, whatever was asked.
"""

from __future__ import annotations

from collections.abc import Iterable

import h11
from twisted.web.http_headers import Headers

from tests.fuzz.gateways import SECRETS
from tests.fuzz.harness import demand
from tests.gateway.serving import Response

#: Codes that tell of a fault of ours, or of a device that is not there: here it is.
_NEVER = frozenset(
    {
        *("internal_error", "invalid_device_response", "device_connection"),
        *("service_closed", "source_digest", "event_limit", "body_length"),
    }
)


def answers_in(
    said: bytes, methods: Iterable[bytes], fault: bytes = b"GET"
) -> list[Response]:
    """
    The answers that *said* falls apart into, by h11; each is looked at.

    Args:
        methods: of the requests, in order; one more answer may tell a fault.
        fault: the method of that.

    Raises:
        Broken: *said* is no sequence of answers, or one of them is what none may be.
    """
    demand(not any(secret in said for secret in SECRETS), "a secret in an answer")
    found = []
    for method in [*methods, fault]:
        if not said:
            break
        answer, said = _first(said, method)
        _check(answer, method)
        found.append(answer)
    demand(not said, f"bytes behind the last answer: {said[:80]!r}")
    return found


def _first(said: bytes, method: bytes) -> tuple[Response, bytes]:
    client = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    client.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(said)
    status, headers, body = 0, Headers(), b""
    while True:
        event = client.next_event()
        if event is h11.NEED_DATA:
            # Without a length the end of the connection is the end of the answer.
            client.receive_data(b"")
        elif isinstance(event, h11.Response):
            status = event.status_code
            for name, value in event.headers:
                headers.addRawHeader(bytes(name), bytes(value))
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            return Response(status, headers, body), client.trailing_data[0]


def _check(answer: Response, method: bytes) -> None:
    for name, value in (("x-content-type-options", "nosniff"), ("vary", "Origin")):
        demand(answer.header(name) == value, f"an answer without {name}")
    if answer.status < 400:
        return
    demand(answer.status != 500, f"500: {answer.content!r}")
    if method == b"HEAD":
        return
    error = answer.error
    demand(error["code"] not in _NEVER, f"{answer.status} {error['code']}")
