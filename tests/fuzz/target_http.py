"""
HTTP bytes against the gateway: requests fall apart as h11 says, or as a table says why
not; the answers are answers, none is 500, and no client can leave anything behind.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from typing import ClassVar, Final

from tests.broker.whole import EPOCH
from tests.fuzz.answers import answers_in
from tests.fuzz.framing import Reader, compare, pieces_of, second_opinion
from tests.fuzz.gateways import SECRETS, MemoryGateway
from tests.fuzz.harness import Features, Target, demand
from tests.fuzz.mutations import changed, number
from tests.gateway.serving import TOKEN, TOKEN_2
from twisted_aotx.gateway.connection import Connection
from twisted_aotx.gateway.routes import ROUTES

_AUTH: Final = b"Authorization: Bearer " + TOKEN.encode()
_HANDLE: Final = f"req-{EPOCH:016x}-{9:032x}"
_MEDIA: Final = f"media-{5:032x}"
#: Lines that frame a request, or that seem to.
_FRAMING: Final = (
    *(b"Content-Length: 2", b"Content-Length: 02", b"Content-Length: +2"),
    *(b"Content-Length: 0", b"Content-Length: 2, 2", b"Content-Length: 0x2"),
    *(b"Content-Length: 9999999999999999999", b"Content-Length : 2"),
    *(b"Content-Length:2\x0b", b"Content-Length: 2\t", b"Content-Length:"),
    *(b"Content-Length: 18446744073709551618", b"Content-Length: 1_0"),
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: Chunked"),
    *(b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: chunked, chunked"),
    *(b"Transfer-Encoding: identity", b"Transfer-Encoding: xchunked"),
    *(b"Transfer-Encoding : chunked", b"Transfer-Encoding:\x0bchunked"),
    *(b" Transfer-Encoding: chunked", b"Transfer-Encoding:\r\n chunked"),
    *(b"X: y\nTransfer-Encoding: chunked", b"X: y\rContent-Length: 2"),
    *(b"Transfer_Encoding: chunked", b"Transfer-Encoding: chunked;q=1"),
)
_FIELDS: Final = (
    *_FRAMING,
    *(b"Host: x", b"Host: x:80", b"host: y", b"Host: x y", b"Host:", b"Host: x@y"),
    *(_AUTH, b"Authorization: Bearer " + TOKEN_2.encode(), b"Authorization: Basic x"),
    *(b"Content-Type: application/json", b"Content-Type: image/jpeg"),
    *(b"Content-Type: audio/wav;x=1", b"Content-Encoding: gzip"),
    *(b"Connection: close", b"Connection: keep-alive, close", b"Connection: upgrade"),
    *(b"Upgrade: h2c", b"Expect: 100-continue", b"Expect: 200-maybe"),
    *(b"Origin: https://app.example", b"Origin: null", b"Origin: x"),
    *(b"Access-Control-Request-Method: POST", b"Last-Event-ID: " + b"9" * 30),
    b"Access-Control-Request-Headers: authorization, x-stainless-os, x-request-id",
    *(b"X-A: \x80\xff", b"X-B:", b":c", b"D", b"X E: 1", b"X-F: a\x0cb", b"X: a\0b"),
    *(b"Cookie: a=b; c", b"X-Forwarded-For: 127.0.0.1", b"TE: trailers", b"\x80: x"),
    *(b"Last-Event-ID: " + _HANDLE.encode() + b":0", b"X-Long: " + b"y" * 8200),
)
_HARMLESS: Final = (
    *(b"Connection: close", b"Expect: 100-continue", b"Origin: https://app.example"),
    *(b"Access-Control-Request-Method: POST", b"Last-Event-ID:", b"X-A: \x80\xff"),
    *(b"Upgrade: h2c", b"Cookie: a=b; c", b"TE: trailers", b"X-B:", b"X-F: a\x0cb"),
)
_METHODS: Final = (
    *(b"GET", b"GET", b"POST", b"POST") * 20,
    *(b"HEAD", b"DELETE", b"OPTIONS", b"PUT"),
    *(b"PATCH", b"CONNECT", b"TRACE", b"get", b"G@T", b"G\xe9T", b"", b"PRI"),
)
_VERSIONS: Final = (
    *(b" HTTP/1.1",) * 120,
    *(b" HTTP/1.0", b" HTTP/1.0", b" HTTP/2.0", b" HTTP/1.2", b" http/1.1", b""),
    *(b"  HTTP/1.1", b" HTTP/1.1 ", b"\tHTTP/1.1", b" HTTP/11", b" HTTP/1.1\r"),
)
_QUERIES: Final = (
    *(b"",) * 40,
    *(b"?", b"?cursor=0", b"?cursor=18446744073709551616", b"?cursor=1&cursor=1"),
    *(b"?x=1", b"?%00=%ff", b"?cursor=%ff", b"?cursor=" + b"0" * 21, b"#f", b"?a&b"),
)
_PLAIN: Final = (b"{}", b"{}", b"[]", b'{"model":"m"}', b"{}GET / HTTP/1.1\r\n")
_CHUNKED: Final = (
    b"5\r\nhello\r\n0\r\n\r\n",
    *(b"2\r\n{}\r\n0\r\n\r\n", b"2;x=y\r\n{}\r\n0\r\n\r\n", b"2 \r\n{}\r\n0\r\n\r\n"),
    *(b"2\r\n{}0\r\n\r\n", b"2\n{}\n0\n\n", b"02\r\n{}\r\n00\r\n\r\n", b"0\r\n\r\n"),
    *(b"+2\r\n{}\r\n0\r\n\r\n", b"0x2\r\n{}\r\n0\r\n\r\n", b"-1\r\n", b"\r\n0\r\n\r\n"),
    *(b"2\r\n{}\r\n0\r\nX: y\r\n\r\n", b"2\r\n{}\r\n0\r\nX y\r\n\r\n"),
    *(b"2\r\n{}\r\n0\r\nX: y\n\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", b"g\r\n"),
    *(b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", b"fffffffffffffffff\r\n", b"2;\x01\r\n{}\r\n"),
    *(
        b"2;" + b"e" * 1100 + b"\r\n{}\r\n0\r\n\r\n",
        b"0" * 30 + b"2\r\n{}\r\n0\r\n\r\n",
    ),
    *(
        b"0\r\n" + b"T: " + b"u" * 70000 + b"\r\n\r\n",
        b"0\r\nContent-Length: 5\r\n\r\n",
    ),
)


def _paths() -> tuple[bytes, ...]:
    found = []
    for route in ROUTES:
        path = route.path.replace("{id:request}", _HANDLE)
        path = path.replace("{id:media}", _MEDIA).replace("{id:path}", "org/m")
        found.append(path.replace("{rest:path}", "x").encode())
    return (
        *found * 4,
        *(b"/", b"*", b"//x", b"http://x/healthz", b"/v1/models/org%2Fm", b"/%", b""),
        *(b"/v1/models/%c3%bc", b"/v1/models/\xc3\xbc", b"/a b", b"/\x80", b"/\x7f"),
        *(b"/aotx/v1/requests/req-" + b"0" * 16 + b"-" + b"0" * 32, b"/..", b"/%2e%2e"),
    )


_PATHS: Final = _paths()


def _request(rng: random.Random) -> bytes:
    """A request, most of it right."""
    method, path = rng.choice(_METHODS), rng.choice(_PATHS)
    line = method + b" " + path + rng.choice(_QUERIES) + rng.choice(_VERSIONS)
    fields = [b"Host: x", _AUTH] if rng.random() < 0.93 else []
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 3, 70))):
        fields.append(rng.choice(_FIELDS if rng.random() < 0.2 else _HARMLESS))
    body = b""
    drawn = rng.random()
    if drawn < 0.7:
        fields.append(b"Content-Type: application/json")
    if drawn < 0.25:
        body = rng.choice(_PLAIN)
        fields.append(b"Content-Length: %d" % len(body))
    elif drawn < 0.5:
        body = rng.choice(_CHUNKED)
        fields.append(b"Transfer-Encoding: chunked")
    elif drawn < 0.75:
        body = rng.choice(_PLAIN + _CHUNKED)
        fields += rng.sample(_FRAMING, rng.choice((1, 1, 2)))
    rng.shuffle(fields)
    end = rng.choice((b"\r\n",) * 30 + (b"\n", b"\r", b"\r\r\n"))
    return end.join([line, *fields, b"", body])


class HTTPTarget(Target):
    """
    Args:
        protocol: the class of the gateway's connections.
    """

    name: ClassVar[str] = "http"
    count: ClassVar[int] = 300

    def __init__(self, protocol: type[Connection] = Connection) -> None:
        self._reader = Reader(protocol)

    def seeds(self) -> Sequence[bytes]:
        rng = random.Random(0)
        end = b"Content-Type: application/json\r\n"
        plain = end + b"Content-Length: 2\r\n\r\n{}"
        parted = (
            end + b"Transfer-Encoding: chunked\r\n\r\n2;x\r\n{}\r\n0\r\nT: y\r\n\r\n"
        )
        right = []
        for route, path in zip(ROUTES, _PATHS, strict=False):
            method = route.method.replace("*", "PUT").encode()
            head = b"%b %b HTTP/1.1\r\nHost: x\r\n%b\r\n" % (method, path, _AUTH)
            ends = (plain, parted) if method == b"POST" else (b"\r\n",)
            right += [head + each for each in ends]
        return [*right, b"".join(right[:4]), *(_request(rng) for _ in range(20))]

    def draw(self, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
        drawn = rng.random()
        if drawn < 0.35:
            return b"".join(_request(rng) for _ in range(rng.choice((1, 1, 1, 2, 3))))
        data = rng.choice(corpus)
        if drawn < 0.45:
            at = rng.randrange(len(data) + 1)
            return data[:at] + _request(rng) + data[at:]
        words = (
            *_FIELDS,
            b"\r\n",
            b"\n",
            b"\r",
            b"%d" % number(rng, 4),
            *_CHUNKED[1:12],
        )
        # A request line that is none hides what stands behind it.
        at = data.find(b"\n") + 1 if rng.random() < 0.6 else 0
        return data[:at] + changed(rng, data[at:], corpus, words)

    def judge(self, data: bytes) -> Features:
        whole, said = self._reader.read([data])
        parted, again = self._reader.read(pieces_of(data))
        demand(whole == parted, f"{whole} in one piece, {parted} in many")
        demand(said == again, "other answers in other pieces")
        features: set[object] = set(compare(whole, second_opinion(data), data))
        features.add((whole.end, whole.why, min(len(whole.requests), 3)))
        gateway = MemoryGateway()
        try:
            if zlib.crc32(data) % 5 == 0:
                return frozenset({*features, self._left(gateway, data)})
            said = gateway.exchange(*pieces_of(data, 8))
            methods = [request.method for request in whole.requests]
            # A header that is none of a request has a method, too.
            is_bare = said.endswith(b"\r\n\r\n") and b"HEAD " in data
            for answer in answers_in(said, methods, b"HEAD" if is_bare else b"GET"):
                code = (
                    answer.error["code"] if answer.content[:9] == b'{"error":' else ""
                )
                features.add((answer.status, code))
        finally:
            gateway.close()
        return frozenset(features)

    def _left(self, gateway: MemoryGateway, data: bytes) -> object:
        """The client ends its side, or goes, once all is sent."""
        goes = len(data) % 2 == 1
        said = gateway.exchange(*pieces_of(data, 8), ends=not goes, goes=goes)
        demand(b"HTTP/1.1 500 " not in said, "500 to a client that left")
        demand(not any(secret in said for secret in SECRETS), "a secret in an answer")
        return "left", goes, said[:12]

    def close(self) -> None:
        self._reader.close()
