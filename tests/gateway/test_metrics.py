"""
What a gateway counts, and what it never tells (`http.md` §4, D21).
"""

from __future__ import annotations

import math
import re
from functools import partial

import attrs
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import DeviceScript
from tests.gateway.feeds import CHAT, REQUESTS, body, eventually, feed, stream
from tests.gateway.serving import (
    P1,
    PRINCIPALS,
    TOKEN,
    TOKEN_2,
    Serving,
    digest,
)
from tests.runtime.test_metrics import runtime_state
from twisted_aotx.gateway.metrics import Metrics, Served
from twisted_aotx.gateway.outcomes import REMEMBERED_MAX, Outcomes
from twisted_aotx.gateway.settings import Limits
from twisted_aotx.runtime.metrics import RuntimeCollector
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import Action, Operation, Phase
from twisted_aotx.wire.packet import ReplyHeader, RequestHeader, split_reply

Sample = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scraped(gateway: Serving) -> Sample:
    answer = await gateway.get("/metrics")
    assert answer.status == 200
    assert answer.header("content-type") == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }


def at(sample: Sample, name: str, **labels: str) -> float | None:
    return sample.get((name, frozenset(labels.items())))


@asynchronous
async def test_metrics_need_the_action(serve: Serve) -> None:
    """
    http.md §4: DEV 403 without telemetry, 401 without a token.
    """
    gateway = await serve()
    refused = await gateway.get("/metrics", token=TOKEN_2)
    assert refused.problem == (403, "device_refused", None)
    assert (await gateway.get("/metrics", token=None)).status == 401
    assert gateway.device.operations == []
    scraper = attrs.evolve(PRINCIPALS[1], actions=Action.TELEMETRY)
    gateway = await serve(principals=(scraper,))
    assert (await gateway.get("/metrics", token=TOKEN_2)).status == 200


@asynchronous
async def test_requests_are_counted_by_route_status_and_code(
    gateway: Serving,
) -> None:
    await gateway.get("/v1/models")
    await gateway.request("HEAD", "/v1/models/org/m")
    await gateway.get("/v1/models/nobody")
    await gateway.get("/nowhere")
    await gateway.get("/v1/models", token=None)
    await gateway.request("PUT", "/healthz")
    await gateway.raw(b"nonsense\r\n\r\n")
    await gateway.raw(b"GET / HTTP/1.1\r\n\r\n")

    sample = await scraped(gateway)

    requests = partial(at, sample, "aotx_http_requests_total")
    models, model = "/v1/models", "/v1/models/{id}"
    assert requests(method="GET", route=models, status="200", code="") == 1
    assert requests(method="GET", route=model, status="200", code="") == 1
    code = "model_not_found"
    assert requests(method="GET", route=model, status="404", code=code) == 1
    other = partial(requests, method="other", route="other")
    assert other(status="404", code="route_not_found") == 1
    assert other(status="401", code="invalid_api_key") == 1
    assert other(status="405", code="method") == 1
    assert other(status="400", code="invalid_field") == 2
    assert at(sample, "aotx_http_authentication_failures_total") == 1
    name = "aotx_http_request_seconds_count"
    assert at(sample, name, method="GET", route=model) == 2


@asynchronous
async def test_streams_and_bodies_are_measured_apart(gateway: Serving) -> None:
    gateway.device.on_submit = lambda request: request.complete(b"hi")
    await stream(gateway, json=body(stream=True))
    await gateway.post(CHAT, body())

    sample = await scraped(gateway)

    assert at(sample, "aotx_http_stream_seconds_count", route=CHAT) == 1
    assert at(sample, "aotx_http_request_seconds_count", method="POST", route=CHAT) == 1
    sent = at(sample, "aotx_http_stream_bytes_sum", route=CHAT)
    assert sent is not None
    assert sent > 500
    assert at(sample, "aotx_http_body_bytes_count", route=CHAT) == 2


