"""
Base64 and URLs in messages: what is taken is canonical, by Python's own reading of it,
and becomes a source of exactly those bytes; what is refused is refused before anything
is admitted or connected to.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import random
from collections.abc import Callable, Sequence
from typing import ClassVar, Final
from urllib.parse import urlsplit

from tests.fuzz import json_values
from tests.fuzz.gateways import MemoryGateway
from tests.fuzz.harness import Features, Target, demand
from tests.fuzz.mutations import changed
from tests.fuzz.target_bodies import CHAT, PATHS, post
from tests.gateway.form_samples import said
from tests.media_made import JPEGS, make_jpeg, make_wav
from twisted_aotx.errors import Problem
from twisted_aotx.gateway.imports_urls import ImportURL, parse_url

_PREFIX: Final = "data:image/jpeg;base64,"
_SOURCES: Final = (
    *(make_jpeg(), JPEGS["grayscale"], make_jpeg()[:-1], make_wav(400), b"", b"x"),
    *(make_wav(320), make_wav(400, silent=True), bytes(range(256)), b"\xfb\xff\xbf"),
)
_URLS: Final = (
    *("https://source.example/a.jpg", "https://a", "HTTPS://A.EXAMPLE:8443/?q"),
    *("https://192.0.2.7/a", "https://[2001:db8::1]:444/", "https://127.0.0.1/"),
    *("https://127.1/", "https://0x7f000001/", "https://2130706433/", "https://a./"),
    *(
        "https://user@a/",
        "https://good.example\\@127.0.0.1/",
        "https://a#b",
        "http://a",
    ),
    *("https://[::ffff:7f00:1]/", "https://[::ffff:127.0.0.1]/", "https://[fe80::1%1]"),
    *(
        "file:///etc/passwd",
        "https://a:0/",
        "https://a:65536/",
        "https://-a/",
        "https:",
    ),
    *("https://xn--a/", "https://bücher.example/", "https://a\t/", "https://１２７.1/"),
)
_WORDS: Final = (
    *(b"=", b"==", b"===", b"\n", b" ", b"+", b"/", b"-", b"_", b"%3d", b"\0", b"A"),
    *(b"https://", b"://", b"//", b"@", b"#", b"?", b":", b":443", b"[", b"]", b".."),
    *(
        b"\\",
        b"%00",
        b"127.0.0.1",
        b"[::1]",
        b"0x7f.1",
        b"1",
        b"\xc3\xa9",
        b"\xef\xbc\x8f",
    ),
    *(_PREFIX.encode(), b"data:", b"image/png", b";base64", b",", b"data:image/jpeg,"),
)
#: What an input's first byte says that the rest is.
IMAGE_URL, AUDIO, URL = range(3)


class InlineTarget(Target):
    """
    The first byte says what the rest is: an image's URL, a sound's base64, or a URL for
    the reader alone.

    Args:
        make: makes a gateway.
        read: reads a URL.
    """

    name: ClassVar[str] = "inline"
    count: ClassVar[int] = 300

    def __init__(
        self,
        make: Callable[[], MemoryGateway] = MemoryGateway,
        read: Callable[[object], ImportURL] = parse_url,
    ) -> None:
        self._make = make
        self._read = read

    def seeds(self) -> Sequence[bytes]:
        coded = [base64.b64encode(source) for source in _SOURCES]
        return [
            *(bytes([IMAGE_URL]) + _PREFIX.encode() + each for each in coded),
            *(bytes([AUDIO]) + each for each in coded),
            *(bytes([kind]) + each.encode() for each in _URLS for kind in (0, URL)),
        ]

    def draw(self, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
        one = rng.choice(corpus)
        kind = one[:1] if rng.random() < 0.9 else bytes([rng.randrange(3)])
        return kind + changed(rng, one[1:], [rng.choice(corpus)[1:]], _WORDS)

    def judge(self, data: bytes) -> Features:
        kind = (data[0] if data else 0) % 3
        text = data[1:].decode("utf-8", "replace")
        if kind == URL:
            return self._url(text)
        return self._message(kind, text)

    def _url(self, text: str) -> Features:
        """A URL that is taken is the same to Python's reader, host and port."""
        try:
            found = self._read(text)
        except Problem as problem:
            demand(problem.param == "url", f"refused as {problem.param}")
            return frozenset({("url", problem.message)})
        other = urlsplit(text)
        demand(other.scheme == "https", f"the scheme is {other.scheme}")
        demand(other.username is None and not other.fragment, "a user or a fragment")
        demand(other.hostname == found.host, f"host {found.host}, not {other.hostname}")
        demand(
            (other.port or 443) == found.port, f"port {found.port}, not {other.port}"
        )
        visible = all(0x21 <= byte <= 0x7E for byte in found.target)
        demand(visible and found.target[:1] == b"/", "a target that is no path")
        return frozenset({("url", type(found.address).__name__)})

    def _message(self, kind: int, text: str) -> Features:
        if kind == IMAGE_URL:
            part = {"type": "image_url", "image_url": {"url": text}}
            coded = text.removeprefix(_PREFIX) if text.startswith(_PREFIX) else None
        else:
            part = {
                "type": "input_audio",
                "input_audio": {"data": text, "format": "wav"},
            }
            coded = text
        gateway = self._make()
        try:
            answer = post(gateway, PATHS[CHAT], json_values.text_of(said([part])))
            self._judge_sources(gateway, coded)
        finally:
            gateway.close()
        code = answer.problem if answer.status >= 400 else ""
        return frozenset({(kind, answer.status, code)})

    def _judge_sources(self, gateway: MemoryGateway, coded: str | None) -> None:
        """What came to the device has the digest of what was sent."""
        tables = gateway.device.snapshot()
        found = {
            tables["m_digest"][n].tobytes()
            for n in range(len(tables["m_phase"]))
            if tables["m_phase"][n]
        }
        expected = None if coded is None else _decoded(coded)
        if not found:
            return
        demand(expected is not None, "a source, though its base64 is not canonical")
        assert expected is not None
        digest = hashlib.sha256(expected).digest()
        demand(found == {digest}, "a source of other bytes than were sent")


def _decoded(text: str) -> bytes | None:
    """What *text* says if it is canonical base64."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None
