"""
Who may see what over HTTP, said once more beside the code: a row for each route
(`http.md` §1, §2, §4, §6, §8), and what else a body may ask for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

from tests.media_made import make_wav
from twisted_aotx.gateway.routing import ANY_METHOD, Place
from twisted_aotx.wire.numbers import Action

Problem = tuple[int, str, str | None]

WAV: Final = make_wav(400)
CHAT_BODY: Final = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
#: A literal that is not public: judged without a look-up, after the action.
NOT_PUBLIC: Final = "https://10.0.0.1/a.jpg"

UNAUTHENTICATED: Final[Problem] = (401, "invalid_api_key", None)
#: Of a handle that is nobody's, and of another principal's [D22].
MISSING: Final[Problem] = (404, "device_refused", None)
STALE: Final[Problem] = (410, "device_refused", None)
NOT_ALLOWED: Final[Problem] = (405, "method", None)
NO_ROUTE: Final[Problem] = (404, "route_not_found", None)


@attrs.frozen(kw_only=True)
class Row:
    """
    One route for who has the right, for who has not, and for whose handle it is.
    """

    #: Whether it is served without a credential.
    public: bool = False
    #: Bits of `Action`; one of them is enough. 0 is any credential.
    needs: int = 0
    #: Without them.
    refused: Problem | None = None
    #: Whether the device refuses, who is asked once, or the gateway, who asks nobody.
    by_device: bool = False
    #: With them: a status, or the problem that this caller has all the same.
    success: int | Problem = 200
    #: What the path names: `request`, `media`, a model or nothing.
    names: str | None = None
    body: Any = None
    #: A body that is not JSON, and its type.
    data: bytes | None = None
    data_type: str = ""

    @property
    def arguments(self) -> dict[str, Any]:
        """What a request has besides its path."""
        if self.data is not None:
            return {"data": self.data, "headers": [("Content-Type", self.data_type)]}
        return {} if self.body is None else {"body": self.body}


_DEVICE: Final[Problem] = (403, "device_refused", None)
_INFER: Final[dict[str, Any]] = {
    "needs": Action.INFER,
    "refused": _DEVICE,
    "by_device": True,
}
_UPLOAD: Final[dict[str, Any]] = {
    "needs": Action.UPLOAD,
    "refused": _DEVICE,
    "by_device": True,
}
_POLICY: Final[Problem] = (403, "policy_permission", None)

_REQUEST: Final = "/aotx/v1/requests/{id}"
_SOURCE: Final = "/aotx/v1/media/{id}"

#: (method, path with the names of its arguments) to what is right.
EXPECTED: Final[dict[tuple[str, str], Row]] = {
    ("GET", "/healthz"): Row(public=True),
    ("GET", "/readyz"): Row(public=True),
    ("GET", "/metrics"): Row(needs=Action.TELEMETRY, refused=_DEVICE),
    ("GET", "/openapi.json"): Row(),
    ("GET", "/v1/models"): Row(),
    ("GET", "/v1/models/{id}"): Row(names="model"),
    ("POST", "/v1/chat/completions"): Row(
        needs=Action.INFER, refused=(403, "inference_forbidden", None), body=CHAT_BODY
    ),
    ("GET", "/aotx/v1/capabilities"): Row(),
    ("POST", "/aotx/v1/requests"): Row(
        needs=Action.INFER,
        refused=(403, "inference_forbidden", None),
        body=CHAT_BODY,
        success=202,
    ),
    ("GET", _REQUEST): Row(names="request", **_INFER),
    ("POST", _REQUEST + "/cancel"): Row(names="request", body={}, **_INFER),
    ("GET", _REQUEST + "/events"): Row(names="request", **_INFER),
    ("POST", "/aotx/v1/media"): Row(
        needs=Action.UPLOAD,
        refused=(403, "media_forbidden", None),
        data=WAV,
        data_type="audio/wav",
        success=201,
    ),
    ("GET", "/aotx/v1/media"): Row(**_UPLOAD),
    ("POST", "/aotx/v1/media/import"): Row(
        needs=Action.FETCH,
        refused=(403, "url_forbidden", None),
        body={"url": NOT_PUBLIC},
        success=(403, "source_address", None),
    ),
    ("GET", _SOURCE): Row(names="media", **_UPLOAD),
    ("DELETE", _SOURCE): Row(names="media", success=204, **_UPLOAD),
    ("GET", "/aotx/v1/telemetry"): Row(
        needs=Action.TELEMETRY, refused=_DEVICE, by_device=True
    ),
    ("GET", "/aotx/v1/policy"): Row(
        needs=Action.TELEMETRY | Action.POLICY_MANAGE, refused=_POLICY
    ),
    ("POST", "/aotx/v1/policy"): Row(
        needs=Action.POLICY_MANAGE,
        refused=_POLICY,
        body={"action": "pause", "epoch": 1, "control_revision": 0},
        success=STALE,
    ),
    (ANY_METHOD, "/aotx/v1/shared/{rest}"): Row(success=(503, "device_refused", None)),
}


def places() -> dict[str, dict[str, Row]]:
    """The rows by path, then by method."""
    found: dict[str, dict[str, Row]] = {}
    for (method, path), row in EXPECTED.items():
        found.setdefault(path, {})[method] = row
    return found


def differences(served: Iterable[Place]) -> set[tuple[str, str]]:
    """Routes of *served* without a row, and rows without a route."""
    routes = {
        (route.method, route.label)
        for place in served
        for route in place.routes.values()
    }
    return routes ^ set(EXPECTED)


def row_of(rows: dict[str, Row], method: str) -> Row | None:
    """That of *method* at a path with *rows*; HEAD is GET's [D15]."""
    return rows.get("GET" if method == "HEAD" else method) or rows.get(ANY_METHOD)


def allowed(rows: dict[str, Row]) -> str:
    """`Allow` of a path with *rows*."""
    return ", ".join("GET, HEAD" if method == "GET" else method for method in rows)
