"""
Who may call at all: tokens and their header (`http.md` §1, D27).
"""

from __future__ import annotations

import pytest

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.serving import TOKEN, TOKEN_2, TOKEN_ROTATED, Serving, digest
from twisted_aotx.gateway.auth import Authenticator
from twisted_aotx.gateway.settings import Principal


def authenticated(header: bytes | None, *tokens: str) -> bool:
    principal = Principal(
        id=bytes(16), token_sha256=tuple(map(digest, tokens)), actions=1
    )
    return Authenticator([principal]).principal(header) is principal


@pytest.mark.parametrize("scheme", [b"Bearer ", b"bearer ", b"BEARER ", b"bEaReR "])
@pytest.mark.parametrize("token", ["a" * 32, "a" * 256, "ä" * 256, "🦀" * 32])
def test_a_token_of_32_to_256_characters_after_one_space(
    scheme: bytes, token: str
) -> None:
    """
    D27, cases H 121: `bearer` in any case; characters are counted, not bytes.
    """
    assert authenticated(scheme + token.encode(), token)


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer " + b"a" * 31,
        b"Bearer " + b"a" * 257,
        b"Bearer  " + b"a" * 32,
        b"Bearer\t" + b"a" * 32,
        b"Bearer " + b"A" * 32,
        b"Bearer " + b"a" * 33,
        b"Basic " + b"a" * 32,
        b"a" * 32,
        b"Bearer " + b"\xff" * 32,
    ],
)
def test_anything_else_is_nobody(header: bytes | None) -> None:
    """
    D27, cases H 121. The tokens of 31 and 257 are configured: their length refuses.
    """
    assert not authenticated(header, "a" * 32, "a" * 31, "a" * 257)


def test_each_principal_is_found_by_each_of_its_tokens() -> None:
    """
    cases H 122.
    """
    first = Principal(
        id=b"1" * 16, token_sha256=(digest("a" * 32), digest("b" * 32)), actions=1
    )
    second = Principal(id=b"2" * 16, token_sha256=(digest("c" * 32),), actions=1)
    authenticator = Authenticator([first, second])

    found = [
        authenticator.principal(b"Bearer " + letter * 32)
        for letter in (b"a", b"b", b"c")
    ]

    assert found == [first, first, second]


@asynchronous
async def test_no_valid_token_is_401_without_asking_the_device(
    gateway: Serving,
) -> None:
    """
    cases H 121, B85: one fixed text, whatever was wrong.
    """
    answers = [
        await gateway.get("/v1/models", token=None),
        await gateway.get("/v1/models", token="x" * 31),
        await gateway.get("/v1/models", token="x" * 32),
        await gateway.get("/v1/models", token="' OR 1=1--"),
        await gateway.get("/nowhere", token=None),
        await gateway.request("PUT", "/v1/models", token=None),
        await gateway.get("/v1/models", token=None, headers={"Cookie": f"t={TOKEN}"}),
        await gateway.get(f"/v1/models?token={TOKEN}", token=None),
    ]

    for answer in answers:
        assert answer.problem == (401, "invalid_api_key", None)
        assert answer.error["type"] == "authentication_error"
        assert answer.header("www-authenticate") == "Bearer"
        assert answer.header("x-should-retry") == "false"
    assert len({answer.content for answer in answers}) == 1
    assert gateway.device.operations == []


@asynchronous
async def test_both_tokens_of_a_principal_work(gateway: Serving) -> None:
    """
    cases H 122: rotation.
    """
    first = await gateway.get("/v1/models")
    second = await gateway.get("/v1/models", token=TOKEN_ROTATED)
    other = await gateway.get("/v1/models", token=TOKEN_2)

    assert first.status == second.status == other.status == 200
    assert first.content == second.content
    assert len(other.json["data"]) == 1


@asynchronous
async def test_a_blank_after_the_token_belongs_to_http(gateway: Serving) -> None:
    """
    B75: optional white space ends a field; the scheme may be in lower case.
    """
    answer = await gateway.get(
        "/v1/models", token=None, headers={"Authorization": f"bearer {TOKEN} "}
    )

    assert answer.status == 200


@asynchronous
async def test_without_principals_nobody_gets_in(serve: Serve) -> None:
    gateway = await serve(principals=())

    answer = await gateway.get("/v1/models")

    assert answer.problem == (401, "invalid_api_key", None)
