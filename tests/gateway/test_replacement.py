"""
Another configuration while calls are served (`http.md` §10).
"""

from __future__ import annotations

import base64
from typing import Any

import attrs
import pytest

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.feeds import CHAT, REQUESTS, body, eventually, feed, text_of
from tests.gateway.serving import (
    MODELS,
    P2,
    PRINCIPALS,
    TOKEN,
    TOKEN_2,
    TOKEN_ROTATED,
    Serving,
    digest,
)
from twisted_aotx.gateway.replacement import replacement
from twisted_aotx.gateway.settings import GatewaySettings, Limits, Principal
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import Action, Operation
from twisted_aotx.wire.packet import RequestHeader

NEW_TOKEN = "n" * 43
FIRST = PRINCIPALS[0]


def reconfigure(gateway: Serving, **changes: Any) -> None:
    settings = attrs.evolve(gateway.gateway.settings, **changes)
    gateway.site.reconfigure(settings)


def with_tokens(*tokens: str) -> tuple[Principal, ...]:
    """The two principals, the first of them with *tokens*."""
    hashes = tuple(map(digest, tokens))
    return attrs.evolve(FIRST, token_sha256=hashes), PRINCIPALS[1]


async def statuses(gateway: Serving, *tokens: str) -> list[int]:
    return [(await gateway.get("/v1/models", token=token)).status for token in tokens]


