"""
Every route that is served × every method × every kind of caller: status, code, what it
costs the device, and what the caller learns (`http.md` §1, §2, §4).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final

import attrs
import pytest

from tests.access.expected import (
    EXPECTED,
    NO_ROUTE,
    NOT_ALLOWED,
    NOT_PUBLIC,
    UNAUTHENTICATED,
    WAV,
    Row,
    allowed,
    differences,
    places,
    row_of,
)
from tests.access.front import Told, account, token_of
from tests.access.served import Served
from tests.device.making import EPOCH
from tests.gateway.serving import ORIGIN
from tests.media_made import make_jpeg
from twisted_aotx.gateway.dispatch import Dispatcher
from twisted_aotx.gateway.routes import ROUTES
from twisted_aotx.gateway.routing import ANY_METHOD, Route, Router
from twisted_aotx.wire.numbers import Action

ALL: Final = 255
#: Who may do everything.
OWNER: Final = 1
#: By the actions that somebody lacks: who that is.
WITHOUT: Final = {
    needs: 10 + n
    for n, needs in enumerate(sorted({row.needs for row in EXPECTED.values()} - {0}))
}
#: Whose one action opens nothing here.
STRANGER: Final = 9

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW")
INLINE: Final = "data:image/jpeg;base64," + b64encode(make_jpeg()).decode()
#: Where nothing is.
NOWHERE: Final = ("/", "/v1", "/v2/models", "/aotx/v1/requests/x", "/%ff", "/admin")

#: Authorization headers that prove nobody, and why.
WRONG: Final = {
    "none": None,
    "empty": "",
    "no scheme": token_of(OWNER),
    "another scheme": f"Basic {token_of(OWNER)}",
    "two spaces": f"Bearer  {token_of(OWNER)}",
    "a tab": f"Bearer\t{token_of(OWNER)}",
    "too short": f"Bearer {token_of(OWNER)[:31]}",
    "too long": f"Bearer {token_of(OWNER)}{'x' * 300}",
    "its start": f"Bearer {token_of(OWNER)[:-1]}",
    "one more": f"Bearer {token_of(OWNER)}x",
    "other case": f"Bearer {token_of(OWNER).upper()}",
    "no UTF-8": "Bearer \xff" + "x" * 40,
    "its digest": "Bearer " + account(OWNER).token_sha256[0].hex(),
    "unknown": f"Bearer {'u' * 40}",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    lacking = [account(number, ALL & ~needs) for needs, number in WITHOUT.items()]
    made = Served(
        tmp_path_factory.mktemp("grants"),
        account(OWNER),
        account(STRANGER, 16),
        *lacking,
    )
    yield made
    made.close()


@attrs.define
class Named:
    """
    Makes paths that name what `OWNER` has.
    """

    served: Served
    _made: dict[str, str] = attrs.field(factory=dict)

    def path(self, label: str, row: Row, *, fresh: bool = False) -> str:
        """*fresh* names something that no other path does."""
        creators = {"request": "/aotx/v1/requests", "media": "/aotx/v1/media"}
        if row.names not in creators:
            return label.replace("{id}", "m").replace("{rest}", "a/b")
        if fresh or row.names not in self._made:
            at = creators[row.names]
            arguments = EXPECTED["POST", at].arguments
            made = self.served.ask("POST", at, token_of(OWNER), **arguments)
            assert made.status in (201, 202), made.packet
            handle: str = made.response.json["id"]
            if fresh:
                return label.replace("{id}", handle)
            self._made[row.names] = handle
        return label.replace("{id}", self._made[row.names])


@pytest.fixture(scope="module")
def named(served: Served) -> Named:
    return Named(served)


def test_every_route_has_a_row(served: Served) -> None:
    """What serves is asked, not the table that it was made from."""
    dispatcher = served.site.resource

    assert isinstance(dispatcher, Dispatcher)
    assert differences(dispatcher.checks.router.places) == set()


def test_a_route_without_a_row_is_noticed() -> None:
    extra = Route("GET", "/aotx/v1/secrets", ROUTES[0].handler, public=True)
    other = Route("PUT", "/aotx/v1/media/{id:media}", ROUTES[0].handler)

    assert differences(Router(ROUTES).places) == set()
    assert differences(Router([*ROUTES, extra]).places) == {("GET", extra.path)}
    assert differences(Router([*ROUTES, other]).places) == {
        ("PUT", "/aotx/v1/media/{id}")
    }
    assert differences(Router(ROUTES[1:]).places) == {("GET", "/healthz")}


def check(told: Told, expected: int | tuple[int, str, str | None], method: str) -> None:
    """Status, code and param; on HEAD there is no body to say the last two."""
    if isinstance(expected, int) or method == "HEAD":
        status = expected if isinstance(expected, int) else expected[0]
        assert told.status == status, told.packet
    else:
        assert told.problem == expected
    if method == "HEAD":
        assert told.response.content == b""


CELLS: Final = [
    pytest.param(path, method, id=f"{method} {path}")
    for path in places()
    for method in METHODS
]


@pytest.mark.parametrize(("label", "method"), CELLS)
def test_who_proves_nothing_learns_nothing(
    served: Served, named: Named, label: str, method: str
) -> None:
    """
    401 everywhere but where none is needed, in the same bytes whatever was sent, and
    the device is not asked.
    """
    rows = places()[label]
    row = row_of(rows, method) or next(iter(rows.values()))
    path = named.path(label, row)
    arguments = row.arguments if method == "POST" else {}
    headers = arguments.pop("headers", [])
    answers = {}
    # Each of them where there is a route; elsewhere two are enough.
    tried = (
        WRONG if row_of(rows, method) else {"none": None, "unknown": WRONG["unknown"]}
    )
    for why, sent in tried.items():
        fields = [*headers] if sent is None else [*headers, ("Authorization", sent)]
        answers[why] = served.ask(method, path, headers=fields, **arguments)
    if any(row.public for row in rows.values()):
        expected = 200 if row_of(rows, method) else NOT_ALLOWED
        assert len({told.status for told in answers.values()}) == 1
        check(answers["none"], expected, method)
        return
    assert {told.exchanges for told in answers.values()} == {0}
    assert len({told.packet for told in answers.values()}) == 1
    check(answers["none"], UNAUTHENTICATED, method)
    assert answers["none"].response.header("www-authenticate") == "Bearer"


@pytest.mark.parametrize(("label", "method"), CELLS)
def test_who_lacks_the_action(
    served: Served, named: Named, label: str, method: str
) -> None:
    """
    With every other action it is 403 as the table says, of the gateway before the body
    is read, or of the device, who is asked once; of what does not need it nothing
    changes.
    """
    rows = places()[label]
    row = row_of(rows, method)
    if row is None or row.refused is None:
        return
    path = named.path(label, row)
    for number in (WITHOUT[row.needs], STRANGER):
        told = served.ask(method, path, token_of(number), **row.arguments)
        check(told, row.refused, method)
        assert told.exchanges == int(row.by_device)
        assert told.response.header("x-should-retry") == "false"
    if row.body is not None and not row.by_device:
        # Nobody reads what it would have been.
        told = served.ask(method, path, token_of(STRANGER), data=b"{")
        check(told, row.refused, method)


@pytest.mark.parametrize(("label", "method"), CELLS)
def test_who_has_the_action(
    served: Served, named: Named, label: str, method: str
) -> None:
    """Who has all of them; a method that is not there is 405, whoever asks."""
    rows = places()[label]
    row = row_of(rows, method)
    expected: Any = NOT_ALLOWED if row is None else row.success
    shown = row or next(iter(rows.values()))
    arguments = {} if row is None else row.arguments
    path = named.path(label, shown, fresh=row is not None and method == "DELETE")
    told = served.ask(method, path, token_of(OWNER), **arguments)

    check(told, expected, method)
    if row is None:
        assert told.response.header("allow") == allowed(rows)
        assert told.exchanges == 0
        stranger = served.ask(method, path, token_of(STRANGER))
        assert stranger.packet == told.packet


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", NOWHERE)
def test_an_unknown_path(served: Served, path: str, method: str) -> None:
    """`http.md` §1: only who proves to be somebody learns that nothing is there."""
    check(served.ask(method, path), UNAUTHENTICATED, method)
    for number in (OWNER, STRANGER):
        told = served.ask(method, path, token_of(number))
        check(told, NO_ROUTE, method)
        assert told.exchanges == 0


@pytest.mark.parametrize("label", [*places(), *NOWHERE])
def test_options_tell_nothing_of_routes(served: Served, label: str) -> None:
    """`http.md` §1, CORS: the same bytes for any path, whoever asks."""
    path = label.replace("{id}", f"req-{EPOCH:016x}-{'ab' * 16}").replace("{rest}", "x")
    asked = [("Origin", ORIGIN), ("Access-Control-Request-Method", "DELETE")]

    def told(at: str, **arguments: Any) -> bytes:
        answer = served.ask("OPTIONS", at, **arguments)
        assert answer.exchanges == 0
        lines = answer.packet.split(b"\r\n")
        # Every answer below a well-formed handle names it.
        return b"\r\n".join(x for x in lines if not x.startswith(b"X-Request-Id: "))

    somewhere = told("/anything", headers=asked)
    assert somewhere.startswith(b"HTTP/1.1 204 ")
    assert told(path, headers=asked) == somewhere
    assert told(path, token=token_of(OWNER), headers=asked) == somewhere
    refused = told("/anything")
    assert refused.startswith(b"HTTP/1.1 400 ")
    assert told(path) == told(path, token=token_of(OWNER)) == refused


def said(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": [*parts]}], **fields}


#: By what a message holds: the action that it needs besides `infer`, the route, the
#: part, what a caller is told who lacks that action, and the status with it.
PARTS: Final[dict[str, Any]] = {
    "inline image": (
        Action.UPLOAD,
        "/v1/chat/completions",
        {"type": "image_url", "image_url": {"url": INLINE}},
        (403, "media_forbidden", None),
        200,
    ),
    "inline audio": (
        Action.UPLOAD,
        "/v1/chat/completions",
        {
            "type": "input_audio",
            "input_audio": {"data": b64encode(WAV).decode(), "format": "wav"},
        },
        (403, "media_forbidden", None),
        200,
    ),
    "image from elsewhere": (
        Action.FETCH,
        "/v1/chat/completions",
        {"type": "image_url", "image_url": {"url": NOT_PUBLIC}},
        (403, "url_forbidden", None),
        403,
    ),
    "own source": (
        Action.UPLOAD,
        "/aotx/v1/requests",
        {"type": "media", "media_id": f"media-{'ab' * 16}", "modality": "audio"},
        (403, "device_refused", None),
        404,
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_what_a_message_may_hold(served: Served, name: str) -> None:
    """
    `http.md` §5, §8: a source within a body needs what it would need alone; nothing is
    submitted without.
    """
    needs, path, part, refused, right = PARTS[name]
    told = served.ask("POST", path, token_of(WITHOUT[needs]), body=said(part))

    assert told.problem == refused
    assert told.response.header("x-request-id") is None
    with_it = served.ask("POST", path, token_of(OWNER), body=said(part))
    assert with_it.status == right


def test_any_method_is_any_method() -> None:
    """The row of the reserved paths is asked with each of them above."""
    assert row_of(places()["/aotx/v1/shared/{rest}"], "BREW") is not None
    assert {method for method, _ in EXPECTED} <= {*METHODS, ANY_METHOD}
    assert len(WAV) > 44
