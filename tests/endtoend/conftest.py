"""
Real processes, shared by the tests of a module.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.processes import (
    COMPILE_PATIENCE,
    Process,
    address,
    edit,
    make_state,
    twistd,
)

RUNTIME_READY = "[aotx.runtime#info] ready"
GATEWAY_READY = "[aotx.gateway#info] ready"


@attrs.frozen
class Service:
    """
    A running `twistd aotx` or `twistd aotx-runtime` and its state directory.
    """

    process: Process
    state: Path

    @property
    def url(self) -> str:
        return address(self.state / "gateway.json")

    @property
    def token(self) -> str:
        return (self.state / "token").read_text().strip()

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def socket(self) -> str:
        return str(self.state / "service.sock")


def set_engine(state: Path, **options: Any) -> None:
    """Options of the reference engine."""
    edit(
        state / "runtime.json",
        models={"language": {"engine": "reference", **options}},
    )


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Both parts, as `aotx init` sets them up, as fast as ticks allow."""
    folder = tmp_path_factory.mktemp("service")
    state = make_state(folder)
    with twistd(folder, "aotx", "--state", state) as process:
        process.wait_for(GATEWAY_READY, COMPILE_PATIENCE)
        yield Service(process, state)
