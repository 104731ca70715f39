"""
Each fuzzer finds a fault that is planted in what it fuzzes, soon, and the input that it
shows finds it again.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.web import http

from tests.device.content_harness import Judged, judge_jpeg
from tests.fuzz.devices import make_device
from tests.fuzz.gateways import MemoryGateway
from tests.fuzz.harness import Finding, Target, run
from tests.fuzz.target_bodies import BodiesTarget
from tests.fuzz.target_broker import BrokerTarget
from tests.fuzz.target_config import ConfigTarget
from tests.fuzz.target_device import DeviceTarget
from tests.fuzz.target_gguf import GGUFTarget
from tests.fuzz.target_grants import GrantsTarget
from tests.fuzz.target_http import HTTPTarget
from tests.fuzz.target_inline import InlineTarget
from tests.fuzz.target_media import MediaTarget
from tests.fuzz.targets import TARGETS
from twisted_aotx.config.gateway import GatewayFile, load_gateway
from twisted_aotx.device.host import Device
from twisted_aotx.engines.gguf import GGUF, ModelFileError, read_gguf
from twisted_aotx.engines.llama.message_format import Derived, derive_format
from twisted_aotx.errors import ConfigError, ConfigErrors
from twisted_aotx.gateway.chunks import Chunks
from twisted_aotx.gateway.connection import Connection
from twisted_aotx.gateway.imports_urls import ImportURL, parse_url

#: Inputs within which each is found.
_INPUTS = 400


class _Leaking(Device):
    """A frame that is refused with 404 leaves a trace in a table."""

    _asked = 0

    def publish(
        self, channel: int, packet: bytes, *, length: int | None = None
    ) -> None:
        super().publish(channel, packet, length=length)
        self._asked = channel

    def tick(self, now_ns: int) -> None:
        super().tick(now_ns)
        mailbox = self._launch.host[0]["mail"][self._asked]
        self._asked = 0
        if mailbox["data"][8:12].tobytes() == (404).to_bytes(4, "little"):
            self._launch.device[0]["r_limit"][0] += 1


class _Echoless(Device):
    """A reply with 409 echoes no cursor."""

    def reply(self, channel: int) -> bytes:
        reply = super().reply(channel)
        if reply[8:12] == (409).to_bytes(4, "little"):
            return reply[:64] + bytes(8) + reply[72:]
        return reply


class _Truncating(Device):
    """A packet of more than a page loses its end."""

    def publish(
        self, channel: int, packet: bytes, *, length: int | None = None
    ) -> None:
        super().publish(channel, packet[:4096], length=length)


class _Generous(Device):
    """The reserved bytes of a table's first row are not looked at."""

    def publish(
        self, channel: int, packet: bytes, *, length: int | None = None
    ) -> None:
        if channel == 0:
            packet = packet[:184] + bytes(len(packet[184:192])) + packet[192:]
        super().publish(channel, packet, length=length)


class _Smuggling(Connection):
    """A chunked body ends where Twisted sees its end."""

    def headerReceived(self, line: bytes) -> bool:
        taken = super().headerReceived(line)
        decoder = self._transferDecoder
        if isinstance(decoder, Chunks):
            self._transferDecoder = http._ChunkedTransferDecoder(
                decoder.dataCallback, decoder.finishCallback
            )
        return taken


class _Hasty(Connection):
    """Half a header counts when a piece ends there."""

    def dataReceived(self, data: bytes) -> None:
        super().dataReceived(data)
        if not self.dropping and data.endswith(b"\r\n") and self._has_request_line():
            super().dataReceived(b"X-Hasty: 1\r\n")


class _Failing(MemoryGateway):
    """There is no random number for a request."""

    def __init__(self) -> None:
        super().__init__()
        self.gateway.random_bytes = lambda size: bytes(size)[: 1 // 0]


def _with_user(url: object) -> ImportURL:
    return parse_url(re.sub("//[^/?]*@", "//", url) if isinstance(url, str) else url)


def _telling(path: Path) -> GatewayFile:
    try:
        return load_gateway(path)
    except ConfigErrors:
        text = path.read_text(errors="replace").replace("\n", " ")
        raise ConfigErrors((ConfigError("file", text),)) from None


def _careless(stream: io.BytesIO, size: int) -> GGUF:
    try:
        return read_gguf(stream, size)
    except ModelFileError as error:
        if str(error).startswith("claims"):
            raise MemoryError from error
        raise


def _tailless(template: str, **texts: str) -> Derived:
    derived = derive_format(template, **texts)
    spans = attrs.evolve(derived.message_format, assistant_tail=b"")
    return attrs.evolve(derived, message_format=spans)


def _endless(source: bytes, *how: Any, **more: Any) -> Judged:
    end = b"" if source.endswith(b"\xff\xd9") else b"\xff\xd9"
    return judge_jpeg(source + end, *how, **more)


FAULTS: dict[str, Callable[[], Target]] = {
    "device: a trace of a refused frame": lambda: DeviceTarget(
        lambda: make_device(_Leaking)
    ),
    "device: an echo lost": lambda: DeviceTarget(lambda: make_device(_Echoless)),
    "broker: an echo lost": lambda: BrokerTarget(lambda: make_device(_Echoless)),
    "broker: an end lost": lambda: BrokerTarget(lambda: make_device(_Truncating)),
    "http: trailers taken as they come": lambda: HTTPTarget(_Smuggling),
    "http: pieces that matter": lambda: HTTPTarget(_Hasty),
    "bodies: a fault of ours": lambda: BodiesTarget(_Failing),
    "inline: a user in a URL": lambda: InlineTarget(read=_with_user),
    "grants: reserved bytes": lambda: GrantsTarget(lambda: make_device(_Generous)),
    "config: the file in its error": lambda: ConfigTarget(_telling),
    "gguf: a claim believed": lambda: GGUFTarget(read=_careless),
    "gguf: a span lost": lambda: GGUFTarget(derive=_tailless),
    "media: an end made up": lambda: MediaTarget(_endless),
}


@pytest.mark.fuzz
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    target = FAULTS[fault]()
    try:
        with pytest.raises(Finding) as caught:
            run(target, "planted", count=_INPUTS, failures=None, shrink_runs=0)
        found = caught.value
        with pytest.raises(type(found.cause)):
            target.judge(found.data)
    finally:
        target.close()

    assert found.target == fault.partition(":")[0]


def test_every_fuzzer_has_a_planted_fault() -> None:
    assert {fault.partition(":")[0] for fault in FAULTS} == set(TARGETS)
