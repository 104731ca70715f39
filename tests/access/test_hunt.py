"""
Planted tokens, digests, prompts, outputs and media bytes are in no log event, repr,
metric, error or traceback: gateway, broker, watches and device together.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.access.front import account, request_bytes, token_of
from tests.access.hunter import logs_into, only_new_objects, raised_into
from tests.access.owned import REQUESTS, SOURCES, caller, run
from tests.access.planting import (
    MEDIA,
    OUTPUT,
    PROMPT,
    SENT,
    TOKEN,
    UNKNOWN_TOKEN,
    Hunt,
    chat,
    owner,
    planted_jpeg,
    planted_wav,
)
from tests.access.served import Served
from tests.device.making import EPOCH
from twisted_aotx.runtime.metrics import RuntimeCollector, RuntimeState
from twisted_aotx.runtime.saving import SavingState

CHAT = "/v1/chat/completions"
NATIVE = "/aotx/v1/requests"
SOURCES_PATH = "/aotx/v1/media"


@pytest.fixture
def hunt(tmp_path: Path) -> Iterator[Hunt]:
    """Everything is looked at while it is made, and once more at the end."""
    with only_new_objects():
        bare = account(2, 16)
        served = Served(tmp_path, owner(), bare, account(3))
        served.plays = (OUTPUT.encode(), b"\xff" + OUTPUT.encode())
        made = Hunt(served)
        log = tmp_path / "access.log"
        served.site.journal.open(str(log))
        served.on_write, served.on_step = made.look, made.stepped
        with logs_into(made.catch), raised_into(made.catch):
            yield made
            served.close()
    made.catch.look("metrics", "gateway", served.metrics.text().decode())
    made.catch.look("access log", "", log.read_text())
    made.catch.assert_nothing()
    assert made.catch.seen["object"] > 100


def served_of(hunt: Hunt) -> Served:
    assert isinstance(hunt.front, Served)
    return hunt.front


@pytest.mark.slow
def test_what_succeeds(hunt: Hunt) -> None:
    """Every way of asking and of being answered."""
    for fields in (
        {},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"user": SENT, "metadata": {"x": SENT}, "seed": 1, "temperature": 0},
    ):
        told = hunt.ask("POST", CHAT, body=chat(**fields))
        assert told.status == 200
        assert OUTPUT[:12].encode() in told.packet
    made = hunt.ask("POST", NATIVE, body=chat(PROMPT + "é")).response.json["id"]
    for rest in ("", "?cursor=5", "/events", "/events?cursor=7"):
        assert hunt.ask("GET", f"{NATIVE}/{made}{rest}").status == 200
    assert hunt.ask("POST", f"{NATIVE}/{made}/cancel", body={}).status == 200
    for data, kind in ((planted_wav(), "audio/wav"), (planted_jpeg(), "image/jpeg")):
        typed = [("Content-Type", kind)]
        told = hunt.ask("POST", SOURCES_PATH, data=data, headers=typed)
        assert told.status == 201, told.packet
        modality = kind.partition("/")[0]
        name = told.response.json["id"]
        part = {"type": "media", "media_id": name, "modality": modality}
        assert hunt.ask("POST", NATIVE, body=chat([part])).status == 202
    inline = "data:image/jpeg;base64," + base64.b64encode(planted_jpeg()).decode()
    part = {"type": "image_url", "image_url": {"url": inline}}
    assert hunt.ask("POST", CHAT, body=chat([part])).status == 200
    for path in ("/v1/models", "/aotx/v1/capabilities", SOURCES_PATH, "/metrics"):
        assert hunt.ask("GET", path).status == 200


def test_requests_in_every_state(hunt: Hunt) -> None:
    """Held by whoever holds them while they run, end and are looked at."""
    served = served_of(hunt)
    served.plays = None
    for state, bring in REQUESTS.items():
        if state not in ("displaced", "queued", "cancelled at once"):
            bring(served)
    stream = served.connect()
    stream.send(request_bytes("POST", CHAT, token=TOKEN, body=chat(stream=True)))
    whole = served.connect()
    whole.send(request_bytes("POST", CHAT, token=TOKEN, body=chat()))
    served.step(10)
    for order in list(served.engine.leases.values()):
        served.engine.play(order, [OUTPUT.encode()])
        served.step(3)
    for client in (stream, whole):
        hunt.answered(served.told(client), "stream")


def test_sources_in_every_state(hunt: Hunt) -> None:
    served = served_of(hunt)
    served.plays = None
    for bring in SOURCES.values():
        bring(served)
        served.decodes = served.saves = True
    served.saves = False
    fields = [("Content-Type", "audio/wav")]
    told = hunt.ask("POST", SOURCES_PATH, data=planted_wav(), headers=fields)
    assert told.status == 429


#: What is wrong with a body; the secrets are in keys, values and whatever is neither.
BODIES = [
    f'{{"{SENT}":"{PROMPT}"}}',
    f'{{"model":"m","messages":"{PROMPT}"',
    f'{{"model":"m","model":"{PROMPT}"}}',
    f'["{PROMPT}"]',
    f'"{PROMPT}"',
    f"{PROMPT}",
    f'{{"model":"{SENT}","messages":[{{"role":"user","content":"{PROMPT}"}}]}}',
    f'{{"model":"m","messages":[{{"role":"{SENT}","content":"{PROMPT}"}}]}}',
    f'{{"model":"m","messages":[{{"role":"user","content":"{PROMPT}","{SENT}":1}}]}}',
    f'{{"model":"m","messages":[{{"role":"user","content":"\\ud800{PROMPT}"}}]}}',
    f'{{"model":"m","messages":[],"{SENT}":NaN}}',
    '{"a":' * 9 + f'"{PROMPT}"' + "}" * 9,
    f'{{"a":1e999,"b":"{PROMPT}"}}',
]
#: Fields of a body with a wrong value.
FIELDS = (
    *("stream", "stream_options", "n", "modalities", "store", "max_tokens", "top_p"),
    *("temperature", "stop", "tools", "tool_choice", "seed", "logit_bias", "control"),
    *("response_format", "service_tier", "frequency_penalty", "logprobs", "metadata"),
)
#: Parts that no message holds.
PARTS = [
    {"type": SENT, "text": PROMPT},
    {"type": "text", "text": [PROMPT]},
    {"type": "text", "text": PROMPT, SENT: 1},
    {"type": "text", "text": "[image:" + PROMPT},
    {"type": "text", "text": PROMPT + "<|vision_"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64," + MEDIA}},
    {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64," + MEDIA}},
    {"type": "image_url", "image_url": {"url": f"https://{SENT}"}},
    {"type": "image_url", "image_url": {"url": f"https://10.0.0.1/{SENT}"}},
    {"type": "image_url", "image_url": {"url": f"ftp://u:{SENT}@h/", "detail": SENT}},
    {"type": "input_audio", "input_audio": {"data": MEDIA + "?", "format": "wav"}},
    {"type": "input_audio", "input_audio": {"data": MEDIA, "format": SENT}},
    {"type": "media", "media_id": SENT, "modality": "image"},
    {"type": "media", "media_id": "media-" + "ab" * 16, "modality": SENT},
]


@pytest.mark.slow
@pytest.mark.parametrize("path", [CHAT, NATIVE])
def test_bodies_that_are_refused(hunt: Hunt, path: str) -> None:
    kind = [("Content-Type", "application/json")]
    for text in BODIES:
        data = text.encode("utf-8", "surrogatepass")
        assert hunt.ask("POST", path, data=data, headers=kind).status >= 400
    hunt.ask("POST", path, data=PROMPT.encode() + b"\xff", headers=kind)
    hunt.ask("POST", path, data=PROMPT.encode(), headers=[("Content-Type", SENT)])
    gzip = [*kind, ("Content-Encoding", SENT)]
    hunt.ask("POST", path, data=PROMPT.encode(), headers=gzip)
    for field in FIELDS:
        hunt.ask("POST", path, body=chat(**{field: SENT}))
        hunt.ask("POST", path, body=chat(**{field: {SENT: PROMPT}}))
    for part in PARTS:
        hunt.ask("POST", path, body=chat([part]))
    told = hunt.ask("POST", path, body=chat(PROMPT * 40))
    assert told.problem[1] == "context_limit"


def test_callers_that_are_refused(hunt: Hunt) -> None:
    """The token of nobody, of somebody in a wrong place, and without the action."""
    assert hunt.ask("GET", "/v1/models", UNKNOWN_TOKEN).status == 401
    for sent in (f"Basic {TOKEN}", f"Bearer  {TOKEN}", TOKEN, f"Bearer {TOKEN}\xff"):
        fields = [("Authorization", sent)]
        assert hunt.ask("GET", "/v1/models", None, headers=fields).status == 401
    again = [("Authorization", f"Bearer {TOKEN}")]
    assert hunt.ask("GET", "/v1/models", headers=again).status == 400
    for query in (
        f"token={TOKEN}",
        f"{TOKEN}",
        f"cursor=1&cursor={SENT}",
        "%ff" + SENT,
    ):
        assert hunt.ask("GET", f"/v1/models?{query}").status == 400
        hunt.ask("GET", f"/healthz?{query}", None)
        hunt.ask("GET", f"{NATIVE}/req-{EPOCH:016x}-{'ab' * 16}?{query}")
    for path in (CHAT, NATIVE):
        hunt.ask("POST", path, token_of(2), body=chat())
    fields = [("Content-Type", "audio/wav")]
    hunt.ask("POST", SOURCES_PATH, token_of(2), data=planted_wav(), headers=fields)
    hunt.ask("POST", SOURCES_PATH + "/import", token_of(2), body={"url": SENT})
    hunt.ask("POST", "/aotx/v1/policy", token_of(2), body={SENT: SENT})
    hunt.ask("POST", "/aotx/v1/policy", body={"action": SENT})
    assert {"invalid_api_key", "inference_forbidden", "media_forbidden"} <= hunt.codes
    assert {"url_forbidden", "policy_permission", "invalid_field"} <= hunt.codes


def test_heads_that_are_refused(hunt: Hunt) -> None:
    """Paths, methods, fields and lines that nobody can read."""
    for before in ("/", "/v1/", NATIVE + "/", "/%", "//", "/v1/models?"):
        for method in ("GET", "POST", SENT.upper()):
            assert hunt.ask(method, before + SENT).status in (400, 404, 405)
    hunt.ask("DELETE", f"/v1/models/{SENT}")
    events = f"{NATIVE}/req-{EPOCH:016x}-{'ab' * 16}/events"
    for name in ("Origin", "Expect", "Content-Type", "Last-Event-ID", "X-Request-ID"):
        hunt.ask("GET", events, headers=[(name, SENT)])
    hunt.ask("GET", "/v1/models", headers=[(SENT, SENT)] * 70)
    hunt.ask("GET", "/v1/models", headers=[("X", SENT * 80)])
    whole = request_bytes("GET", "/v1/models", token=TOKEN)
    for broken in (
        f"GET /{SENT} HTTP/9.9\r\n\r\n",
        f"{SENT}\r\n\r\n",
        f"GET /{SENT * 100} HTTP/1.1\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: x\r\n{SENT}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: {SENT} {SENT}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: {SENT}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: x\r\n {SENT}\r\n\r\n",
        f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        f"{SENT}\r\n{PROMPT}\r\n",
    ):
        hunt.send(broken.encode())
    assert hunt.send(whole).status == 200
    assert {"method", "route_not_found", "header_limit", "expectation"} <= hunt.codes
    assert {"origin_forbidden", "invalid_field"} <= hunt.codes


def test_sources_that_are_refused(hunt: Hunt) -> None:
    for data, kind in (
        (MEDIA.encode(), "image/jpeg"),
        (MEDIA.encode(), "audio/wav"),
        (planted_wav()[:-9], "audio/wav"),
        (planted_jpeg()[:-1], "image/jpeg"),
        (MEDIA.encode(), SENT),
        (b"", "image/jpeg"),
        (MEDIA.encode() * 250, "image/jpeg"),
    ):
        fields = [("Content-Type", kind)]
        told = hunt.ask("POST", SOURCES_PATH, data=data, headers=fields)
        assert told.status >= 400
    for body in ({"url": SENT}, {"url": f"https://10.0.0.1/{SENT}"}, {SENT: 1}):
        hunt.ask("POST", SOURCES_PATH + "/import", body=body)
    for path in (f"media-{SENT}", "media-" + "ab" * 16):
        for method in ("GET", "DELETE"):
            assert hunt.ask(method, f"{SOURCES_PATH}/{path}").status == 404
    assert {
        "media_refused",
        "media_limit",
        "media_type",
        "source_address",
    } <= hunt.codes


def test_engines_that_fail(hunt: Hunt) -> None:
    """A request that ends badly, before its first byte and after it."""
    served = served_of(hunt)
    served.plays = None
    for stream in (False, True):
        for said in ([], [OUTPUT.encode()]):
            client = served.connect()
            body = chat(stream=stream)
            client.send(request_bytes("POST", CHAT, token=TOKEN, body=body))
            served.step(5)
            order = served.leases[-1]
            served.engine.report(order, 1, 5)
            for data in said:
                served.engine.report(order, 3, 1, data)
            served.engine.end(order, 5, 503)
            # What was emitted is the caller's own, also before an error.
            told = served.told(client)
            assert b"request_failed" in told.packet
            hunt.answered(b"HTTP/1.1 200" + told.packet, "failed")
    made = run(served, served.client.info(caller(1)))
    assert made.epoch == EPOCH


def test_packets_that_are_refused(hunt: Hunt) -> None:
    """Raw peers of both sockets, and a device that has gone."""
    served = served_of(hunt)
    system, world = served.world.system, served.world
    paths = (served.settings.socket, served.settings.socket.replace("service", "watch"))
    for path in paths:
        for data in (PROMPT.encode(), PROMPT.encode() * 4, PROMPT.encode() * 700):
            peer = system.makeSocket()
            assert peer.connect_ex(path.encode()) == 0
            world.settle()
            peer.send(data, 0)
            served.step(2)
    served.broker.stop()
    world.settle()
    assert hunt.ask("POST", CHAT, body=chat()).status == 503
    assert "device_connection" in hunt.codes


def test_the_runtime_s_metrics(hunt: Hunt) -> None:
    served = served_of(hunt)
    hunt.ask("POST", CHAT, body=chat())
    state = RuntimeState(
        device=served.device.stats(),
        saving=SavingState(),
        losses={2: 1},
        returns={2: 1},
    )
    registry = CollectorRegistry()
    registry.register(RuntimeCollector(lambda: state))
    hunt.catch.look("metrics", "runtime", generate_latest(registry).decode())
