"""
Imports over HTTP: what a source may answer, and how long it may take (`http.md` §8).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.origins import (
    BODY,
    HOST,
    LOCAL,
    TRANSFER,
    Listen,
    Names,
    fetch,
    gateway_for,
    http,
)
from tests.gateway.serving import P1, TOKEN, digest
from twisted_aotx.gateway import imports, imports_http
from twisted_aotx.gateway.settings import Limits, Principal, PrivateOrigin


@pytest.mark.parametrize(
    ("content_type", "format"),
    [("image/jpeg", 1), ("Image/JPEG;q=1", 1), ("audio/wav", 3), ("audio/x-wav", 3)],
)
@pytest.mark.parametrize("closes", [True, False])
@asynchronous
async def test_an_import(
    serve: Serve,
    listen: Listen,
    named_pems: Path,
    content_type: str,
    format: int,
    closes: bool,
) -> None:
    origin = listen(http(content_type=content_type), closes=closes)
    gateway = await gateway_for(serve, origin, named_pems)

    answer = await fetch(gateway, origin.url + "?a=%20b")

    assert answer.status == 201
    assert answer.json["sha256"] == hashlib.sha256(BODY).hexdigest()
    assert answer.json["bytes"] == str(len(BODY))
    assert (answer.json["phase"], answer.json["format"]) == (6, format)
    assert gateway.device.media.only.data == BODY
    (request,) = origin.requests
    line, *fields = request.split(b"\r\n")
    assert line == b"GET /a.jpg?a=%20b HTTP/1.1"
    assert {field.lower() for field in fields if field} == {
        f"host: {HOST}:{origin.port}".encode(),
        b"accept-encoding: identity",
        b"connection: close",
    }


@asynchronous
async def test_a_body_in_chunks_or_without_a_length(
    serve: Serve, listen: Listen, named_pems: Path
) -> None:
    origin = listen(http(length=None))
    gateway = await gateway_for(serve, origin, named_pems)

    assert (await fetch(gateway, origin.url)).status == 201
    origin.answer = http(
        b"6\r\n" + BODY[:6] + b"\r\n6\r\n" + BODY[6:] + b"\r\n0\r\n\r\n",
        length=None,
        fields="Transfer-Encoding: chunked\r\n",
    )
    assert (await fetch(gateway, origin.url)).status == 201
    assert [bytes(s.data) for s in gateway.device.media.sources.values()] == [BODY] * 2


@asynchronous
async def test_an_address_as_host(
    serve: Serve, listen: Listen, named_pems: Path
) -> None:
    """
    http.md §8: no look-up for an address; the certificate names it.
    """
    origin = listen(http(), letter="i")
    url = f"https://127.0.0.1:{origin.port}"
    private = PrivateOrigin(origin=url, networks=("127.0.0.0/8",))
    names = Names(LOCAL)
    gateway = await gateway_for(
        serve,
        origin,
        named_pems,
        names=names,
        letters="i",
        rules={"private": (private,)},
    )

    assert (await fetch(gateway, url)).status == 201
    assert names.asked == []


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (
            http(status="302 Found", fields="Location: https://x.example/\r\n"),
            (502, "source_status", None),
        ),
        (http(status="404 Not Found"), (502, "source_status", None)),
        (http(status="206 Partial Content"), (502, "source_status", None)),
        (http(b"", status="204 No Content", length=None), (502, "source_status", None)),
        (
            http(fields="Content-Encoding: gzip\r\n"),
            (415, "source_encoding", None),
        ),
        (
            http(fields="Content-Encoding: identity\r\nContent-Encoding: br\r\n"),
            (415, "source_encoding", None),
        ),
        (http(bytes(1001)), (413, "source_limit", None)),
        (http(b"", length=10**18), (413, "source_limit", None)),
        (http(bytes(1001), length=None), (413, "source_limit", None)),
        (
            http(
                b"3E9\r\n" + bytes(1001) + b"\r\n0\r\n\r\n",
                length=None,
                fields="Transfer-Encoding: chunked\r\n",
            ),
            (413, "source_limit", None),
        ),
        (http(BODY, length=len(BODY) + 1), (502, "source_length", None)),
        (
            http(b"5\r\nab", length=None, fields="Transfer-Encoding: chunked\r\n"),
            TRANSFER,
        ),
        (http(content_type="image/png"), (415, "media_type", None)),
        (http(content_type=None), (415, "media_type", None)),
        (http(b""), (413, "media_limit", None)),
        (b"", TRANSFER),
        (b"nonsense\r\n\r\n", TRANSFER),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", TRANSFER),
        (http(fields="Content-Length: 7\r\n"), TRANSFER),
        (http(length=None, fields="Transfer-Encoding: gzip\r\n"), TRANSFER),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000, TRANSFER),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300_000, TRANSFER),
    ],
)
@asynchronous
async def test_sources_that_are_refused(
    serve: Serve,
    listen: Listen,
    named_pems: Path,
    answer: bytes,
    problem: tuple[int, str, str | None],
) -> None:
    """
    cases K 161: nothing reaches the device.
    """
    origin = listen(answer)
    gateway = await gateway_for(
        serve, origin, named_pems, limits=Limits(upload_bytes=1000)
    )

    assert (await fetch(gateway, origin.url)).problem == problem
    assert len(origin.requests) == 1
    assert gateway.device.operations == []


@asynchronous
async def test_a_header_as_long_as_may_be(
    serve: Serve, listen: Listen, named_pems: Path
) -> None:
    """
    Status line and fields of 64 KiB are taken; far above that they are not, see above.
    """
    answer = http()
    room = imports_http.HEADER_BYTES_MAX - answer.index(b"\r\n\r\n") - 4
    fields = [f"X-{number:04}: {'y' * 990}\r\n" for number in range(room // 1000)]
    origin = listen(http(fields="".join(fields)))
    gateway = await gateway_for(serve, origin, named_pems)

    assert (await fetch(gateway, origin.url)).status == 201


@asynchronous
async def test_the_largest_source(
    serve: Serve, listen: Listen, named_pems: Path
) -> None:
    principal = Principal(
        id=P1, token_sha256=(digest(TOKEN),), actions=255, media_bytes=1000
    )
    origin = listen(http(bytes(1000)))
    gateway = await gateway_for(serve, origin, named_pems, principals=(principal,))

    assert (await fetch(gateway, origin.url)).status == 201
    origin.answer = http(bytes(1001))
    assert (await fetch(gateway, origin.url)).problem == (413, "source_limit", None)


@pytest.mark.parametrize("letter", ["b", "i"])
@asynchronous
async def test_a_certificate_that_does_not_prove_the_name(
    serve: Serve, listen: Listen, named_pems: Path, letter: str
) -> None:
    """
    cases K 163: `b` is not trusted, `i` is, but is the certificate of an address.
    """
    origin = listen(http(), letter=letter)
    gateway = await gateway_for(serve, origin, named_pems, letters="ai")

    assert (await fetch(gateway, origin.url)).problem == TRANSFER
    assert origin.requests == []


@asynchronous
async def test_a_file_of_authorities_that_is_gone(
    serve: Serve, listen: Listen, named_pems: Path
) -> None:
    origin = listen(http())
    gateway = await gateway_for(
        serve, origin, named_pems, rules={"ca_file": "/nonexistent"}
    )

    assert (await fetch(gateway, origin.url)).problem == TRANSFER
    assert origin.connected == 0


# --- time -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\n", http(length=len(BODY) + 5), http(BODY, length=None)],
)
@asynchronous
async def test_a_source_that_falls_silent(
    serve: Serve,
    listen: Listen,
    named_pems: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: bytes,
) -> None:
    monkeypatch.setattr(imports_http, "READ_SECONDS", 0.1)
    origin = listen(answer, closes=False)
    gateway = await gateway_for(serve, origin, named_pems)

    assert (await fetch(gateway, origin.url)).problem == TRANSFER
    assert gateway.device.operations == []


@asynchronous
async def test_a_source_that_takes_too_long(
    serve: Serve,
    listen: Listen,
    named_pems: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(imports, "TOTAL_SECONDS", 0.1)
    origin = listen(http(BODY, length=100), closes=False)
    gateway = await gateway_for(serve, origin, named_pems)

    assert (await fetch(gateway, origin.url)).problem == TRANSFER
