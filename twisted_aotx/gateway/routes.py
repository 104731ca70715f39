"""
Every route of the gateway in one table (`http.md` §4): what is served, and what
`/openapi.json` says of it.
"""

from __future__ import annotations

from typing import Final

from twisted_aotx.gateway import (
    capabilities,
    completions,
    health,
    media,
    models,
    openapi,
    policy,
    requests,
    scrape,
    shared,
    telemetry,
)
from twisted_aotx.gateway.problems import ProblemCode
from twisted_aotx.gateway.routing import ANY_METHOD, About, Needs, Route
from twisted_aotx.wire.numbers import Action

_INFER: Final = Needs(Action.INFER, ProblemCode.INFERENCE_FORBIDDEN)
_UPLOAD: Final = Needs(Action.UPLOAD, ProblemCode.MEDIA_FORBIDDEN)
_FETCH: Final = Needs(Action.FETCH, ProblemCode.URL_FORBIDDEN)
#: As the device would refuse it.
_TELEMETRY: Final = Needs(Action.TELEMETRY, ProblemCode.DEVICE_REFUSED)
_POLICY_READ: Final = Needs(
    Action.TELEMETRY | Action.POLICY_MANAGE, ProblemCode.POLICY_PERMISSION
)
_POLICY_WRITE: Final = Needs(Action.POLICY_MANAGE, ProblemCode.POLICY_PERMISSION)

_REQUESTS: Final = "/aotx/v1/requests"
_REQUEST: Final = "/aotx/v1/requests/{id:request}"
_MEDIA: Final = "/aotx/v1/media"
_IMPORT: Final = "/aotx/v1/media/import"
_SOURCE: Final = "/aotx/v1/media/{id:media}"
_POLICY: Final = "/aotx/v1/policy"
_SHARED: Final = "/aotx/v1/shared/{rest:path}"
_CURSOR: Final = ("cursor",)

_STREAM: Final = ("text/event-stream", None)
#: Where a URL may be fetched.
_IMPORTS: Final = (502,)
_SOUNDS_AND_IMAGES: Final = ("image/jpeg", "audio/wav", "audio/x-wav")


def _about(summary: str, answer: str, *, status: int = 200) -> About:
    return About(summary, status=status, answers=(("application/json", answer),))


_HEALTHZ: Final = _about("Whether the HTTP server answers.", "Health")
_READYZ: Final = _about("Whether the device answers.", "Readiness")
_METRICS: Final = About("Prometheus metrics.", answers=(("text/plain", None),))
_OPENAPI: Final = _about("This document.", "Object")
_MODELS: Final = _about("The models of the caller.", "Models").asks_device()
_MODEL: Final = _about("One model of the caller.", "Model").asks_device()
_CHAT: Final = About(
    "A completion, whole or as server-sent events.",
    answers=(("application/json", "ChatCompletion"), _STREAM),
    body="CompletionBody",
    device=True,
    errors=_IMPORTS,
)
_CAPABILITIES: Final = _about(
    "What device and grant allow the caller.", "Capabilities"
).asks_device()
_SUBMIT: Final = About(
    "Submit a request that lives apart from any connection.",
    status=202,
    answers=(("application/json", "Admission"),),
    body="RequestBody",
    device=True,
    errors=_IMPORTS,
)
_READ: Final = _about("A request and its output.", "Request").asks_device()
_CANCEL: Final = About(
    "Ask for the end of a request.",
    answers=(("application/json", "Request"),),
    body="CancelBody",
    device=True,
)
_EVENTS: Final = About(
    "A request as server-sent events: `emission`, `status`, `error`.",
    answers=(_STREAM,),
    headers=("Last-Event-ID",),
    device=True,
)
_UPLOADING: Final = About(
    "Upload a media source; answered when it is ready.",
    status=201,
    answers=(("application/json", "Media"),),
    body="Bytes",
    body_types=_SOUNDS_AND_IMAGES,
    device=True,
)
_IMPORTING: Final = About(
    "Import a media source from an https URL.",
    status=201,
    answers=(("application/json", "Media"),),
    body="ImportBody",
    device=True,
    errors=_IMPORTS,
)
_LISTING: Final = _about("The caller's media sources.", "MediaList").asks_device()
_SHOWING: Final = _about("One media source.", "Media").asks_device()
_REMOVING: Final = About("Remove a media source.", status=204, device=True)
_SAMPLING: Final = _about("A sample of the device.", "Telemetry").asks_device()
_POLICY_SHOWING: Final = _about("The policy's state.", "Policy").asks_device()
_POLICY_CHANGING: Final = About(
    "Change the policy's state.",
    answers=(("application/json", "Policy"),),
    body="PolicyBody",
    device=True,
)
_RESERVED: Final = About("Reserved for a shared service.", status=None, device=True)

#: Method, path, handler, query keys; what the caller needs, where we and not the device
#: check it; `public` for what is served without a credential.
ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/healthz", health.get_healthz, public=True, about=_HEALTHZ),
    Route("GET", "/readyz", health.get_readyz, public=True, about=_READYZ),
    Route("GET", "/metrics", scrape.get_metrics, needs=_TELEMETRY, about=_METRICS),
    Route("GET", "/openapi.json", openapi.serve(lambda: ROUTES), about=_OPENAPI),
    Route("GET", "/v1/models", models.list_models, about=_MODELS),
    Route("GET", "/v1/models/{id:path}", models.get_model, about=_MODEL),
    Route(
        "POST", "/v1/chat/completions", completions.create, needs=_INFER, about=_CHAT
    ),
    Route(
        "GET",
        "/aotx/v1/capabilities",
        capabilities.get_capabilities,
        about=_CAPABILITIES,
    ),
    Route("POST", _REQUESTS, requests.create, needs=_INFER, about=_SUBMIT),
    Route("GET", _REQUEST, requests.read, _CURSOR, about=_READ),
    Route("POST", _REQUEST + "/cancel", requests.cancel, about=_CANCEL),
    Route("GET", _REQUEST + "/events", requests.events, _CURSOR, about=_EVENTS),
    Route("POST", _MEDIA, media.create, needs=_UPLOAD, about=_UPLOADING),
    Route("GET", _MEDIA, media.list_sources, _CURSOR, about=_LISTING),
    Route("POST", _IMPORT, media.create_from_url, needs=_FETCH, about=_IMPORTING),
    Route("GET", _SOURCE, media.show, about=_SHOWING),
    Route("DELETE", _SOURCE, media.remove, about=_REMOVING),
    Route("GET", "/aotx/v1/telemetry", telemetry.get_telemetry, about=_SAMPLING),
    Route("GET", _POLICY, policy.show, needs=_POLICY_READ, about=_POLICY_SHOWING),
    Route("POST", _POLICY, policy.change, needs=_POLICY_WRITE, about=_POLICY_CHANGING),
    Route(ANY_METHOD, _SHARED, shared.reserved, query=None, about=_RESERVED),
)
