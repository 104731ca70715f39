"""
Imports over HTTP: bodies, rights, budgets, names and addresses (`http.md` §8).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.feeds import eventually, packet
from tests.gateway.origins import (
    HOST,
    LOCAL,
    PATH,
    TRANSFER,
    Listen,
    Names,
    fetch,
    gateway_for,
    http,
)
from tests.gateway.serving import P1, P2, TOKEN, TOKEN_2, Response, Serving, digest
from twisted_aotx.gateway import imports_names
from twisted_aotx.gateway.settings import Limits, Principal, URLRules
from twisted_aotx.wire.numbers import Action

LIST = "/aotx/v1/media"


# --- bodies, rights, budgets ----------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "body"),
        ({"url": "https://source.example/", "x": 1}, "body"),
        ({"url": None}, "url"),
        ({"url": 5}, "url"),
        ({"url": ""}, "url"),
        ({"url": "http://source.example/"}, "url"),
        ({"url": "https://user@source.example/"}, "url"),
        ({"url": "https://source.example/#x"}, "url"),
        ({"url": "https://source.example./"}, "url"),
        ({"url": "https://127.1"}, "url"),
        ({"url": "https://2130706433"}, "url"),
        ({"url": "https://0177.0.0.1"}, "url"),
        ({"url": "https://[fe80::1%25eth0]/"}, "url"),
        ({"url": "https://source.example/a b"}, "url"),
    ],
)
@asynchronous
async def test_bodies_that_are_refused(
    gateway: Serving, body: dict[str, Any], param: str
) -> None:
    """
    cases K 164.
    """
    answer = await gateway.post(PATH, body)

    assert answer.problem == (400, "invalid_field", param)
    assert gateway.device.operations == []


@asynchronous
async def test_who_may_not_import(serve: Serve) -> None:
    principal = Principal(
        id=P1, token_sha256=(digest(TOKEN),), actions=255 - Action.FETCH
    )
    gateway = await serve(principals=(principal,))

    answer = await fetch(gateway, "https://source.example/")

    assert answer.problem == (403, "url_forbidden", None)
    assert gateway.device.operations == []


def two_importers(**fields: Any) -> tuple[Principal, Principal]:
    first = Principal(id=P1, token_sha256=(digest(TOKEN),), actions=255)
    second = attrs.evolve(first, id=P2, token_sha256=(digest(TOKEN_2),))
    return attrs.evolve(first, **fields), attrs.evolve(second, **fields)


@asynchronous
async def test_one_import_of_each_principal(
    serve: Serve, listen: Listen, named_pems: Path
) -> None:
    """
    http.md §8: 429 `fetch_limit` before the URL is looked at; 429 `transport_limit`
    when all are taken.
    """
    origin = listen(b"", closes=False)
    gateway = await gateway_for(
        serve,
        origin,
        named_pems,
        principals=two_importers(),
        limits=Limits(fetches=1),
    )
    budgets = gateway.gateway.budgets
    raw = await gateway.connect()
    raw.send(packet(PATH, {"url": origin.url}))
    await eventually(lambda: origin.requests)
    assert (budgets.fetches.held, budgets.work.held) == (1, 1)
    assert budgets.body_credit.held == 32 << 20

    second = await fetch(gateway, "no url")
    assert second.problem == (429, "fetch_limit", None)
    assert second.header("retry-after") == "1"
    wrong = await fetch(gateway, "no url", TOKEN_2)
    assert wrong.problem == (400, "invalid_field", "url")
    other = await fetch(gateway, origin.url, TOKEN_2)
    assert other.problem == (429, "transport_limit", None)

    # A client that leaves before the source is whole ends the import.
    assert raw.transport is not None
    raw.transport.abortConnection()  # type: ignore[attr-defined]
    await eventually(lambda: set(budgets.held().values()) == {0})
    await eventually(lambda: not origin.open)
    assert gateway.device.operations == []


@asynchronous
async def test_an_import_reserves_the_credit_of_the_largest_source(
    serve: Serve, listen: Listen, named_pems: Path
) -> None:
    origin = listen(http())
    gateway = await gateway_for(
        serve,
        origin,
        named_pems,
        principals=two_importers(media_bytes=1000),
        limits=Limits(upload_bytes=2000, body_credit=1050),
    )
    held = gateway.gateway.budgets.body_credit.take(51)

    answer = await fetch(gateway, origin.url)
    assert answer.problem == (429, "transport_limit", None)
    assert origin.connected == 0
    held.release()
    assert (await fetch(gateway, origin.url)).status == 201


@asynchronous
async def test_an_import_that_was_whole_is_its_owner_s(
    serve: Serve, listen: Listen, named_pems: Path
) -> None:
    """
    cases K 160.
    """
    origin = listen(http())
    gateway = await gateway_for(serve, origin, named_pems)
    media = gateway.device.media
    media.moves = False
    raw = await gateway.connect()
    raw.send(packet(PATH, {"url": origin.url}))
    await eventually(lambda: media.sources)

    assert raw.transport is not None
    raw.transport.abortConnection()  # type: ignore[attr-defined]
    await eventually(lambda: not gateway.site.connections)
    assert gateway.gateway.budgets.fetches.held == 1
    media.moves = True
    await eventually(lambda: set(gateway.gateway.budgets.held().values()) == {0})

    assert [row["phase"] for row in (await gateway.get(LIST)).json["data"]] == [6]


@asynchronous
async def test_rules_that_are_replaced(
    serve: Serve, listen: Listen, named_pems: Path
) -> None:
    """
    An import goes by the rules of the moment it began.
    """
    origin = listen(http())
    gateway = await gateway_for(serve, origin, named_pems)
    settings = gateway.gateway.settings
    begun: Deferred[Response] = Deferred.fromCoroutine(fetch(gateway, origin.url))

    assert (await begun).status == 201
    gateway.site.reconfigure(attrs.evolve(settings, urls=URLRules(public=False)))
    answer = await fetch(gateway, origin.url)
    assert answer.problem == (403, "source_address", None)


# --- names and addresses --------------------------------------------------------------


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.2"],
        ["127.0.0.1", "127.0.0.2"],
        ["127.0.0.2", "127.0.0.1"],
        ["127.0.0.1", "10.0.0.1"],
        ["127.0.0.1", "198.20.0.1"],
        ["::ffff:127.0.0.2"],
        ["127.0.0.1", "::1"],
        ["169.254.169.254"],
    ],
)
@asynchronous
async def test_forbidden_addresses_are_not_connected_to(
    serve: Serve, listen: Listen, named_pems: Path, addresses: list[str]
) -> None:
    """
    One that is not allowed refuses all: no listener sees a connection.
    """
    origin = listen(http())
    other = listen(http(), interface="127.0.0.2", port=origin.port)
    gateway = await gateway_for(serve, origin, named_pems, names=Names([addresses]))

    answer = await fetch(gateway, origin.url)

    assert answer.problem == (403, "source_address", None)
    assert (origin.connected, other.connected) == (0, 0)


@pytest.mark.parametrize(
    ("url", "rules"),
    [
        ("https://source.example:1/", {}),
        ("https://source.example/", {}),
        ("https://other.example/", {"public": False}),
        ("https://127.0.0.1/", {}),
        ("https://[::1]/", {}),
        ("https://[::ffff:7f00:1]/", {}),
        ("https://198.20.0.1/", {"public": False}),
        ("https://198.20.0.1:8443/", {}),
    ],
)
@asynchronous
async def test_hosts_that_are_not_open(
    serve: Serve,
    listen: Listen,
    named_pems: Path,
    url: str,
    rules: dict[str, Any],
) -> None:
    """
    cases K 163.
    """
    origin = listen(http())
    names = Names(LOCAL)
    names.answers["other.example"] = [["198.20.0.1"]]
    gateway = await gateway_for(serve, origin, named_pems, names=names, rules=rules)

    assert (await fetch(gateway, url)).problem == (403, "source_address", None)
    assert origin.connected == 0


@asynchronous
async def test_a_name_that_means_something_else_a_moment_later(
    serve: Serve, listen: Listen, named_pems: Path
) -> None:
    """
    There is no second look-up, so rebinding changes nothing.
    """
    origin = listen(http())
    other = listen(http(), interface="127.0.0.2", port=origin.port)
    names = Names([["127.0.0.1"], ["127.0.0.2"]])
    gateway = await gateway_for(serve, origin, named_pems, names=names)

    assert (await fetch(gateway, origin.url)).status == 201
    assert names.asked == [HOST]
    assert (origin.connected, other.connected) == (1, 0)
    again = await fetch(gateway, origin.url)
    assert again.problem == (403, "source_address", None)
    assert (origin.connected, other.connected) == (1, 0)


@asynchronous
async def test_addresses_are_tried_in_order(
    serve: Serve, listen: Listen, named_pems: Path
) -> None:
    origin = listen(http())
    first, *_ = origin.rules(named_pems, "a").private
    private = type(first)(origin=first.origin, networks=("127.0.0.0/8",))
    names = Names([["127.0.0.3", "127.0.0.1"]])
    gateway = await gateway_for(
        serve, origin, named_pems, names=names, rules={"private": (private,)}
    )

    assert (await fetch(gateway, origin.url)).status == 201


@asynchronous
async def test_nobody_listens(serve: Serve, listen: Listen, named_pems: Path) -> None:
    origin = listen(http())
    gateway = await gateway_for(serve, origin, named_pems)
    url = origin.url
    await origin.stop()

    assert (await fetch(gateway, url)).problem == TRANSFER


@asynchronous
async def test_an_unknown_name(serve: Serve, listen: Listen, named_pems: Path) -> None:
    origin = listen(http())
    gateway = await gateway_for(serve, origin, named_pems)

    answer = await fetch(gateway, "https://nowhere.example/")

    assert answer.problem == (502, "source_dns", None)


@asynchronous
async def test_a_resolver_that_does_not_answer(
    serve: Serve,
    listen: Listen,
    named_pems: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    The look-up is given up; those that still wait for their answers are bounded.
    """
    monkeypatch.setattr(imports_names, "LOOKUP_SECONDS", 0.05)
    monkeypatch.setattr(imports_names, "LOOKUPS_MAX", 2)
    origin = listen(http())
    names = Names(LOCAL)
    names.answering.clear()
    gateway = await gateway_for(serve, origin, named_pems, names=names)

    for _ in range(2):
        answer = await fetch(gateway, origin.url)
        assert answer.problem == (502, "source_dns", None)
    answer = await fetch(gateway, origin.url)
    assert answer.problem == (429, "transport_limit", None)
    names.answering.set()
    await eventually(lambda: gateway.gateway.fetcher.names._under_way == 0)
    assert (await fetch(gateway, origin.url)).status == 201


@asynchronous
async def test_the_system_s_resolver() -> None:
    addresses = await imports_names.Names(reactor).addresses("localhost")

    assert all(address.is_loopback for address in addresses)
