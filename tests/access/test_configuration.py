"""
What an operator pastes into the wrong place of a principal is not told back: its faults
go to terminals and logs, and it may be a token.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

import pytest

from tests.access.hunter import Catch, Hunter, logs_into, raised_into
from tests.access.planting import SECRETS, TOKEN
from twisted_aotx.config.gateway import parse_gateway
from twisted_aotx.errors import ConfigErrors

DIGEST: Final = hashlib.sha256(TOKEN.encode()).hexdigest()
#: Every key of a principal, and one that is none.
KEYS: Final = (
    *("id", "token_sha256", "models", "actions", "pages", "tokens", "requests"),
    *("media", "media_bytes", "token"),
)


def file_with(key: str, value: Any, count: int = 1) -> dict[str, Any]:
    """A gateway file whose principals have *value* there."""
    principals = [
        {
            "id": f"{number:032x}",
            "token_sha256": [DIGEST],
            "models": ["m"],
            "actions": ["infer"],
            key: value,
        }
        for number in range(1, count + 1)
    ]
    return {
        "socket": "service.sock",
        "revision": "1",
        "models": {"m": {"role": "language", "published_at": 0}},
        "principals": principals,
    }


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("secret", [TOKEN, DIGEST, DIGEST.upper()])
def test_faults(key: str, secret: str) -> None:
    catch = Catch(Hunter(SECRETS))
    for value in (secret, [secret], [secret, secret], {secret: secret}, [[secret]]):
        with logs_into(catch), raised_into(catch):
            try:
                file = parse_gateway(file_with(key, value, count=2), Path("/srv"))
            except ConfigErrors as errors:
                catch.look("errors", key, f"{errors!s} {errors!r}")
            else:
                catch.look("settings", key, f"{file!s} {file!r}")
    catch.assert_nothing()
    assert catch.seen
