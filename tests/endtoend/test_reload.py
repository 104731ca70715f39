"""
Grants and configuration replaced while real processes serve (`http.md` §10).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.endtoend.calls import Answer, call
from tests.endtoend.conftest import (
    GATEWAY_READY,
    RUNTIME_READY,
    Service,
    set_engine,
)
from tests.endtoend.streams import EventStream
from tests.processes import (
    COMPILE_PATIENCE,
    PATIENCE,
    Process,
    edit,
    environment,
    make_state,
    twistd,
)
from twisted_aotx.config.files import replace_file
from twisted_aotx.config.gateway import load_gateway
from twisted_aotx.config.grants import grant_table
from twisted_aotx.config.initial import new_token
from twisted_aotx.grants_state import GrantsState

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: A stream that lasts longer than a test.
RATE = 10
BODY = {
    "model": "reference",
    "messages": [{"role": "user", "content": "Tell me a long story."}],
    "max_tokens": 2000,
    "temperature": 0,
}
REQUESTS = "/aotx/v1/requests"


def aotx(*words: str | Path) -> subprocess.CompletedProcess[str]:
    run = "from twisted_aotx.cli import run; run()"
    return subprocess.run(
        [sys.executable, "-c", run, *map(str, words)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@attrs.frozen
class Running(Service):
    """
    A service whose grants a test replaces.
    """

    @property
    def config(self) -> Path:
        return self.state / "gateway.json"

    @property
    def revision(self) -> int:
        said = GrantsState.read(self.state)
        assert said is not None
        return said.revision

    def edit(self, **keys: Any) -> dict[str, Any]:
        return edit(self.config, **keys)

    def principals(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = edit(self.config)["principals"]
        return found

    def write_table(self) -> None:
        table = grant_table(load_gateway(self.config).settings)
        replace_file(self.state / "grants", table.pack())

    def hang_up(self, line: str) -> None:
        """SIGHUP, until the log has one *line* more."""
        before = self.process.text().count(line)
        self.process.signal(signal.SIGHUP)
        self.until(lambda: self.process.text().count(line) > before, line)

    def until(self, reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not reached():
            assert time.monotonic() < deadline, f"{what}: {self.process}"
            time.sleep(0.02)

    def ask(self, path: str, body: Any = None, token: str = "") -> Answer:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        return call(self.url + path, headers, body)

    def submit(self) -> str:
        answer = self.ask(REQUESTS, BODY)
        assert answer.status == 202, answer
        handle: str = answer.body["id"]
        return handle

    def stream(self, handle: str) -> EventStream:
        """The events of a request, open and running."""
        stream = EventStream.open(f"{self.url}{REQUESTS}/{handle}/events", self.headers)
        assert stream.status == 200
        assert_goes_on(stream)
        return stream


def assert_goes_on(stream: EventStream) -> None:
    """Two more emissions come: one may have been on its way."""
    seen = 0
    while seen < 2:
        event = stream.next()
        assert event is not None
        assert event.name != "error", event
        seen += event.name == "emission"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reload")


@pytest.fixture(scope="module")
def process(folder: Path) -> Iterator[tuple[Process, Path]]:
    state = make_state(folder)
    edit(state / "runtime.json", device={"sequence_tokens": 131072})
    set_engine(state, rate=RATE)
    with twistd(folder, "aotx", "--state", state) as running:
        running.wait_for(GATEWAY_READY, COMPILE_PATIENCE)
        yield running, state
        assert running.lines("critical") == []
        running.signal(signal.SIGTERM)
        assert running.code() == 0, running
    assert not (state / "grants.state").exists()


@pytest.fixture
def service(process: tuple[Process, Path]) -> Running:
    """One service for all tests; each finds grants of the first principal in force."""
    running = Running(*process)
    (first, *_) = running.principals()
    running.edit(revision=str(running.revision + 1), principals=[first])
    assert aotx("grants", "--reload", running.state).returncode == 0
    return running


def test_a_principal_is_added_and_served_at_once(service: Running) -> None:
    token, digest = new_token()
    revision = service.revision + 1
    second = {
        **service.principals()[0],
        "id": "f" * 32,
        "token_sha256": [digest],
        "requests": 1,
    }
    service.edit(revision=str(revision), principals=[*service.principals(), second])

    done = aotx("grants", "--reload", service.state)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"{service.state}/grants: revision {revision} is in force, 2 principal(s)\n"
    )
    # Connections that were open may fail once (http.md §3); these are new by then.
    assert service.ask(REQUESTS, BODY, token).status == 202
    assert service.ask(REQUESTS, BODY, token).status == 429
    assert service.ask("/v1/models").status == 200


def test_a_replacement_revokes_what_is_active(service: Running) -> None:
    """`device.md` §2: cancelled 403; a result of the old revision is 404 for good."""
    handle = service.submit()
    stream = service.stream(handle)
    service.edit(revision=str(service.revision + 1))

    assert aotx("grants", "--reload", service.state).returncode == 0

    last = stream.rest()[-1]
    assert last.name == "error"
    assert last.data["error"]["code"] in ("device_refused", "device_connection")
    for _ in range(2):
        for path in ("", "/events"):
            assert service.ask(f"{REQUESTS}/{handle}{path}").status == 404
        assert service.ask(f"{REQUESTS}/{handle}/cancel", {}).status == 404
    # It counts no more: as many as the quota says can be active.
    quota = service.principals()[0]["requests"]
    statuses = [service.ask(REQUESTS, BODY).status for _ in range(quota + 1)]
    assert statuses == [202] * quota + [429]


def test_a_refused_table_keeps_both_old(service: Running) -> None:
    handle = service.submit()
    stream = service.stream(handle)
    revision = service.revision
    principal = service.principals()[0]
    service.edit(
        revision=str(revision + 1),
        principals=[{**principal, "requests": 1000}],
        origins=["https://app.example"],
    )

    done = aotx("grants", "--reload", service.state)

    assert (done.returncode, done.stdout) == (1, "")
    refused, stays = done.stderr.splitlines()
    assert refused.endswith("the device refused it, status 400")
    assert stays.startswith(f"revision {revision} stays in force")
    assert f"runtime goes on as before: {refused}" in process_errors(service)
    assert_goes_on(stream)
    origin = {**service.headers, "Origin": "https://app.example"}
    assert call(service.url + "/v1/models", origin).status == 403
    service.edit(principals=[principal], origins=[])


def process_errors(service: Running) -> list[str]:
    return service.process.lines("error")


def group_writable(grants: Path) -> None:
    grants.chmod(0o660)


def symlinked(grants: Path) -> None:
    grants.rename(grants.with_name("real"))
    grants.symlink_to("real")


def truncated(grants: Path) -> None:
    grants.write_bytes(grants.read_bytes()[:-1])


def oversize(grants: Path) -> None:
    grants.write_bytes(grants.read_bytes().ljust(65537, b"\0"))


@pytest.mark.parametrize("spoil", [group_writable, symlinked, truncated, oversize])
def test_sighup_with_a_bad_file(
    service: Running, spoil: Callable[[Path], None]
) -> None:
    """cases B 34."""
    handle = service.submit()
    stream = service.stream(handle)
    revision = service.revision
    service.edit(revision=str(revision + 1))
    service.write_table()
    spoil(service.state / "grants")

    service.hang_up("runtime goes on as before: grants file ")

    assert service.revision == revision
    assert_goes_on(stream)
    assert service.ask(f"{REQUESTS}/{handle}").status == 200
    (service.state / "grants").unlink()


def test_sighup_with_a_good_newer_file(service: Running) -> None:
    """cases B 35: the gateway's connections were dropped, new ones work."""
    assert service.ask("/v1/models").status == 200
    service.edit(revision=str(service.revision + 1))
    service.write_table()

    service.hang_up("peers dropped: ")

    wanted = edit(service.config)["revision"]
    service.until(lambda: service.revision == int(wanted), "the result")
    assert service.ask("/v1/models").status == 200
    service.submit()


