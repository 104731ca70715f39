"""
`GET /openapi.json`: the route table as OpenAPI 3.1 (`http.md` §4, D21).

Made from the very routes that are served: method, path, arguments, query and rights
come from a `Route`, and what cannot be derived stands in its `about`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from twisted_aotx.gateway.answers import Answer
from twisted_aotx.gateway.problems import PROBLEMS
from twisted_aotx.gateway.routing import ANY_METHOD, Route
from twisted_aotx.gateway.schemas import (
    ANSWERS,
    CURSOR,
    MEDIA_ID,
    REQUEST_ID,
    STRING,
    Schema,
    ref,
)
from twisted_aotx.gateway.schemas_bodies import BODIES

if TYPE_CHECKING:
    from twisted_aotx.gateway.resource import Call, Handler

#: What a route of any method is shown as.
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_ARGUMENT: Final = re.compile(r"\{(\w+):(\w+)\}")
_ARGUMENTS: Final[dict[str, Schema]] = {
    "request": REQUEST_ID,
    "media": MEDIA_ID,
    "path": STRING | {"minLength": 1},
}
#: Statuses that any request may get: §1 and a failing or closing gateway.
_ALWAYS: Final = (400, 403, 405, 417, 431, 500, 503)
_WITH_CREDENTIAL: Final = (401, 404)
_WITH_BODY: Final = (408, 413, 415, 429)
_OF_DEVICE: Final = (404, 409, 410, 413, 429, 504)
#: Headers by the statuses that carry them; 0 is all.
_HEADERS: Final[dict[str, tuple[tuple[int, ...], Schema]]] = {
    "Cache-Control": ((0,), STRING),
    "X-Content-Type-Options": ((0,), {"const": "nosniff"}),
    "Vary": ((0,), {"const": "Origin"}),
    "WWW-Authenticate": ((401,), {"const": "Bearer"}),
    "Allow": ((405,), STRING),
    "Retry-After": ((429, 503), {"type": "string", "pattern": "^[0-9]{1,3}$"}),
}


def serve(routes: Callable[[], Iterable[Route]]) -> Handler:
    """
    The handler that tells *routes*, which may hold it.
    """

    @cache
    def made() -> dict[str, Any]:
        return document(routes())

    async def get_openapi(_call: Call) -> Answer:
        return Answer(body=made())

    return get_openapi


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """
    The OpenAPI object of *routes*.
    """
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        methods = _METHODS if route.method == ANY_METHOD else (route.method,)
        for method in methods:
            paths.setdefault(route.label, {})[method.lower()] = _operation(
                route, method
            )
    schemes = {"bearer": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "twisted-aotx",
            "version": "1",
            "description": "OpenAI-compatible completions and native AOTX-1 requests.",
        },
        "paths": paths,
        "components": {"schemas": ANSWERS | BODIES, "securitySchemes": schemes},
    }


def _operation(route: Route, method: str) -> dict[str, Any]:
    about = route.about
    path = re.sub(r"\W+", "_", route.label).strip("_")
    shown: dict[str, Any] = {
        "operationId": f"{method.lower()}_{path}",
        "summary": about.summary,
        "security": [] if route.public else [{"bearer": []}],
        "parameters": _parameters(route),
        "responses": _responses(route),
    }
    if about.body is not None:
        schema = ref(about.body) if about.body in BODIES else {}
        content = {media_type: {"schema": schema} for media_type in about.body_types}
        shown["requestBody"] = {"required": True, "content": content}
    return shown


def _parameters(route: Route) -> list[dict[str, Any]]:
    shown = [
        {"name": name, "in": "path", "required": True, "schema": _ARGUMENTS[form]}
        for name, form in _ARGUMENT.findall(route.path)
    ]
    shown += [
        {"name": key, "in": "query", "required": False, "schema": CURSOR}
        for key in route.query or ()
    ]
    shown += [
        {"name": name, "in": "header", "required": False, "schema": STRING}
        for name in route.about.headers
    ]
    return shown


def _responses(route: Route) -> dict[str, Any]:
    about = route.about
    statuses = {*_ALWAYS, *(() if route.public else _WITH_CREDENTIAL)}
    statuses |= set(_WITH_BODY if about.body is not None else ())
    statuses |= {*(_OF_DEVICE if about.device else ()), *about.errors}
    shown = {}
    if about.status is not None:
        content = {
            media_type: {"schema": ref(name) if name is not None else STRING}
            for media_type, name in about.answers
        }
        shown[str(about.status)] = _response(about.status, content)
    error = {"application/json": {"schema": ref("Error")}}
    for status in sorted(statuses - {about.status}):
        shown[str(status)] = _response(status, error, _codes(status))
    shown["default"] = {"description": "Any other error.", "content": error}
    return shown


def _response(
    status: int, content: dict[str, Any], description: str = ""
) -> dict[str, Any]:
    headers = {
        name: {"schema": schema}
        for name, (statuses, schema) in _HEADERS.items()
        if 0 in statuses or status in statuses
    }
    phrase = HTTPStatus(status).phrase
    shown: dict[str, Any] = {"description": description or phrase, "headers": headers}
    if content:
        shown["content"] = content
    return shown


def _codes(status: int) -> str:
    """
    The codes of errors that have *status* of their own.
    """
    codes = [f"`{code}`" for code, (own, _) in PROBLEMS.items() if own == status]
    return ", ".join(codes) or "`device_refused`"
