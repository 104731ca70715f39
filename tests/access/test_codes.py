"""
Every error code of `http.md` §2, provoked with planted secrets in whatever causes it:
neither the answer nor the log, a repr, a metric or a traceback tells them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs
import pytest

from tests.access.expected import NOT_PUBLIC
from tests.access.front import MODELS, account, request_bytes, token_of
from tests.access.hunter import logs_into, only_new_objects, raised_into
from tests.access.planting import (
    IMPORTS,
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
)
from tests.access.scripted import Scripted
from tests.gateway.device_script import EPOCH, Running
from tests.gateway.form_samples import CONTROL
from twisted_aotx.gateway.auth import Authenticator
from twisted_aotx.gateway.checks import Checks
from twisted_aotx.gateway.dispatch import Dispatcher
from twisted_aotx.gateway.problems import ProblemCode
from twisted_aotx.gateway.resource import Answer, Call
from twisted_aotx.gateway.routing import Route, Router
from twisted_aotx.gateway.settings import Limits, ModelAlias
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import MediaStatus, Operation, Phase
from twisted_aotx.wire.packet import RequestHeader

CHAT: Final = "/v1/chat/completions"
NATIVE: Final = "/aotx/v1/requests"
SOURCES: Final = "/aotx/v1/media"
JPEG: Final = planted_jpeg()
#: Longer than any configuration allows.
LONG: Final = "m" * 1000
Provoke = Callable[[Hunt], object]
_C = ProblemCode


def device_of(hunt: Hunt) -> Any:
    front = hunt.front
    assert isinstance(front, Scripted)
    return front.device


def asks(method: str, path: str, **more: Any) -> Provoke:
    return lambda hunt: hunt.ask(method, path, **more)


def uploads(data: bytes = JPEG, kind: str = "image/jpeg", **more: Any) -> Provoke:
    typed = [("Content-Type", kind)]
    return asks("POST", SOURCES, data=data, headers=typed, **more)


def ends(how: Callable[[Running], None]) -> Provoke:
    """A completion whose request ends as *how* says."""

    def provoke(hunt: Hunt) -> None:
        device_of(hunt).on_submit = how
        hunt.ask("POST", CHAT, body=chat())

    return provoke


def informed(provoke: Provoke, **changes: Any) -> Provoke:
    """A device whose information has *changes*."""

    def with_them(hunt: Hunt) -> None:
        device = device_of(hunt)
        device.information = attrs.evolve(device.information, **changes)
        provoke(hunt)

    return with_them


def answering(reply: Callable[[RequestHeader], bytes], *asked: Provoke) -> Provoke:
    """A device that answers everything with *reply*."""

    def provoke(hunt: Hunt) -> None:
        device_of(hunt).before = reply
        for ask in asked:
            ask(hunt)

    return provoke


def gone(request: RequestHeader) -> bytes:
    """The connection is closed."""
    return b""


def cut_short(hunt: Hunt, *, ended: bool) -> None:
    """A body that is not whole when its client ends it, or time does."""
    whole = request_bytes("POST", CHAT, token=TOKEN, body=chat(PROMPT))
    client = hunt.front.connect()
    client.send(whole[:-20])
    if ended:
        client.end_sending()
    hunt.answered(hunt.front.told(client), "cut short")


def without_work(hunt: Hunt) -> None:
    hold = hunt.front.gateway.budgets.work.take()
    hunt.ask("POST", CHAT, body=chat())
    hold.release()


def failing(hunt: Hunt) -> None:
    async def fail(call: Call) -> Answer:
        raise ZeroDivisionError(f"{PROMPT} {call.txrequest!r} {OUTPUT}")

    gateway = hunt.front.gateway
    router = Router([Route("GET", "/x", fail)])
    checks = Checks(gateway, router, Authenticator(gateway.settings.principals))
    hunt.front.site.resource = Dispatcher(checks)
    hunt.ask("GET", "/x")


def closing(hunt: Hunt) -> None:
    hunt.front.gateway.closing.begin()
    hunt.ask("POST", CHAT, body=chat())


def other_digest(hunt: Hunt) -> None:
    def change(source: Any) -> None:
        source.sha256 = bytes([7] * 32)

    device_of(hunt).media.on_read = change
    uploads()(hunt)


def never_ready(hunt: Hunt) -> None:
    device_of(hunt).media.moves = False
    uploads()(hunt)


def judged(status: int) -> Provoke:
    def provoke(hunt: Hunt) -> None:
        device_of(hunt).media.verdicts[JPEG] = status
        uploads()(hunt)

    return provoke


def of_other_family(hunt: Hunt) -> None:
    transfer = bytes([9] * 16)
    device_of(hunt).media.put(owner().id, transfer)
    name = f"media-{transfer.hex()}"
    part = {"type": "media", "media_id": name, "modality": "audio"}
    hunt.ask("POST", NATIVE, body=chat([part, {"type": "text", "text": PROMPT}]))


def streamed(hunt: Hunt) -> None:
    """Events of a request that never ends."""
    device_of(hunt).on_submit = lambda running: running.say(b"")
    made = hunt.ask("POST", NATIVE, body=chat()).response.json["id"]
    told = hunt.ask("GET", f"{NATIVE}/{made}/events")
    assert told.status == 200


def cancelled(running: Running) -> None:
    running.end(Phase.CANCELLED, 409, 1)


#: How each code comes about.
PROVOKED: Final[dict[ProblemCode, Provoke]] = {
    _C.INVALID_FIELD: asks("POST", CHAT, body=chat(stream=SENT)),
    _C.BODY_LENGTH: lambda hunt: cut_short(hunt, ended=True),
    _C.CONTROL_SELECTION: informed(
        asks("POST", NATIVE, body=chat(control=CONTROL)),
        selection_version=0,
        controls=(),
    ),
    _C.MEDIA_REFUSED: judged(MediaStatus.JPEG),
    _C.INVALID_API_KEY: asks("GET", "/v1/models", token=UNKNOWN_TOKEN),
    _C.ORIGIN_FORBIDDEN: asks("GET", "/v1/models", headers=[("Origin", SENT)]),
    _C.INFERENCE_FORBIDDEN: asks("POST", CHAT, body=chat(), token=token_of(2)),
    _C.MEDIA_FORBIDDEN: uploads(token=token_of(2)),
    _C.URL_FORBIDDEN: asks(
        "POST", SOURCES + "/import", body={"url": SENT}, token=token_of(2)
    ),
    _C.SOURCE_ADDRESS: asks(
        "POST", SOURCES + "/import", body={"url": NOT_PUBLIC + SENT}
    ),
    _C.POLICY_PERMISSION: asks("GET", "/aotx/v1/policy", token=token_of(2)),
    _C.MODEL_NOT_FOUND: asks("POST", CHAT, body=chat() | {"model": SENT}),
    _C.ROUTE_NOT_FOUND: asks("GET", f"/{SENT}"),
    _C.METHOD: asks("DELETE", f"/v1/models/{SENT}"),
    _C.BODY_TIMEOUT: lambda hunt: cut_short(hunt, ended=False),
    _C.MEDIA_STATE: of_other_family,
    _C.BODY_LIMIT: asks("POST", CHAT, body=chat(PROMPT * 200)),
    _C.MEDIA_LIMIT: uploads(MEDIA.encode() * 20),
    _C.CONTEXT_LIMIT: asks("POST", CHAT, body=chat(PROMPT * 40)),
    _C.FRAME_LIMIT: informed(
        asks("POST", CHAT, body=chat((PROMPT * 600)[:65_400])), prompt_bytes=65_408
    ),
    _C.OUTPUT_LIMIT: informed(
        ends(lambda running: running.complete(OUTPUT.encode())), output_bytes=9
    ),
    _C.CONTENT_TYPE: asks(
        "POST", CHAT, data=PROMPT.encode(), headers=[("Content-Type", SENT)]
    ),
    _C.CONTENT_ENCODING: asks(
        "POST",
        CHAT,
        data=PROMPT.encode(),
        headers=[("Content-Type", "application/json"), ("Content-Encoding", SENT)],
    ),
    _C.MEDIA_TYPE: uploads(kind=SENT),
    _C.EXPECTATION: asks("GET", "/v1/models", headers=[("Expect", SENT)]),
    _C.TRANSPORT_LIMIT: without_work,
    _C.MEDIA_PRESSURE: judged(MediaStatus.PRESSURE),
    _C.HEADER_LIMIT: asks("GET", "/v1/models", headers=[("X", SENT * 80)]),
    _C.INTERNAL_ERROR: failing,
    _C.INVALID_DEVICE_RESPONSE: answering(
        lambda request: reply_to(request, 200, OUTPUT.encode() * 2, epoch=EPOCH),
        asks("GET", "/v1/models"),
        asks("POST", CHAT, body=chat()),
    ),
    _C.DEVICE_CONNECTION: answering(gone, asks("POST", CHAT, body=chat())),
    _C.SERVICE_CLOSED: closing,
    _C.SOURCE_DIGEST: other_digest,
    _C.EVENT_LIMIT: asks("POST", CHAT, body=chat(stream=True) | {"model": LONG}),
    _C.NOT_READY: answering(gone, asks("GET", "/readyz", headers=[("X-Y", SENT)])),
    _C.OPERATION_TIMEOUT: streamed,
    _C.RESPONSE_TIMEOUT: ends(lambda running: running.say(b"")),
    _C.MEDIA_TIMEOUT: never_ready,
    _C.DEVICE_REFUSED: asks("GET", f"{NATIVE}/req-{EPOCH:016x}-{'ab' * 16}"),
    _C.REQUEST_FAILED: ends(lambda running: running.end(Phase.FAILED, 503)),
    _C.REQUEST_CANCELLED: ends(cancelled),
}
#: Settings that some of them need.
LIMITS: Final = {
    _C.BODY_TIMEOUT: Limits(body_seconds=1),
    _C.BODY_LIMIT: Limits(json_bytes=10_000),
    _C.MEDIA_LIMIT: Limits(upload_bytes=20_000),
    _C.TRANSPORT_LIMIT: Limits(work=1),
    _C.EVENT_LIMIT: Limits(event_bytes=1024),
    _C.OPERATION_TIMEOUT: Limits(operation_seconds=1),
    _C.RESPONSE_TIMEOUT: Limits(operation_seconds=1),
    _C.MEDIA_TIMEOUT: Limits(operation_seconds=1),
}


@pytest.fixture
def hunting(request: pytest.FixtureRequest) -> Iterator[Hunt]:
    limits = LIMITS.get(request.param, Limits())
    long = ModelAlias(alias=LONG, role=2, published_at=1)
    first = attrs.evolve(owner(), models=("m", LONG))
    with only_new_objects():
        front = Scripted([first, account(2, 16)], limits=limits, models=(*MODELS, long))
        made = Hunt(front)
        front.on_write, front.on_step = made.look, made.stepped
        with logs_into(made.catch), raised_into(made.catch):
            yield made
            made.look()
            front.close()
    made.catch.look("metrics", "gateway", front.metrics.text().decode())
    made.catch.assert_nothing()


@pytest.mark.parametrize(
    ("hunting", "code"), [(code, code) for code in PROVOKED], indirect=["hunting"]
)
def test_what_is_told_of(hunting: Hunt, code: ProblemCode) -> None:
    PROVOKED[code](hunting)

    assert code in hunting.codes


def test_every_code_is_provoked() -> None:
    assert set(PROVOKED) | IMPORTS == set(ProblemCode)
    assert not set(PROVOKED) & IMPORTS


def test_every_status_of_the_device() -> None:
    """What comes with a refusal is not passed on."""
    front = Scripted([owner()])
    hunt = Hunt(front)
    for status in (400, 403, 404, 409, 410, 413, 429, 503):

        def refuse(request: RequestHeader, status: int = status) -> Any:
            if request.operation == Operation.INFO:
                return NotImplemented
            return reply_to(request, status, OUTPUT.encode(), epoch=EPOCH)

        front.device.before = refuse
        hunt.ask("POST", NATIVE, body=chat())
        hunt.ask("GET", f"{NATIVE}/req-{EPOCH:016x}-{'ab' * 16}")
        hunt.ask("GET", f"{SOURCES}/media-{'ab' * 16}")
        hunt.ask("GET", "/aotx/v1/policy")
    front.close()
    hunt.catch.assert_nothing()
    assert hunt.codes == {"device_refused"}