@asynchronous
async def test_models_are_counted_from_admission_to_their_end(
    gateway: Serving,
) -> None:
    """
    By the alias that was asked for; an end is counted once, however often it is read.
    """
    gateway.device.on_submit = lambda request: request.complete(b"hi", finish=2)
    await gateway.post(CHAT, body(model="org/m"))
    gateway.device.on_submit = lambda _: None
    made = (await gateway.post(REQUESTS, body())).json["id"]
    await gateway.post(f"{REQUESTS}/{made}/cancel", {})
    gateway.device.requests[P1, bytes.fromhex(made[21:])].end(Phase.CANCELLED, 409, 1)
    for _ in range(3):
        await gateway.get(f"{REQUESTS}/{made}")
    await gateway.post(f"{REQUESTS}/{made}/cancel", {})

    sample = await scraped(gateway)

    assert at(sample, "aotx_admissions_total", model="org/m") == 1
    assert at(sample, "aotx_admissions_total", model="m") == 1
    assert at(sample, "aotx_finishes_total", model="org/m", finish="length") == 1
    assert at(sample, "aotx_finishes_total", model="m", finish="cancelled") == 1
    assert at(sample, "aotx_cancels_total", model="m") == 1
    assert at(sample, "aotx_cancels_total", model="other") == 1
    assert len(gateway.gateway.metrics.outcomes) == 0


@asynchronous
async def test_usage_is_told_under_the_operators_labels(serve: Serve) -> None:
    """
    Requests and their tokens by label and alias, once; a request keeps its label.
    """
    gateway = await serve(metric_labels={P1: "web"})
    gateway.device.on_submit = lambda request: request.complete(b"hi", finish=2)
    await gateway.post(CHAT, body(model="org/m"))
    await stream(gateway, json=body(model="org/m", stream=True))
    gateway.device.on_submit = lambda _: None
    made = (await gateway.post(REQUESTS, body())).json["id"]
    request = gateway.device.requests[P1, bytes.fromhex(made[21:])]

    sample = await scraped(gateway)
    usage = partial(at, sample, principal="web")
    assert usage("aotx_usage_admissions_total", model="org/m") == 2
    assert usage("aotx_usage_admissions_total", model="m") == 1
    assert usage("aotx_usage_requests_total", model="org/m") == 2
    assert usage("aotx_usage_requests_total", model="m") is None
    ended = next(iter(gateway.device.requests.values()))
    prompt, sampled = ended.prompt_tokens, ended.sampled_tokens
    assert prompt > 0
    assert sampled > 0
    assert usage("aotx_usage_prompt_tokens_total", model="org/m") == 2 * prompt
    assert usage("aotx_usage_completion_tokens_total", model="org/m") == 2 * sampled

    request.end(Phase.CANCELLED, 409, 1)
    for _ in range(2):
        await gateway.get(f"{REQUESTS}/{made}")
    sample = await scraped(gateway)
    assert at(sample, "aotx_usage_requests_total", principal="web", model="m") == 1


@asynchronous
async def test_without_labels_no_principal_is_told(serve: Serve) -> None:
    """
    Off by default; and one principal's label says nothing of another.
    """
    for labels in ({}, {PRINCIPALS[1].id: "batch"}):
        gateway = await serve(metric_labels=labels)
        gateway.device.on_submit = lambda request: request.complete(b"hi")
        await gateway.post(CHAT, body())
        sample = await scraped(gateway)
        assert [name for name, _ in sample if name.startswith("aotx_usage")] == []


@asynchronous
async def test_exchanges_are_counted_with_their_failures(gateway: Serving) -> None:
    await gateway.get("/v1/models")
    gateway.device.before = partial(reply_to, status=429)
    await gateway.get("/v1/models")
    await gateway.stop_device()
    await gateway.get("/aotx/v1/telemetry")

    sample = await scraped(gateway)

    replies = partial(at, sample, "aotx_device_replies_total", operation="info")
    assert replies(status="200") == 1
    assert replies(status="429") == 1
    assert at(sample, "aotx_device_exchange_seconds_count", operation="info") == 2
    name = "aotx_device_exchange_failures_total"
    assert at(sample, name, operation="metrics", error="ConnectFailed") == 1


