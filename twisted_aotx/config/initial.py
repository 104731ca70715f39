"""
The first state directory and configuration: what `aotx init` writes (`device.md` §16).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from twisted_aotx.config.files import file_error, write_new
from twisted_aotx.config.gateway import parse_gateway
from twisted_aotx.config.grants import grant_table
from twisted_aotx.errors import ConfigError, ConfigErrors

#: Bytes of randomness in a token; its text has 43 characters (32..256 are taken [D27]).
TOKEN_BYTES: Final = 32
#: The first principal.
PRINCIPAL_ID: Final = "00000000000000000000000000000001"
#: What this version does for a caller; the shared service is off.
ACTIONS: Final = ("infer", "upload", "fetch", "telemetry", "policy_manage")
#: Tokens of prompt and output that a request of the reference engine may have.
REFERENCE_SEQUENCE_TOKENS: Final = 131072
#: The same of the llama engine, and its requests at once: what a small model can hold
#: in half a gigabyte (docs/models.md).
LLAMA_SEQUENCE_TOKENS: Final = 2048
LLAMA_CAPACITY: Final = 8
#: In the order written; `aotx init` touches nothing if one of them is there.
FILES: Final = ("token", "gateway.json", "runtime.json", "grants")


@attrs.frozen(kw_only=True)
class First:
    """
    What the first configuration is made from.
    """

    host: str
    port: int
    #: Seconds since 1970: when the model is said to be published.
    now: int
    #: What clients ask for.
    alias: str = "reference"
    engine: str = "reference"
    #: The engine's own options in runtime.json.
    options: Mapping[str, Any] = attrs.field(factory=dict)
    sequence_tokens: int = REFERENCE_SEQUENCE_TOKENS


def new_token() -> tuple[str, str]:
    """
    A new token and the lowercase hex SHA-256 of its UTF-8.
    """
    token = secrets.token_urlsafe(TOKEN_BYTES)
    return token, hashlib.sha256(token.encode()).hexdigest()


def make_state_directory(directory: Path, first: First) -> None:
    """
    Make *directory* (0700) with its first files, each 0600. Overwrites nothing.

    Raises:
        ConfigErrors: a file of ours is there already, or the configuration would not
            load; nothing was made.
        OSError: the directory or a file cannot be made; files made before are removed.
    """
    token, token_sha256 = new_token()
    gateway = _gateway(first, token_sha256)
    settings = parse_gateway(gateway, directory.absolute()).settings
    contents = (
        token.encode() + b"\n",
        _text(gateway),
        _text(_runtime(first)),
        grant_table(settings).pack(),
    )
    is_new = _is_new(directory)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    made: list[Path] = []
    try:
        for name, content in zip(FILES, contents, strict=True):
            write_new(directory / name, content)
            made.append(directory / name)
    except OSError:
        for path in made:
            path.unlink()
        if is_new:
            directory.rmdir()
        raise


def _is_new(directory: Path) -> bool:
    """Whether it has yet to be made; a directory that is no good is refused."""
    there = [name for name in FILES if os.path.lexists(directory / name)]
    if there:
        reason = "is there already; nothing is overwritten"
        raise ConfigErrors(tuple(ConfigError(name, reason) for name in there))
    if not directory.is_dir():
        return True
    if directory.stat().st_mode & 0o022:
        raise file_error("is writable by group or others; chmod go-w it")
    return False


def _gateway(first: First, token_sha256: str) -> dict[str, Any]:
    return {
        "socket": "service.sock",
        "revision": "1",
        "host": first.host,
        "port": first.port,
        "models": {first.alias: {"role": "language", "published_at": first.now}},
        "principals": [
            {
                "id": PRINCIPAL_ID,
                "token_sha256": [token_sha256],
                "models": [first.alias],
                "actions": list(ACTIONS),
                "pages": 0,
                "tokens": first.sequence_tokens - 1,
                "requests": 128,
                "media": 128,
                "media_bytes": 67108864,
            }
        ],
    }


def _runtime(first: First) -> dict[str, Any]:
    return {
        "device": {"backend": "cpu", "sequence_tokens": first.sequence_tokens},
        "models": {"language": {"engine": first.engine, **first.options}},
    }


def _text(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"
