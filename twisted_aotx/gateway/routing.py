"""
From a method and a path to a route: the table's types, and how it is looked up.

Rules (`http.md` §1, §4):

1. A path is matched whole, after one percent-decoding: with a slash at its end it is
   another path.
2. An argument has the form that its pattern names, else the path is unknown:
   `{id:request}` and `{id:media}` are exact handles, `{name:path}` is anything with at
   least one character, slashes included.
3. HEAD is GET's. The method `*` is every method.

Layer 4, sans-IO.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

import attrs

from twisted_aotx.gateway.problems import ProblemCode

if TYPE_CHECKING:
    from twisted_aotx.gateway.resource import Handler

#: Forms of path arguments.
_FORMS: Final = {
    "request": "req-[0-9a-f]{16}-[0-9a-f]{32}",
    "media": "media-[0-9a-f]{32}",
    "path": ".+",
}
#: A request and what lies below it.
_NATIVE: Final = re.compile(
    rf"/aotx/v1/requests/({_FORMS['request']})(?:/.*)?", re.DOTALL
)
_ARGUMENT: Final = re.compile(r"\{(\w+):(\w+)\}")
#: Every method.
ANY_METHOD: Final = "*"


@attrs.frozen
class Needs:
    """
    Actions that a principal must have one of, and the 403 without.
    """

    #: Bits of `wire.numbers.Action`.
    actions: int
    code: ProblemCode


@attrs.frozen
class About:
    """
    What `/openapi.json` says of a route and its other fields do not.
    """

    summary: str
    #: Of success; None when there is none.
    status: int | None = 200
    #: Media types of success, each with its schema; None is text.
    answers: tuple[tuple[str, str | None], ...] = ()
    #: The schema of the body; None takes no body, what is no schema is any bytes.
    body: str | None = None
    body_types: tuple[str, ...] = ("application/json",)
    #: Request headers that the route reads.
    headers: tuple[str, ...] = ()
    #: Whether the device is asked, and so may refuse.
    device: bool = False
    #: Statuses of errors that only some routes have.
    errors: tuple[int, ...] = ()

    def asks_device(self) -> About:
        """
        The same of a route that asks the device.
        """
        return attrs.evolve(self, device=True)


@attrs.frozen
class Route:
    """
    One line of the table in `routes`.
    """

    method: str
    #: A path, with arguments as rule 2 says.
    path: str
    handler: Handler
    #: Query keys that are known; None is any.
    query: tuple[str, ...] | None = ()
    #: Checked before the handler, and so before any body; None leaves it to the device.
    needs: Needs | None = None
    #: Whether it is served without a credential.
    public: bool = False
    about: About = About("")

    @property
    def label(self) -> str:
        """
        The path with the names of its arguments only.
        """
        return _ARGUMENT.sub(r"{\1}", self.path)


@attrs.frozen
class Place:
    """
    All routes of one path.
    """

    pattern: re.Pattern[str]
    routes: dict[str, Route]

    def route(self, method: str) -> Route | None:
        """
        The route of *method* here; HEAD is GET's.
        """
        found = self.routes.get("GET" if method == "HEAD" else method)
        return found or self.routes.get(ANY_METHOD)

    def allow(self) -> str:
        """
        The `Allow` header: the methods in the table's order, HEAD after GET.
        """
        methods = ", ".join(self.routes)
        return methods.replace("GET", "GET, HEAD")

    def knows(self, key: str) -> bool:
        """
        Whether *key* is a query key of a route here, whatever its method.
        """
        return any(r.query is None or key in r.query for r in self.routes.values())

    @property
    def public(self) -> bool:
        """
        Whether the path is served without a credential.
        """
        return any(route.public for route in self.routes.values())


class Router:
    """
    The table, by path.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        by_path: dict[str, dict[str, Route]] = {}
        for route in routes:
            at = by_path.setdefault(route.path, {})
            assert route.method not in at, f"{route.method} {route.path} stands twice"
            at[route.method] = route
        #: In the table's order, in which a path is looked for.
        self.places = tuple(Place(_compile(path), at) for path, at in by_path.items())

    def find(self, path: str) -> tuple[Place, dict[str, str]] | None:
        """
        The place of *path* with its arguments, or None when the path is unknown.
        """
        for place in self.places:
            match = place.pattern.fullmatch(path)
            if match is not None:
                return place, match.groupdict()
        return None


def decoded_path(uri: bytes) -> str | None:
    """
    The path of a request target, percent-decoded once; None when it is not UTF-8.

    The absolute form, `http://host/path`, is taken like the path (RFC 9112 §3.2.2).
    """
    raw = uri.partition(b"?")[0]
    absolute = re.match(rb"https?://[^/]*", raw, re.IGNORECASE)
    if absolute is not None:
        raw = raw[absolute.end() :] or b"/"
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return None


def handle_in(path: str | None) -> str | None:
    """
    The request that *path* is or lies below; every answer there names it, whatever its
    status (`http.md` §1). None unless its handle is well-formed.
    """
    found = None if path is None else _NATIVE.fullmatch(path)
    return found[1] if found is not None else None


def _compile(path: str) -> re.Pattern[str]:
    parts: list[str] = []
    at = 0
    for argument in _ARGUMENT.finditer(path):
        name, form = argument.groups()
        parts += (re.escape(path[at : argument.start()]), f"(?P<{name}>{_FORMS[form]})")
        at = argument.end()
    return re.compile("".join([*parts, re.escape(path[at:])]), re.DOTALL)