@asynchronous
async def test_budgets_are_told_with_their_limits(serve: Serve) -> None:
    gateway = await serve(limits=Limits(work=7, body_credit=9 << 20))
    await gateway.get("/readyz")
    made = (await gateway.post(REQUESTS, body())).json["id"]
    reading = await feed(gateway, f"{REQUESTS}/{made}/events")
    await reading.until(1)

    sample = await scraped(gateway)

    assert at(sample, "aotx_budget_limit", budget="work") == 7
    assert at(sample, "aotx_budget_in_use", budget="work") == 1
    assert at(sample, "aotx_budget_limit", budget="body_credit") == 9 << 20
    assert at(sample, "aotx_budget_in_use", budget="body_credit") == 0
    assert at(sample, "aotx_budget_in_use", budget="connections") == 2
    assert at(sample, "aotx_ready") == 1
    assert at(sample, "process_open_fds")
    reading.leave()
    await eventually(lambda: gateway.gateway.budgets.work.held == 0)
    sample = await scraped(gateway)
    left = {"status": "200", "code": "client_left"}
    route = "/aotx/v1/requests/{id}/events"
    name = "aotx_http_requests_total"
    assert at(sample, name, method="GET", route=route, **left) == 1


@asynchronous
async def test_a_client_that_leaves_before_its_answer_is_499(
    serve: Serve,
) -> None:
    device = DeviceScript()
    gateway = await serve(device)
    made = await gateway.connect()
    made.send(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
        + TOKEN.encode()
        + b"\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    )
    await eventually(lambda: gateway.gateway.budgets.bodies.held == 1)
    assert made.transport is not None
    made.transport.abortConnection()  # type: ignore[attr-defined]
    await eventually(lambda: len(gateway.site.connections) == 0)

    sample = await scraped(gateway)

    labels = {"method": "POST", "route": CHAT, "status": "499", "code": "client_left"}
    assert at(sample, "aotx_http_requests_total", **labels) == 1


@asynchronous
async def test_nothing_that_a_caller_chose_is_a_label(gateway: Serving) -> None:
    """
    B85: no principal, token, id, path argument, query or method of its own.
    """
    secret = "c0ffee" * 6
    gateway.device.on_submit = lambda request: request.complete(b"hi")
    made = (await gateway.post(CHAT, body())).json["id"]
    await gateway.get(f"/v1/models/{secret}")
    await gateway.get(f"/{secret}?{secret}={secret}", token=secret)
    await gateway.request(secret.upper(), f"/{secret}")
    await gateway.get(f"{REQUESTS}/req-{7:016x}-{secret[:32]}")

    text = (await gateway.get("/metrics")).content.decode()

    assert secret[:12] not in text.lower()
    assert TOKEN not in text
    assert digest(TOKEN).hex() not in text
    assert P1.hex() not in text
    assert made.removeprefix("chatcmpl-") not in text
    for name, label in re.findall(r'(\w+)="([^"]*)"', text):
        if name == "route":
            assert re.fullmatch(r"other|/[a-z0-9/{}._]*", label), label


def test_every_name_of_the_page_is_a_metric(request: pytest.FixtureRequest) -> None:
    page = (request.config.rootpath / "docs" / "operations.md").read_text()
    told = set(re.findall(r"`(aotx_\w+)`", page))
    metrics = Metrics()
    state = runtime_state()
    metrics.registry.register(RuntimeCollector(lambda: state))
    metrics.watch(held=lambda: {"work": 0}, limits={"work": 1}, is_ready=lambda: False)
    text = metrics.text().decode()
    made = set(re.findall(r"^# TYPE (aotx_\w+)", text, re.MULTILINE))

    assert {name for name in made if not name.endswith("_created")} == told


#: By name, the labels that each series has, as docs/operations.md tells them.
LABELS = {
    "aotx_http_requests": "method route status code",
    "aotx_http_request_seconds": "method route",
    "aotx_http_stream_seconds": "route",
    "aotx_http_stream_bytes": "route",
    "aotx_http_body_bytes": "route",
    "aotx_http_authentication_failures": "",
    "aotx_device_exchange_seconds": "operation",
    "aotx_device_replies": "operation status",
    "aotx_device_exchange_failures": "operation error",
    "aotx_admissions": "model",
    "aotx_cancels": "model",
    "aotx_finishes": "model finish",
    "aotx_media_sources": "origin outcome",
    "aotx_media_source_bytes": "origin",
    "aotx_media_source_seconds": "origin",
    "aotx_media_imports": "outcome",
    "aotx_usage_admissions": "principal model",
    "aotx_usage_requests": "principal model",
    "aotx_usage_prompt_tokens": "principal model",
    "aotx_usage_completion_tokens": "principal model",
    "aotx_budget_in_use": "budget",
    "aotx_budget_limit": "budget",
    "aotx_ready": "",
    "aotx_build_info": "version twisted python",
}
#: From a packet to the largest source, each four times the last.
BYTE_BOUNDS = [256.0 * 4**n for n in range(10)]


def busy_metrics() -> Metrics:
    """With a sample in every series."""
    metrics = Metrics()
    one = Served(
        method="POST",
        route=CHAT,
        status=401,
        code="",
        seconds=0.5,
        streamed=False,
        body_bytes=1,
        sent_bytes=1,
    )
    metrics.served(one)
    metrics.served(attrs.evolve(one, streamed=True))
    metrics.exchanged("READ", 200, 0.5)
    metrics.exchange_failed("READ", "ExchangeTimeout")
    metrics.media.ready("upload", 1, 0.5)
    metrics.media.imported()
    for number, finish in enumerate((1, 2)):
        handle = bytes([number]) * 16
        metrics.admitted(7, handle, "m", "alice")
        metrics.cancelled(7, handle)
        request = RequestHeader(Operation.READ, P1, 1, 7, handle)
        reply = reply_to(request, phase=Phase.COMPLETED, finish=finish)
        metrics.outcomes.seen(7, handle, split_reply(reply)[0])
    metrics.watch(held=lambda: {"work": 1}, limits={"work": 2}, is_ready=lambda: True)
    return metrics


def test_each_series_has_its_labels_and_bounds() -> None:
    """And a sentence that says what it is."""
    bounds: dict[str, list[float]] = {}
    labels = {}
    for family in text_string_to_metric_families(busy_metrics().text().decode()):
        if not family.name.startswith("aotx_") or family.name.endswith("_created"):
            continue
        assert re.fullmatch(r"[A-Z].*\.", family.documentation), family.name
        names = {name for sample in family.samples for name in sample.labels}
        labels[family.name] = names - {"le"}
        buckets = [
            float(sample.labels["le"])
            for sample in family.samples
            if "le" in sample.labels
        ]
        if buckets:
            assert buckets.pop() == math.inf
            bounds[family.name] = buckets

    assert labels == {name: set(told.split()) for name, told in LABELS.items()}
    for name, each in bounds.items():
        if name.endswith("_bytes"):
            assert each == BYTE_BOUNDS, name
        else:
            assert each == sorted(each)
            # A quick answer is told from a slow one, and the slowest has its place.
            assert each[0] <= 0.005, name
            assert each[-1] == (30 if "media" in name else 300), name


def test_what_is_remembered_is_bounded() -> None:
    finished: list[tuple[str, str]] = []
    outcomes = Outcomes(lambda model, finish, *_: finished.append((model, finish)))
    for number in range(REMEMBERED_MAX + 5):
        outcomes.admitted(1, number.to_bytes(16, "big"), "m")
    assert len(outcomes) == REMEMBERED_MAX
    reply = ReplyHeader(
        status=200, phase=Phase.FAILED, principal=P1, revision=1, epoch=1
    )
    for number in (0, 4, 5, 5):
        outcomes.seen(1, number.to_bytes(16, "big"), reply)

    assert finished == [("m", "failed")]