@asynchronous
async def test_tokens_change_at_once_also_on_open_connections(gateway: Serving) -> None:
    head = (
        f"GET /v1/models HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    )
    raw = await gateway.connect()
    raw.send(head.encode())
    await raw.until(b"HTTP/1.1 200")

    reconfigure(gateway, principals=with_tokens(NEW_TOKEN))
    raw.send(head.encode())

    await raw.until(b"HTTP/1.1 401")
    assert await statuses(gateway, TOKEN, TOKEN_ROTATED, NEW_TOKEN, TOKEN_2) == [
        *(401, 401, 200, 200)
    ]


@asynchronous
async def test_a_rotation_in_two_steps_refuses_nobody(gateway: Serving) -> None:
    # http.md §10: tokens need no new revision, and disturb nothing.
    gateway.device.on_submit = lambda request: request.say(b"one ")
    reading = await feed(gateway, CHAT, json=body(stream=True))
    await reading.until(2)
    made = await gateway.post(REQUESTS, body(), token=TOKEN)

    reconfigure(gateway, principals=with_tokens(TOKEN, NEW_TOKEN))
    assert await statuses(gateway, TOKEN, NEW_TOKEN) == [200, 200]
    reconfigure(gateway, principals=with_tokens(NEW_TOKEN))
    assert await statuses(gateway, TOKEN, NEW_TOKEN) == [401, 200]

    # The same caller with its new token has what it had; the open stream goes on.
    native = await gateway.get(f"{REQUESTS}/{made.json['id']}", token=NEW_TOKEN)
    assert native.status == 200
    for request in gateway.device.requests.values():
        request.complete(b"two")
    await reading.ended
    assert text_of(reading.records) == "one two"


@asynchronous
async def test_a_running_call_keeps_its_revision_new_ones_have_the_new(
    gateway: Serving,
) -> None:
    seen: list[tuple[int, int]] = []

    def note(request: RequestHeader) -> Any:
        seen.append((request.operation, request.revision))
        return NotImplemented

    gateway.device.before = note
    gateway.device.on_submit = lambda request: request.say(b"a")
    reading = await feed(gateway, CHAT, json=body(stream=True))
    await reading.until(2)

    reconfigure(gateway, revision=4)
    del seen[:]
    await gateway.get("/v1/models")
    await eventually(lambda: (Operation.READ, 3) in seen)

    assert (Operation.INFO, 4) in seen
    assert (Operation.INFO, 3) not in seen
    gateway.device.only.complete(b"b")
    await reading.ended
    assert text_of(reading.records) == "ab"


@asynchronous
async def test_a_revoked_stream_ends_with_its_error(gateway: Serving) -> None:
    # device.md §2: frames of the old revision are 403 once the table is another.
    gateway.device.on_submit = lambda request: request.say(b"a")
    reading = await feed(gateway, CHAT, json=body(stream=True))
    await reading.until(2)

    def refuse_the_old(request: RequestHeader) -> Any:
        return reply_to(request, 403) if request.revision == 3 else NotImplemented

    gateway.device.before = refuse_the_old
    reconfigure(gateway, revision=4)
    await reading.ended

    assert reading.records[-1].data["error"]["code"] == "device_refused"
    assert (await gateway.get("/v1/models")).status == 200


@asynchronous
async def test_what_was_told_under_the_old_revision_is_not_used(
    gateway: Serving,
) -> None:
    await gateway.post(REQUESTS, body())
    before = gateway.device.count(Operation.INFO)
    await gateway.post(REQUESTS, body())
    assert gateway.device.count(Operation.INFO) == before

    reconfigure(gateway, revision=4)
    await gateway.post(REQUESTS, body())

    assert gateway.device.count(Operation.INFO) == before + 1


@asynchronous
async def test_models_actions_and_origins_change(gateway: Serving) -> None:
    other = "https://other.example"
    assert (await gateway.get("/v1/models/org/m")).status == 200
    assert (await gateway.get("/healthz", headers={"Origin": other})).status == 403

    principal = attrs.evolve(FIRST, models=("m",), actions=Action.TELEMETRY)
    reconfigure(gateway, principals=(principal,), models=MODELS[1:], origins=(other,))

    assert (await gateway.get("/v1/models/org/m")).status == 404
    assert (await gateway.get("/healthz", headers={"Origin": other})).status == 200
    forbidden = await gateway.post(CHAT, body())
    assert forbidden.problem[:2] == (403, "inference_forbidden")
    assert await statuses(gateway, TOKEN_2) == [401]


@asynchronous
async def test_disconnect_is_for_completions_that_begin_later(serve: Serve) -> None:
    gateway = await serve(disconnect="detach")
    first = await feed(gateway, CHAT, json=body(stream=True))
    gateway.device.on_submit = lambda request: request.say(b"a")
    reconfigure(gateway, disconnect="cancel")
    second = await feed(gateway, CHAT, json=body(stream=True))

    first.leave()
    second.leave()
    await eventually(lambda: gateway.gateway.budgets.work.held == 0)
    await eventually(lambda: gateway.device.count(Operation.CANCEL) == 1)

    requests = list(gateway.device.requests.values())
    assert [request.cancel for request in requests] == [0, 1]


@asynchronous
async def test_fewer_places_take_none_away(serve: Serve) -> None:
    gateway = await serve(limits=Limits(work=2))
    readings = [await feed(gateway, CHAT, json=body(stream=True)) for _ in range(2)]

    reconfigure(gateway, limits=Limits(work=1, json_bytes=100))
    refused = await gateway.post(CHAT, body())
    assert refused.problem[:2] == (429, "transport_limit")
    assert 'aotx_budget_limit{budget="work"} 1.0' in metrics_of(gateway)
    for request in gateway.device.requests.values():
        request.complete(b"x")
    for reading in readings:
        await reading.ended

    reconfigure(gateway, limits=Limits(work=2, json_bytes=300))
    assert (await gateway.post(CHAT, body("x" * 400))).status == 413


def metrics_of(gateway: Serving) -> str:
    return gateway.gateway.metrics.text().decode()


@asynchronous
async def test_deadlines_of_open_connections_follow(serve: Serve) -> None:
    gateway = await serve(idle_seconds=100)
    idle = await gateway.connect()
    idle.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    await idle.until(b"200")

    reconfigure(gateway, idle_seconds=1)

    await idle.closed.addTimeout(5, gateway.gateway.reactor)


@asynchronous
async def test_emissions_of_one_stream_keep_their_size(gateway: Serving) -> None:
    # limits.event_bytes is for streams that begin later.
    gateway.device.on_submit = lambda request: request.say(b"a" * 3000)
    made = await gateway.post(REQUESTS, body())
    path = f"{REQUESTS}/{made.json['id']}/events"
    before = await feed(gateway, path)
    await before.until(1)
    reconfigure(gateway, limits=Limits(event_bytes=1024))
    after = await feed(gateway, path)
    gateway.device.only.complete(b"b" * 3000)
    await before.ended
    await after.ended

    def sizes(reading: Any) -> list[int]:
        records = [r for r in reading.records if r.event == "emission"]
        return [len(base64.b64decode(r.data["bytes"])) for r in records]

    assert sizes(before) == [3000, 3000]
    assert sum(sizes(after)) == 6000
    assert max(sizes(after)) < 100


# --- what a restart is needed for -----------------------------------------------------

OLD = GatewaySettings(socket="/s", revision=1, models=MODELS, principals=PRINCIPALS)


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({"socket": "/t"}, ("socket",)),
        ({"host": "::1", "port": 1}, ("host", "port")),
        ({"certificate": "/c", "key": "/k"}, ("certificate", "key")),
        (
            {"limits": Limits(connections=1, wire_connections=2)},
            ("limits.connections", "limits.wire_connections"),
        ),
        ({"revision": 2, "limits": Limits(work=1), "origins": ("https://a",)}, ()),
    ],
)
def test_what_only_a_restart_changes_stays(
    changes: dict[str, Any], keys: tuple[str, ...]
) -> None:
    taken, needing = replacement(OLD, attrs.evolve(OLD, **changes))

    assert needing == keys
    assert taken == (attrs.evolve(OLD, **changes) if not keys else OLD)


def test_the_rest_is_taken_beside_it() -> None:
    principal = Principal(id=P2, token_sha256=(b"x" * 32,), actions=1)
    new = attrs.evolve(
        OLD, port=1, principals=(principal,), limits=Limits(connections=1, work=3)
    )

    taken, needing = replacement(OLD, new)

    assert needing == ("port", "limits.connections")
    assert taken.port == OLD.port
    assert taken.limits == Limits(work=3)
    assert taken.principals == (principal,)
