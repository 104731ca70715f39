"""
JSON bodies of every POST route against a gateway with a device behind it: none is
answered 500, none that is refused admits a request, no error tells what was sent.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from tests.broker.whole import EPOCH
from tests.fuzz import json_values
from tests.fuzz.answers import answers_in
from tests.fuzz.gateways import MemoryGateway
from tests.fuzz.harness import Features, Target, demand
from tests.gateway.form_samples import AUDIO, CONTROL, IMAGE, MEDIA, body, said
from tests.gateway.serving import TOKEN, Response
from twisted_aotx.gateway.neutral import NEUTRAL
from twisted_aotx.gateway.routes import ROUTES

_HANDLE: Final = f"req-{EPOCH:016x}-{9:032x}"
#: Every route that takes a JSON body, in the order of the table.
PATHS: Final = tuple(
    route.path.replace("{id:request}", _HANDLE)
    for route in ROUTES
    if route.method == "POST" and "application/json" in route.about.body_types
)
CHAT: Final = PATHS.index("/v1/chat/completions")
_PARTS: Final = (IMAGE, AUDIO, MEDIA, {"type": "text", "text": "hi"})
_SAMPLES: Final[tuple[dict[str, Any], ...]] = (
    body(),
    body(stream=True, stream_options={"include_usage": True}, max_tokens=3),
    body(temperature=0, top_p=0.5, seed=7, n=1, stop=[], user="me"),
    body(control=CONTROL),
    body(messages=[{"role": r, "content": "x"} for r in ("system", "user")]),
    said("[image:"),
    said("x" * 4090),
    said([{"type": "text", "text": "what?"}, IMAGE]),
    *(said([part]) for part in _PARTS),
    {},
    {"url": "https://source.example/a.jpg"},
    {"url": "https://192.0.2.7/a.jpg"},
    {"action": "pause", "epoch": EPOCH, "control_revision": 1},
    {"action": "review_on", "epoch": EPOCH, "control_revision": 1},
)
_WORDS: Final[tuple[Any, ...]] = (
    *NEUTRAL,
    *("model", "messages", "stream", "stream_options", "include_usage", "max_tokens"),
    *("max_completion_tokens", "temperature", "top_p", "control", "role", "content"),
    *("type", "text", "image_url", "url", "detail", "input_audio", "data", "format"),
    *("media", "media_id", "modality", "modalities", "store", "n", "schema", "dose"),
    *("m", "org/m", "absent", "system", "user", "assistant", "developer", "wav", "low"),
    *("data:image/jpeg;base64,", "data:image/png;base64,AAAA", "AAA=", "http://x/"),
    *("https://127.1/", "https://x", "https://[::1]/", "https://10.0.0.1:8443/"),
    *("action", "epoch", "control_revision", "resume", "stop", "pause", EPOCH, "name"),
    *(["text"], {"type": "text"}, *_PARTS, CONTROL, [*_PARTS]),
)
#: Codes of requests that were admitted, and then ended badly.
_ADMITTED: Final = frozenset(
    {"request_failed", "request_cancelled", "response_timeout", "output_limit"}
)


def request(path: str, data: bytes, content_type: bytes = b"application/json") -> bytes:
    """A POST of *data* that is right in everything else."""
    return (
        b"POST %b HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\n"
        b"Content-Type: %b\r\nContent-Length: %d\r\n\r\n"
        % (path.encode(), TOKEN.encode(), content_type, len(data))
    ) + data


def post(gateway: MemoryGateway, path: str, data: bytes) -> Response:
    """
    The answer to one POST.

    Raises:
        Broken: it is one that none may be, or a refusal that admitted something.
    """
    before = gateway.admissions()
    (answer,) = answers_in(gateway.exchange(request(path, data)), [b"POST"])
    admitted = gateway.admissions() - before
    code = answer.error["code"] if answer.status >= 400 else ""
    if answer.status >= 400 and code not in _ADMITTED:
        demand(admitted == 0, f"refused with {answer.status} {code}, and admitted")
        canary = json_values.CANARY.encode()
        demand(canary not in answer.content, f"told what was sent: {answer.content!r}")
    return answer


class BodiesTarget(Target):
    """
    The first byte of an input is its route's number.

    Args:
        make: makes a gateway.
    """

    name: ClassVar[str] = "bodies"
    count: ClassVar[int] = 300

    def __init__(self, make: Callable[[], MemoryGateway] = MemoryGateway) -> None:
        self._make = make

    def seeds(self) -> Sequence[bytes]:
        return [
            bytes([route]) + json_values.text_of(sample)
            for route in range(len(PATHS))
            for sample in _SAMPLES
        ]

    def draw(self, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
        # Most of what there is to do wrong is in completions and requests.
        route = rng.randrange(len(PATHS)) if rng.random() < 0.4 else CHAT
        one = rng.choice(corpus)
        if rng.random() < 0.7:
            route = one[0] if one else 0
        data = json_values.draw(rng, [one[1:]], _SAMPLES, _WORDS)
        return bytes([route % len(PATHS)]) + data

    def judge(self, data: bytes) -> Features:
        route = (data[0] if data else 0) % len(PATHS)
        gateway = self._make()
        try:
            answer = post(gateway, PATHS[route], data[1:])
        finally:
            gateway.close()
        return frozenset({(route, answer.status, *_told(answer))})


def _told(answer: Response) -> tuple[str | None, ...]:
    if answer.status < 400:
        return (answer.header("content-type"),)
    error = json.loads(answer.content)["error"]
    return error["code"], error["param"], error["message"]
