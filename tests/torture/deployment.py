"""
The state directory of a fleet: who may call, what runs, how much of it there is.
"""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any, Final

import attrs

from tests.processes import edit, free_port, make_state
from tests.torture.expected import ANSWERING, RECITED, RECITING
from tests.torture.uploaders import UPLOAD_SECONDS
from twisted_aotx.config.files import replace_file
from twisted_aotx.config.gateway import load_gateway
from twisted_aotx.config.grants import grant_table
from twisted_aotx.config.initial import new_token

#: Tokens per second of the model that answers, and of the one that recites.
RATE, RECITING_RATE = 100, 1000
#: Principal who looks at metrics and switches review on.
WATCHER: Final = 1000
LIMITS: Final = {
    "connections": 256,
    "work": 128,
    "header_seconds": 3,
    "body_seconds": 4,
    "write_seconds": 4,
}


@attrs.frozen
class Account:
    """
    A principal: its number and its token.
    """

    number: int
    token: str = attrs.field(repr=False)
    digest: str = attrs.field(repr=False)

    @classmethod
    def make(cls, number: int) -> Account:
        return cls(number, *new_token())

    @property
    def entry(self) -> dict[str, Any]:
        """Its place in gateway.json."""
        actions = ["infer", "upload"]
        if self.number == WATCHER:
            actions += ["telemetry", "policy_manage"]
        return {
            "id": f"{self.number:032x}",
            "token_sha256": [self.digest],
            "models": [ANSWERING, RECITING],
            "actions": actions,
            "tokens": 8192,
            "requests": 16,
            "media": 12,
            "media_bytes": 4 << 20,
        }


@attrs.frozen
class Deployment:
    """
    What two gateways and a runtime are started from.
    """

    folder: Path
    state: Path
    configs: tuple[Path, Path]
    accounts: list[Account]

    @classmethod
    def make(cls, folder: Path, clients: int, requests: int) -> Deployment:
        """
        Args:
            requests: `device.requests`; 128 needs no kernels of its own.
        """
        numbers = [*range(1, clients + 1), WATCHER]
        accounts = [Account.make(number) for number in numbers]
        entries = [account.entry for account in accounts]
        models = {
            ANSWERING: {"role": "language", "published_at": 1},
            RECITING: {"role": "language-q4", "published_at": 1},
        }
        state = make_state(
            folder, principals=entries, models=models, limits=dict(LIMITS)
        )
        recited = base64.b64encode(RECITED).decode()
        media = ["image", "audio"]
        device = edit(state / "runtime.json")["device"]
        edit(
            state / "runtime.json",
            metrics="unix:metrics.sock",
            device={**device, "requests": requests, "upload_seconds": UPLOAD_SECONDS},
            models={
                "language": {"engine": "reference", "rate": RATE, "modalities": media},
                "language-q4": {
                    "engine": "reference",
                    "rate": RECITING_RATE,
                    "bytes": recited,
                },
            },
        )
        first, second = state / "gateway.json", state / "gateway-2.json"
        shutil.copy(first, second)
        edit(second, port=free_port())
        table = grant_table(load_gateway(first).settings)
        replace_file(state / "grants", table.pack())
        return cls(folder, state, (first, second), accounts)

    @property
    def watcher(self) -> Account:
        return self.accounts[-1]
