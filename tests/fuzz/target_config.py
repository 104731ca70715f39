"""
`runtime.json`, `gateway.json` and message format files: read, or refused with errors
that name a key, on one line each, and tell no token's hash.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import attrs

from tests.fuzz import json_values
from tests.fuzz.harness import Features, Target, demand
from tests.gateway.serving import TOKEN, digest
from tests.sources import ROOT
from twisted_aotx import strictjson
from twisted_aotx.config.gateway import load_gateway
from twisted_aotx.config.grants import grant_table
from twisted_aotx.config.runtime import RuntimeSettings, load_runtime
from twisted_aotx.engines.llama.format_file import read_format
from twisted_aotx.engines.llama.options import read_options
from twisted_aotx.engines.reference import make
from twisted_aotx.errors import ConfigError, ConfigErrors
from twisted_aotx.gateway.settings import GatewaySettings, Limits
from twisted_aotx.limits import SOCKET_PATH_BYTES_MAX, SPAN_BYTES_MAX, Capacities
from twisted_aotx.strictjson import StrictJSONError
from twisted_aotx.wire.grants import GrantTable

_HASH: Final = digest(TOKEN).hex()
GATEWAY, RUNTIME, FORMAT = range(3)


def _gateway() -> dict[str, Any]:
    value: dict[str, Any] = json.loads((ROOT / "etc" / "gateway.json").read_text())
    value["principals"][0]["token_sha256"] = [_HASH]
    value["urls"]["private"] = [
        {"origin": "https://files.example:8443", "networks": ["10.0.0.0/8"]}
    ]
    value["metrics"]["labels"] = {value["principals"][0]["id"]: "one"}
    value["origins"] = ["https://app.example"]
    return value


def _runtime() -> dict[str, Any]:
    value: dict[str, Any] = json.loads((ROOT / "etc" / "runtime.json").read_text())
    value["metrics"] = "tcp:9100:interface=127.0.0.1"
    value["models"] |= {
        "language-q4": {"engine": "llama", "path": "/m.gguf", "context": 2048},
        "language-audio": {
            "engine": "reference",
            "text": "hi",
            "modalities": ["image", "audio"],
        },
    }
    return value


_FORMAT: Final = {
    "system_head": "<s>[SYSTEM]",
    "system_tail": "[/SYSTEM]",
    "user_head": "[INST]",
    "user_tail": "[/INST]",
    "assistant_head": "",
    "assistant_tail": "</s>",
    "generation_head": "",
    "think_open": "",
    "think_close": "",
    "prefix_bytes": 3,
}
_SAMPLES: Final = (_gateway(), _runtime(), _FORMAT)
_WORDS: Final[tuple[Any, ...]] = (
    *(field.name for field in attrs.fields(Capacities)),
    *(field.name for field in attrs.fields(Limits)),
    *("unix:/run/x", "tcp:80", "tls:1", "haproxy:tcp:1", "tcp6:1:interface=\\:\\:1"),
    *("unix:" + "x" * 200, "systemd:domain=INET:index=0", "tcp:１", "tcp:1:backlog=-1"),
    *("language", "language-q4", "embedding", "reference", "llama", "cuda", "cpu"),
    *("infer", "fetch", "affect_manage", "0" * 32, "f" * 32, "f" * 64, "1"),
    *("https://[::1]", "https://a:443", "https://A", "::/0", "10.0.0.1/8", "1.2.3.4"),
    *("x" * 107, "x" * 108, "é" * 54, "../x", "", "::1", "0.0.0.0", "localhost"),
    *("bytes", "text", "rate", "capacity", "modalities", "AAA=", "AAA", "path"),
)


class ConfigTarget(Target):
    """
    The first byte says which file the rest is.

    Args:
        load: loads a gateway's file.
    """

    name: ClassVar[str] = "config"
    count: ClassVar[int] = 1500

    def __init__(self, load: Callable[[Path], Any] = load_gateway) -> None:
        self._load = load
        self._folder = tempfile.TemporaryDirectory(prefix="aotx-")
        self._path = Path(self._folder.name) / "file.json"

    def close(self) -> None:
        self._folder.cleanup()

    def seeds(self) -> Sequence[bytes]:
        return [
            bytes([kind]) + json_values.text_of(sample)
            for kind, sample in enumerate(_SAMPLES)
        ]

    def draw(self, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
        one = rng.choice(corpus)
        kind = (one[0] if one else 0) % 3
        data = json_values.draw(rng, [one[1:]], [_SAMPLES[kind]], _WORDS)
        return bytes([kind]) + data

    def judge(self, data: bytes) -> Features:
        kind = (data[0] if data else 0) % 3
        self._path.write_bytes(data[1:])
        self._path.chmod(0o600)
        try:
            if kind == GATEWAY:
                _check_gateway(self._load(self._path).settings)
            elif kind == RUNTIME:
                _check_runtime(load_runtime(self._path))
            else:
                _check_format(read_format(self._path))
        except (ConfigErrors, ConfigError) as error:
            if _in_its_place(data[1:]):
                demand(_HASH not in str(error), "a token's hash in an error")
            found = error.errors if isinstance(error, ConfigErrors) else (error,)
            return frozenset({(kind, _check_error(each)) for each in found})
        return frozenset({(kind, "read")})


def _in_its_place(data: bytes) -> bool:
    """Whether the hash of a token stands nowhere but where such hashes stand."""
    try:
        value = strictjson.loads(data)
    except StrictJSONError:
        return True
    principals = value.get("principals")
    known = [
        each.get("token_sha256")
        for each in (principals if isinstance(principals, list) else ())
        if isinstance(each, dict)
    ]
    return not any(
        _HASH in str(key) or (isinstance(here[key], str) and _HASH in here[key])
        for here, key in json_values.places(value)
        if not any(here is each for each in known)
    )


def _check_error(error: ConfigError) -> str:
    """What an error says, the text of the file left out."""
    said = str(error)
    demand(said.isprintable() and "\n" not in said, f"an error of two lines: {said!r}")
    demand(len(said) < 4096, f"an error of {len(said)} characters")
    path = "".join(c for c in error.path if c.isalpha() or c in "._")[:40]
    return f"{path} {error.reason.split(':')[0].split(',')[0][:24]}"


def _check_gateway(settings: GatewaySettings) -> None:
    demand(1 <= settings.port <= 65535, "a port that is none")
    demand(len(settings.socket.encode()) <= SOCKET_PATH_BYTES_MAX, "a long socket")
    demand(_HASH not in repr(settings), "a token's hash in a repr")
    for field in attrs.fields(Limits):
        demand(getattr(settings.limits, field.name) >= 1, f"{field.name} below 1")
    # What a file of grants is made of.
    table = grant_table(settings)
    demand(GrantTable.unpack(table.pack()) == table, "a table that is none")


def _check_runtime(settings: RuntimeSettings) -> None:
    demand(settings.models, "a runtime without models")
    for each in (settings.state, settings.socket, settings.grants):
        demand(each.is_absolute(), f"a path that is relative: {each}")
    for model in settings.models:
        slots, tokens = settings.capacities.slots, settings.capacities.sequence_tokens
        try:
            if model.engine == "reference":
                facts = make(model.role, model.options, slots, tokens).facts
                demand(1 <= facts.capacity < slots, "more leases than slots")
            elif model.engine == "llama":
                read_options(model.options, slots)
        except ConfigError as error:
            _check_error(error)


def _check_format(found: Any) -> None:
    spans = [v for v in attrs.asdict(found).values() if isinstance(v, bytes)]
    demand(all(len(span) <= SPAN_BYTES_MAX for span in spans), "a long span")
    demand(0 <= found.prefix_bytes <= len(found.system_head), "a prefix that is none")
