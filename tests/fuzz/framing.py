"""
How bytes fall apart into HTTP requests: by the gateway's parser, and by h11.

Both give a `Reading`. Where they differ, `DIFFERENCES` says why; what it does not name
is a fault of one of them. That h11 refuses what we take would be the dangerous way
round: a proxy and we would see two different requests in the same bytes.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import attrs
import h11
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from tests.fuzz.gateways import Wire
from tests.fuzz.harness import Broken, demand
from tests.gateway.serving import MODELS, PRINCIPALS
from twisted_aotx.client import DeviceClient
from twisted_aotx.errors import Problem
from twisted_aotx.gateway.answers import Answer, error_answer, write_answer
from twisted_aotx.gateway.connection import Connection
from twisted_aotx.gateway.parser import FIELDS_MAX, LINE_BYTES_MAX
from twisted_aotx.gateway.resource import Gateway
from twisted_aotx.gateway.settings import GatewaySettings
from twisted_aotx.gateway.site import make_site
from twisted_aotx.gateway.txrequest import GatewayRequest
from twisted_aotx.testing import MemoryWorld

#: Bytes of a body that are read.
_BODY_BYTES_MAX: Final = 1 << 20
#: Bytes that h11 may wait for an end of.
_H11_BYTES_MAX: Final = 1 << 20
#: How a reading ends: more bytes would go on with it, it was refused, or the last
#: request said that it was the last.
MORE, REFUSED, CLOSED = "more", "refused", "closed"


@attrs.define
class Seen:
    """
    A request whose header is complete.
    """

    method: bytes
    target: bytes
    version: bytes
    #: Names in lower case.
    headers: list[tuple[bytes, bytes]]
    #: None while it is not complete.
    body: bytes | None = None

    @property
    def line(self) -> tuple[bytes, bytes, bytes]:
        return self.method, self.target, self.version

    def all_of(self, name: bytes) -> list[bytes]:
        return [value for each, value in self.headers if each == name]


@attrs.define
class Reading:
    """
    What one reader made of bytes.
    """

    requests: list[Seen] = attrs.field(factory=list)
    end: str = MORE
    #: Of a refusal: what names it.
    why: str = ""


# --- ours -----------------------------------------------------------------------------


class _Recorder(Resource):
    """
    Reads every body and answers 200.
    """

    isLeaf = True

    def __init__(self, reading: Reading) -> None:
        super().__init__()
        self._reading = reading

    def render(self, txrequest: GatewayRequest) -> int:
        headers = [
            (name.lower(), value)
            for name, values in txrequest.requestHeaders.getAllRawHeaders()
            for value in values
        ]
        seen = Seen(txrequest.method, txrequest.uri, txrequest.clientproto, headers)
        self._reading.requests.append(seen)
        reading: Deferred[bytes] = txrequest.read_body(_BODY_BYTES_MAX)
        reading.addCallback(self._read, seen, txrequest)
        reading.addErrback(self._failed, txrequest)
        return NOT_DONE_YET

    def _read(self, body: bytes, seen: Seen, txrequest: GatewayRequest) -> None:
        seen.body = body
        write_answer(txrequest, Answer(raw=b"ok"))

    def _failed(self, failure: Failure, txrequest: GatewayRequest) -> None:
        if isinstance(failure.value, Problem):
            write_answer(txrequest, error_answer(failure.value))


class Reader:
    """
    The gateway's parser, without what stands behind it.

    Args:
        protocol: the connection's class.
    """

    def __init__(self, protocol: type[Connection] = Connection) -> None:
        self._world = MemoryWorld()
        client = DeviceClient(
            self._world.reactor,
            self._world.path("nobody.sock"),
            connections_max=1,
            system=self._world.system,
        )
        settings = GatewaySettings(
            socket="nobody.sock", revision=1, models=MODELS, principals=PRINCIPALS
        )
        reactor: Any = self._world.reactor
        self._site = make_site(Gateway(settings, client, reactor))
        self._site.protocol = protocol  # type: ignore[assignment, method-assign]

    def read(self, pieces: Sequence[bytes]) -> tuple[Reading, bytes]:
        """What it makes of *pieces*, and what it answers."""
        reading = Reading()
        self._site.resource = _Recorder(reading)
        wire = Wire()
        wire.protocol = self._site.buildProtocol(wire.getPeer())
        wire.protocol.makeConnection(wire)
        for piece in pieces:
            wire.send(piece)
            wire.flow()
        # The one thing in an answer that its time decides.
        said = re.sub(rb"\r\nDate: [^\r]*", b"", wire.value())
        heads = re.findall(rb"^HTTP/1\.1 ([45]\d\d) ", said, re.MULTILINE)
        if heads:
            reading.end, reading.why = REFUSED, _why(said)
        elif wire.ended:
            reading.end = CLOSED
        wire.protocol.connectionLost(Failure(ConnectionError()))
        self._world.reactor.advance(100.0)
        return reading, said

    def close(self) -> None:
        self._site.close()


def _why(said: bytes) -> str:
    found = re.findall(rb'"param":(?:null|"([a-z_]+)"),"code":"([a-z_]+)"', said)
    param, code = found[-1] if found else (b"", b"?")
    return f"{code.decode()} {param.decode()}".strip()


# --- h11's ----------------------------------------------------------------------------


def second_opinion(data: bytes) -> Reading:
    """What h11 makes of *data*."""
    reading = Reading()
    peer = h11.Connection(h11.SERVER, max_incomplete_event_size=_H11_BYTES_MAX)
    if data:
        peer.receive_data(data)
    body: list[bytes] = []
    while True:
        try:
            event = peer.next_event()
        except h11.RemoteProtocolError as error:
            reading.end, reading.why = REFUSED, re.sub(r"[:(].*", "", str(error))
            return reading
        if isinstance(event, h11.Request):
            body = []
            version = b"HTTP/" + event.http_version
            headers = [(bytes(k), bytes(v)) for k, v in event.headers]
            line = bytes(event.method), bytes(event.target), version
            reading.requests.append(Seen(*line, headers))
        elif isinstance(event, h11.Data):
            body.append(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            reading.requests[-1].body = b"".join(body)
            peer.send(h11.Response(status_code=400, headers=[("content-length", "0")]))
            peer.send(h11.EndOfMessage())
            if peer.our_state is not h11.DONE:
                reading.end = CLOSED
                return reading
            peer.start_next_cycle()
        else:
            return reading


# --- where they differ ----------------------------------------------------------------


def pieces_of(data: bytes, count_max: int = 400) -> list[bytes]:
    """*data* as it might arrive: cut at places that depend on it alone."""
    rng = Random(zlib.crc32(data))
    most = rng.choice((1, 3, 20, 200, 2000))
    pieces: list[bytes] = []
    at = 0
    while at < len(data) and len(pieces) < count_max:
        size = rng.randint(1, most)
        pieces.append(data[at : at + size])
        at += size
    return [*pieces, data[at:]] if at < len(data) else pieces


@attrs.frozen
class Difference:
    """
    One thing that we read otherwise than h11, on purpose.
    """

    name: str
    why: str
    #: Whether it explains a difference at the request that h11 saw as the first
    #: argument, None if it saw none there; the whole bytes; what h11 said at the end.
    explains: Callable[[Seen | None, bytes, str], object]


_HOST: Final = re.compile(rb"[A-Za-z0-9._~!$&'()*+;=%:\[\]-]*")


def _bad_host(theirs: Seen | None, data: bytes, why: str) -> bool:
    hosts = theirs.all_of(b"host") if theirs else []
    return theirs is not None and not (len(hosts) == 1 and _HOST.fullmatch(hosts[0]))


def _oversize(theirs: Seen | None, data: bytes, why: str) -> bool:
    long = any(len(line) > LINE_BYTES_MAX - 10 for line in data.split(b"\n"))
    return long or (theirs is not None and len(theirs.headers) > FIELDS_MAX - 2)


def _matches(pattern: bytes) -> Callable[[Seen | None, bytes, str], object]:
    search = re.compile(pattern, re.IGNORECASE | re.MULTILINE | re.DOTALL).search
    return lambda theirs, data, why: search(data)


#: What we refuse, or wait on with, while h11 goes on: nobody is let in by it.
STRICTER: Final = (
    Difference(
        "host",
        "D16: exactly one Host, and one that can be a host; h11 counts them only",
        _bad_host,
    ),
    Difference(
        "limits",
        "http.md §1: a line of 8190 bytes and 64 fields at most; h11's own are others",
        _oversize,
    ),
    Difference(
        "folded line",
        "D16: a line that continues the one before is refused; h11 joins them",
        _matches(rb"^[ \t]"),
    ),
    Difference(
        "bare LF",
        "a line ends in CR LF; h11 takes LF, and CR LF after an LF, for an end too",
        _matches(rb"(?<!\r)\n"),
    ),
    Difference(
        "framing",
        "D16: one Content-Length, or one Transfer-Encoding in HTTP/1.1, never both; "
        "h11 takes equal lengths twice, and chunks before length",
        _matches(rb"^(content-length|transfer-encoding)[ \t]*:"),
    ),
    Difference(
        "version",
        "HTTP/1.0 and HTTP/1.1 are served; h11 takes any one digit on each side",
        _matches(rb" HTTP/(?!1\.[01]\r?$)\d\.\d\r?$"),
    ),
    Difference(
        "chunk extension",
        "Twisted takes visible characters, spaces and tabs, in a line of 1024 bytes",
        _matches(rb"^[0-9a-f]+[ \t]*(;[^\r\n]*)?[ \t]*\r\n"),
    ),
)

#: What we take and h11 refuses. Each has to be harmless: nobody between a client and us
#: can see another request in it.
LAXER: Final = (
    Difference(
        "empty line",
        "RFC 9112 §2.2: one empty line before a request line is passed over",
        lambda theirs, data, why: why == "no request line received",
    ),
    Difference(
        "controls in a value",
        "RFC 9110 §5.5: kept, apart from NUL, CR and LF; no field that frames has any",
        lambda theirs, data, why: (
            why == "illegal header line" and re.search(rb"[\x0b\x0c\x1c-\x1f]", data)
        ),
    ),
)


def compare(ours: Reading, theirs: Reading, data: bytes) -> set[str]:
    """
    The names of the differences between two readings of *data*.

    Raises:
        Broken: one has no name, or the two saw another request.
    """
    at = 0
    for mine, other in zip(ours.requests, theirs.requests, strict=False):
        demand(mine.line == other.line, f"{mine.line} is {other.line} to h11")
        demand(_fields(mine) == _fields(other), f"fields: {mine} is {other} to h11")
        if mine.body is None or other.body is None:
            break
        demand(mine.body == other.body, f"body: {mine.body!r} is {other.body!r} to h11")
        at += 1
    mine_next, next_ = _at(ours, at), _at(theirs, at)
    if _progress(mine_next) == _progress(next_):
        return set()
    if _progress(mine_next) > _progress(next_):
        if theirs.end != REFUSED:
            raise Broken(f"we see {mine_next}, h11 waits for more or has closed")
        what = f"we take {mine_next}, h11 does not: {theirs.why}"
    else:
        what = f"h11 takes {next_}, we do not: {ours.end} {ours.why}"
    known = LAXER if _progress(mine_next) > _progress(next_) else STRICTER
    names = {each.name for each in known if each.explains(next_, data, theirs.why)}
    demand(names, what)
    return names


def _fields(seen: Seen) -> list[tuple[bytes, bytes]]:
    # h11 writes framing anew.
    framing = (b"content-length", b"transfer-encoding")
    return sorted(each for each in seen.headers if each[0] not in framing)


def _at(reading: Reading, at: int) -> Seen | None:
    return reading.requests[at] if at < len(reading.requests) else None


def _progress(seen: Seen | None) -> int:
    """How much of a request was taken: nothing, its header, all of it."""
    if seen is None:
        return 0
    return 1 if seen.body is None else 2
