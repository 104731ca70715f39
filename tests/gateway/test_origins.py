"""
Pages of other origins: who may ask, and what a preflight allows (`http.md` §1).
"""

from __future__ import annotations

import itertools
from typing import Any

from tests.asynchronous import asynchronous
from tests.gateway.serving import ORIGIN, Response, Serving


@asynchronous
async def test_an_allowed_origin_is_echoed_on_every_error(gateway: Serving) -> None:
    """
    http.md §1, CORS: also on what is refused before the Origin is judged.
    """
    for headers, problem in (
        ({"Expect": "200-ok"}, (417, "expectation", None)),
        ({"Content-Type": ["a", "b"]}, (400, "invalid_field", "headers")),
    ):
        for origin, echoed in ((ORIGIN, ORIGIN), ("https://other", None)):
            fields: dict[str, Any] = {**headers, "Origin": origin}
            answer = await gateway.get("/v1/models", headers=fields)
            assert answer.header("access-control-allow-origin") == echoed
            if echoed:
                assert answer.problem == problem
    twice = await gateway.get("/v1/models", headers={"Origin": [ORIGIN, ORIGIN]})
    assert twice.problem == (400, "invalid_field", "headers")
    assert twice.header("access-control-allow-origin") is None


@asynchronous
async def test_an_origin_must_be_configured(gateway: Serving) -> None:
    """
    http.md §1: byte for byte; no other header tells a foreign page anything.
    """
    for origin in (ORIGIN + "/", ORIGIN.upper(), "null", "https://evil.example", "*"):
        answer = await gateway.get("/v1/models", headers={"Origin": origin})
        assert answer.problem == (403, "origin_forbidden", None)
        assert answer.header("access-control-allow-origin") is None
    exposed = "X-Request-ID, X-AOTX-Media-Ids, Retry-After"
    answers = [
        await gateway.get("/v1/models", headers={"Origin": ORIGIN}),
        await gateway.get("/v1/models", headers={"Origin": ORIGIN}, token=None),
        await gateway.get("/nowhere", headers={"Origin": ORIGIN}),
        await gateway.get("/healthz?x=1", headers={"Origin": ORIGIN}, token=None),
    ]
    assert [answer.status for answer in answers] == [200, 401, 404, 400]
    for answer in answers:
        assert answer.header("access-control-allow-origin") == ORIGIN
        assert answer.header("access-control-expose-headers") == exposed
        assert answer.header("access-control-allow-credentials") is None


@asynchronous
async def test_a_preflight_needs_no_credential(gateway: Serving) -> None:
    """
    cases H 127, D28, B73: any path; what was asked for is listed.
    """
    asked = (
        "authorization,  X-Stainless-OS,content-type, openai-beta,X-Request-ID,"
        " x-stainless-, OpenAI-"
    )
    for path, method in itertools.product(
        ("/v1/chat/completions", "/nowhere", "*"), ("GET", "POST", "DELETE")
    ):
        answer = await _preflight(gateway, path, ORIGIN, method, asked)
        assert (answer.status, answer.content) == (204, b"")
        assert answer.header("access-control-allow-origin") == ORIGIN
        assert answer.header("access-control-allow-methods") == "GET, POST, DELETE"
        assert answer.header("access-control-allow-headers") == (
            "Authorization, Content-Type, Last-Event-ID, "
            "x-stainless-os, openai-beta, x-request-id, x-stainless-, openai-"
        )
        assert answer.header("content-type") is None
        assert answer.header("content-length") is None
    answer = await _preflight(gateway, "/x", ORIGIN, "GET", None)
    assert answer.header("access-control-allow-headers") == (
        "Authorization, Content-Type, Last-Event-ID"
    )


@asynchronous
async def test_a_preflight_that_asks_for_more_is_refused(gateway: Serving) -> None:
    """
    cases H 127.
    """
    refused = {
        (None, "GET", None): (400, "invalid_field", "Origin"),
        ("https://evil.example", "GET", None): (403, "origin_forbidden", None),
        (ORIGIN, "PUT", None): (400, "invalid_field", "headers"),
        (ORIGIN, "get", None): (400, "invalid_field", "headers"),
        (ORIGIN, None, None): (400, "invalid_field", "headers"),
        (ORIGIN, "GET", "x-foo"): (400, "invalid_field", "headers"),
        (ORIGIN, "GET", "authorization,x-foo"): (400, "invalid_field", "headers"),
        (ORIGIN, "GET", "x-stainless"): (400, "invalid_field", "headers"),
        (ORIGIN, "GET", "x-stainless-a b"): (400, "invalid_field", "headers"),
        (ORIGIN, "GET", "x-stainless-\xe4"): (400, "invalid_field", "headers"),
    }
    for (origin, method, headers), problem in refused.items():
        answer = await _preflight(gateway, "/v1/models", origin, method, headers)
        assert answer.problem == problem, (origin, method, headers)


async def _preflight(
    gateway: Serving,
    path: str,
    origin: str | None,
    method: str | None,
    headers: str | None,
) -> Response:
    named = {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": headers,
    }
    sent: dict[str, str | list[str]] = {k: v for k, v in named.items() if v is not None}
    # treq makes a path of `*`; how it stands on the wire is test_connection's.
    target = "/*" if path == "*" else path
    return await gateway.request("OPTIONS", target, token=None, headers=sent)