def test_a_bad_configuration_keeps_the_old_table_too(service: Running) -> None:
    handle = service.submit()
    stream = service.stream(handle)
    revision = service.revision
    good = service.edit(revision=str(revision + 1))
    service.write_table()
    service.edit(surprise=1, port=0)

    service.hang_up("gateway goes on as before: port: must be")

    assert service.revision == revision
    assert_goes_on(stream)
    service.config.write_text(json.dumps(good))


def test_a_token_is_rotated_without_a_new_revision(service: Running) -> None:
    """As docs/operations.md says; an open stream does not notice."""
    handle = service.submit()
    stream = service.stream(handle)
    revision = service.revision
    principal = service.principals()[0]
    (old_hash,) = principal["token_sha256"]
    token, digest = new_token()

    service.edit(principals=[{**principal, "token_sha256": [old_hash, digest]}])
    service.hang_up("reloaded: revision")
    assert service.ask("/v1/models").status == 200
    assert service.ask("/v1/models", token=token).status == 200

    service.edit(principals=[{**principal, "token_sha256": [digest]}])
    service.hang_up("reloaded: revision")
    assert service.ask("/v1/models").status == 401
    assert service.ask(f"{REQUESTS}/{handle}", token=token).status == 200

    assert service.revision == revision
    assert_goes_on(stream)
    service.edit(principals=[principal])
    service.hang_up("reloaded: revision")


def test_a_runtime_and_a_gateway_of_their_own(tmp_path: Path) -> None:
    """Between the two reloads the device refuses the gateway: 403, or 503."""
    state = make_state(tmp_path)
    with (
        twistd(tmp_path, "aotx-runtime", "--state", state) as runtime,
        twistd(tmp_path, "aotx-gateway", "--state", state) as gateway,
    ):
        runtime.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
        gateway.wait_for(GATEWAY_READY)
        service = Running(gateway, state)
        assert service.ask("/v1/models").status == 200
        service.edit(revision="2")

        assert aotx("grants", "--reload", state).returncode == 0
        assert service.ask(REQUESTS, BODY).status in (403, 503)
        between = service.ask(REQUESTS, BODY)
        assert (between.status, between.body["error"]["code"]) == (
            403,
            "device_refused",
        )
        service.hang_up("reloaded: revision 2")

        assert service.ask(REQUESTS, BODY).status == 202
        service.edit(revision="3")
        gateway.signal(signal.SIGHUP)
        gateway.wait_for("knows no grant of revision 3: run aotx grants --reload")
