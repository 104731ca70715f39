"""
What every request is held to before a handler sees it, and in which order.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from tests.asynchronous import asynchronous
from tests.gateway.serving import TOKEN_2, Response, Serving

HANDLE = "req-0000000000000007-" + "ab" * 16
#: Every GET route that a principal with every action may ask here, and its query key.
GET_ROUTES = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/v1/models",
    "/v1/models/m",
    "/aotx/v1/capabilities",
    f"/aotx/v1/requests/{HANDLE}",
    f"/aotx/v1/requests/{HANDLE}/events",
    "/aotx/v1/media",
    "/aotx/v1/media/media-" + "cd" * 16,
    "/aotx/v1/telemetry",
    "/aotx/v1/policy",
)
POST_ROUTES = (
    "/v1/chat/completions",
    "/aotx/v1/requests",
    f"/aotx/v1/requests/{HANDLE}/cancel",
    "/aotx/v1/media/import",
)


@asynchronous
async def test_every_answer_has_the_base_headers_and_is_json(gateway: Serving) -> None:
    """
    cases H 128; D15: no answer is HTML.
    """
    answers = [await gateway.get(p) for p in GET_ROUTES if p != "/metrics"]
    answers += [await gateway.request("DELETE", path) for path in GET_ROUTES]
    answers += [await gateway.get("/", token=None), await gateway.get("//p")]
    answers += [await gateway.request("OPTIONS", "/v1/models")]

    for answer in answers:
        assert answer.header("cache-control") == "no-store"
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("vary") == "Origin"
        assert answer.header("content-type") == "application/json"
        assert answer.header("date")
        assert isinstance(answer.json, dict)


@asynchronous
async def test_connections_are_kept_alive(gateway: Serving) -> None:
    """
    cases H 128, D14.
    """
    for _ in range(3):
        answer = await gateway.get("/v1/models")
        assert answer.status == 200
        assert answer.header("connection") is None
    await gateway.get("/nowhere")

    assert len(gateway.site.connections) == 1


@asynchronous
async def test_an_unknown_path_needs_a_credential_and_is_404(gateway: Serving) -> None:
    """
    cases H 124, D15.
    """
    unknown = [
        "/",
        "/nowhere",
        "/v1/models/",
        "/v1",
        "/v1/chat/completions/",
        "/aotx/v1/shared",
        "/aotx/v1/shared/",
        "/healthz/",
        "//v1/models",
        "/aotx/v1/media/",
        "/aotx/v1/media/media-" + "AB" * 16,
        "/aotx/v1/media/media-" + "ab" * 15,
        "/aotx/v1/requests/" + HANDLE.upper(),
        "/aotx/v1/requests/" + HANDLE + "0",
        "/aotx/v1/requests/" + HANDLE + "/",
        "/aotx/v1/requests/x",
        "/v1/models%ff",
    ]
    for path in unknown:
        answer = await gateway.get(path)
        assert answer.problem == (404, "route_not_found", None), path
        assert answer.error["type"] == "invalid_request_error"
        assert answer.header("x-should-retry") == "false"
        answer = await gateway.get(path, token=None)
        assert answer.problem == (401, "invalid_api_key", None), path


@asynchronous
async def test_a_path_is_decoded_once(gateway: Serving) -> None:
    """
    http.md §1, B59: both spellings of an alias with a slash; nothing is decoded twice.
    """
    assert (await gateway.get("/v1/models/org/m")).status == 200
    assert (await gateway.get("/v1/models/org%2Fm")).status == 200
    assert (await gateway.get("/v1/m%6fdels")).status == 200
    assert (await gateway.get("/v1/models/org%252Fm")).status == 404
    for name in ("%2e%2e", "m%20", "%C3%BC", "a/", "m%0A", "m%00", "m%3Fx"):
        answer = await gateway.get("/v1/models/" + name)
        assert answer.problem == (404, "model_not_found", "model"), name


@asynchronous
async def test_another_method_is_405_with_allow(gateway: Serving) -> None:
    """
    cases H 124, D15: HEAD stands after GET.
    """
    allowed = {
        "/v1/models": "GET, HEAD",
        "/v1/chat/completions": "POST",
        "/aotx/v1/media": "POST, GET, HEAD",
        "/aotx/v1/media/import": "POST",
        "/aotx/v1/media/media-" + "00" * 16: "GET, HEAD, DELETE",
        "/aotx/v1/policy": "GET, HEAD, POST",
        "/healthz": "GET, HEAD",
    }
    for path, allow in allowed.items():
        for method in ("PUT", "PATCH", "TRACE", "BREW"):
            answer = await gateway.request(method, path)
            assert answer.problem == (405, "method", None), (method, path)
            assert answer.header("allow") == allow
            assert answer.header("x-should-retry") == "false"


@asynchronous
@pytest.mark.parametrize("path", GET_ROUTES)
async def test_head_is_get_without_a_body(gateway: Serving, path: str) -> None:
    """
    D15, B65: same checks, status and headers; no subscription, no work slot.
    """
    get = await gateway.get(path)
    head = await gateway.request("HEAD", path)

    assert head.status == get.status
    assert head.content == b""
    ignored = ("date", "content-length")
    assert _headers(head, ignored) == _headers(get, ignored)
    # A sample of counters may have other digits.
    assert head.header("content-length") is not None
    assert gateway.gateway.budgets.work.held == 0


def _headers(
    answer: Response, ignored: tuple[str, ...]
) -> dict[bytes, Sequence[bytes]]:
    headers = dict(answer.headers.getAllRawHeaders())
    return {k: v for k, v in headers.items() if k.decode().lower() not in ignored}


@asynchronous
async def test_get_head_and_delete_take_no_body(gateway: Serving) -> None:
    """
    cases H 124. A length of 0 is no body.
    """
    for method, path in (
        ("GET", "/v1/models"),
        ("GET", "/nowhere"),
        ("GET", "/readyz"),
        ("DELETE", "/aotx/v1/media/media-" + "00" * 16),
    ):
        answer = await gateway.request(method, path, data=b"x")
        assert answer.problem == (400, "invalid_field", "body")
    head = await gateway.request("HEAD", "/v1/models", data=b"x")
    assert (head.status, head.content) == (400, b"")
    empty = await gateway.get("/v1/models", data=b"")
    assert empty.status == 200


@asynchronous
async def test_a_query_key_must_be_known(gateway: Serving) -> None:
    """
    cases H 125: on unknown routes, and for other methods, too.
    """
    for path in (*GET_ROUTES, "/nowhere"):
        answer = await gateway.get(path + "?x=1")
        assert answer.problem == (400, "invalid_field", "query"), path
    for path in POST_ROUTES:
        answer = await gateway.post(path + "?x=1", {})
        assert answer.problem == (400, "invalid_field", "query"), path
        answer = await gateway.post(path + "?cursor=1", {})
        assert answer.problem == (400, "invalid_field", "query"), path
    answer = await gateway.request("PUT", "/v1/models?x=1")
    assert answer.problem == (400, "invalid_field", "query")
    # The key is known to the path, so the method is what is wrong.
    answer = await gateway.request("PUT", "/aotx/v1/media?cursor=1")
    assert answer.problem == (405, "method", None)


@asynchronous
@pytest.mark.parametrize(
    "path",
    [
        f"/aotx/v1/requests/{HANDLE}",
        f"/aotx/v1/requests/{HANDLE}/events",
        "/aotx/v1/media",
    ],
)
async def test_a_cursor_is_1_to_20_digits_below_2_to_64(
    gateway: Serving, path: str
) -> None:
    """
    cases H 125.
    """
    for query in ("?cursor=1&cursor=2", "?cursor=1&cursor=1", "?cursor=1&x"):
        answer = await gateway.get(path + query)
        assert answer.problem == (400, "invalid_field", "query"), query
    for value in ("", "-1", "0" * 21, str(2**64), "1e3", "+1", "%201", "%D9%A1", "x"):
        answer = await gateway.get(f"{path}?cursor={value}")
        assert answer.problem == (400, "invalid_field", "cursor"), value
    assert gateway.device.operations == []
    for value in ("007", "0" * 20, str(2**64 - 1), "%31"):
        answer = await gateway.get(f"{path}?cursor={value}")
        assert answer.error["code"] == "device_refused", value


@asynchronous
async def test_headers_that_stand_twice(gateway: Serving) -> None:
    """
    http.md §1: before anything else, also without a credential.
    """
    for name in ("Authorization", "Origin", "Content-Type", "Expect", "Last-Event-ID"):
        answer = await gateway.get(
            "/healthz", token=None, headers={name: ["a" * 40, "a" * 40]}
        )
        assert answer.problem == (400, "invalid_field", "headers"), name
    answer = await gateway.get("/healthz", headers={"X-Other": ["1", "2"]})
    assert answer.status == 200


@asynchronous
async def test_an_expectation_that_nobody_can_meet(gateway: Serving) -> None:
    """
    D16: on any route.
    """
    for path in ("/healthz", "/nowhere", "/v1/models"):
        answer = await gateway.get(path, token=None, headers={"Expect": "200-ok"})
        assert answer.problem == (417, "expectation", None)
    answer = await gateway.get("/v1/models", headers={"Expect": "100-Continue"})
    assert answer.status == 200


@attrs.frozen
class Step:
    """
    One request, as `Serving.request` takes it.
    """

    method: str
    path: str
    token: str | None
    headers: dict[str, str | list[str]]
    data: bytes | None = None


@asynchronous
async def test_the_order_of_checks(gateway: Serving) -> None:
    """
    http.md §1: of all that is wrong with a request, the first in order is told. One
    fault after another is mended, from one that has them all.
    """
    twice: dict[str, str | list[str]] = {
        "Last-Event-ID": ["a", "b"],
        "Origin": "https://evil.example",
    }
    evil: dict[str, str | list[str]] = {"Origin": "https://evil.example"}
    steps: list[tuple[Step, tuple[int, str, str | None]]] = [
        (Step("GET", "/no?x=1", None, twice, b"x"), (400, "invalid_field", "headers")),
        (Step("GET", "/no?x=1", None, evil, b"x"), (403, "origin_forbidden", None)),
        (Step("OPTIONS", "/no?x=1", None, {}, b"x"), (400, "invalid_field", "Origin")),
        (Step("GET", "/no?x=1", None, {}, b"x"), (401, "invalid_api_key", None)),
        (Step("GET", "/no?x=1", TOKEN_2, {}, b"x"), (400, "invalid_field", "body")),
        (Step("GET", "/no?x=1", TOKEN_2, {}), (400, "invalid_field", "query")),
        (Step("GET", "/no", TOKEN_2, {}), (404, "route_not_found", None)),
        (Step("PUT", "/aotx/v1/policy", TOKEN_2, {}), (405, "method", None)),
        (
            Step("POST", "/aotx/v1/policy", TOKEN_2, {}, b"["),
            (403, "policy_permission", None),
        ),
    ]
    for step, problem in steps:
        answer = await gateway.request(**attrs.asdict(step))
        assert answer.problem == problem, step
    assert gateway.device.operations == []


@asynchronous
async def test_what_lies_below_a_handle_names_it(gateway: Serving) -> None:
    """
    http.md §1: X-Request-ID on every answer below a well-formed handle.
    """
    base = f"/aotx/v1/requests/{HANDLE}"
    answers = [
        await gateway.get(base, token=None),
        await gateway.get(base, headers={"Origin": "null"}),
        await gateway.get(base + "?x=1"),
        await gateway.get(base + "/nowhere"),
        await gateway.request("PUT", base),
        await gateway.get(base),
        await gateway.post(base + "/cancel", {"x": 1}),
    ]
    assert [a.status for a in answers] == [401, 403, 400, 404, 405, 404, 400]
    for answer in answers:
        assert answer.header("x-request-id") == HANDLE
    for path in ("/aotx/v1/requests/" + HANDLE[:-1], "/v1/models", base + "0"):
        assert (await gateway.get(path)).header("x-request-id") is None
