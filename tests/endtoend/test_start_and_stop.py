"""
How a runtime starts, fails to start, and stops (`device.md` §16).
"""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.endtoend.calls import call
from tests.endtoend.conftest import (
    GATEWAY_READY,
    RUNTIME_READY,
    Service,
    set_engine,
)
from tests.endtoend.streams import EventStream
from tests.processes import COMPILE_PATIENCE, address, edit, make_state, twistd
from twisted_aotx.statedir import StateDirectory

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_the_socket_appears_when_the_grants_were_accepted(tmp_path: Path) -> None:
    # cases B 20
    state = make_state(tmp_path)
    path = state / "service.sock"
    with twistd(tmp_path, "aotx-runtime", "--state", state) as process:
        while not path.exists():
            assert RUNTIME_READY not in process.text()
            assert process.popen.poll() is None, process
            time.sleep(0.01)
        process.wait_for(RUNTIME_READY, COMPILE_PATIENCE)

        assert (state / "epoch").read_text() == "1\n"
        assert (state / "service.lock").read_text() == f"{process.popen.pid}\n"
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_running_runtime_stops_in_order(
    tmp_path: Path, number: signal.Signals
) -> None:
    state = make_state(tmp_path)
    with twistd(tmp_path, "aotx-runtime", "--state", state) as process:
        process.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
        process.signal(signal.SIGHUP)
        process.wait_for("the grants file holds the table in force")
        process.signal(number)

        assert process.code() == 0, process
    assert not (state / "service.sock").exists()
    assert not (state / "grants.state").exists()
    assert process.lines("critical") == process.lines("error") == []


def test_a_stop_while_kernels_compile_does_not_wait_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    state = make_state(tmp_path)
    with twistd(tmp_path, "aotx-runtime", "--state", state) as process:
        process.wait_for("compiling kernels")
        process.signal(signal.SIGTERM)

        assert process.code(5) == 0, process
    assert not (state / "service.sock").exists()


def test_open_streams_do_not_hold_up_the_end(tmp_path: Path) -> None:
    # http.md §10: within write_seconds. A stream ends so that it can be resumed: with
    # neither an error nor a terminal status.
    state = make_state(tmp_path, limits={"write_seconds": 4})
    set_engine(state, rate=1)
    with twistd(tmp_path, "aotx", "--state", state) as process:
        process.wait_for(GATEWAY_READY, COMPILE_PATIENCE)
        service = Service(process, state)
        body = {"model": "reference", "messages": [{"role": "user", "content": "x"}]}
        url = f"{service.url}/aotx/v1/requests"
        handle = call(url, service.headers, body).body["id"]
        stream = EventStream.open(f"{url}/{handle}/events", service.headers)
        assert stream.next() is not None
        process.signal(signal.SIGTERM)

        assert process.code(4) == 0, process
        events = stream.rest()
        assert "error" not in [event.name for event in events]
        states = [event.data["state"] for event in events if event.name == "status"]
        assert not {"completed", "failed", "cancelled"} & set(states)


def hold_the_lock(state: Path) -> StateDirectory:
    directory = StateDirectory(state)
    directory.lock()
    return directory


def make_a_folder_at_the_socket(state: Path) -> None:
    (state / "service.sock").mkdir()


def make_a_file_at_the_socket(state: Path) -> None:
    (state / "service.sock").write_text("mine")


def open_the_grants_to_others(state: Path) -> None:
    (state / "grants").chmod(0o660)


def cut_the_grants(state: Path) -> None:
    grants = state / "grants"
    grants.write_bytes(grants.read_bytes()[:-1])


def remove_the_grants(state: Path) -> None:
    (state / "grants").unlink()


def lower_the_capacity(state: Path) -> None:
    # init grants 131,071 tokens: more than the device has now.
    edit(state / "runtime.json", device={"sequence_tokens": 8192})


def damage_the_epoch(state: Path) -> None:
    (state / "epoch").write_text("one\n")


def name_no_engine(state: Path) -> None:
    edit(state / "runtime.json", models={"language": {"engine": "none"}})


def give_a_bad_option(state: Path) -> None:
    set_engine(state, capacity=64)


def ask_for_a_gpu(state: Path) -> None:
    edit(state / "runtime.json", device={"backend": "cuda"})


def ask_for_too_much_memory(state: Path) -> None:
    device = {"requests": 65536, "output_bytes": 16777216, "sequence_tokens": 131072}
    edit(state / "runtime.json", device=device)


FAILURES: list[tuple[Callable[[Path], Any], str]] = [
    (hold_the_lock, r"service\.lock: the state directory is in use by process \d+"),
    (make_a_folder_at_the_socket, r"socket .*service\.sock: "),
    (make_a_file_at_the_socket, r"socket .*service\.sock: "),
    (open_the_grants_to_others, r"grants file .*grants: "),
    (cut_the_grants, r"grants file .*grants: "),
    (remove_the_grants, r"grants file .*grants: "),
    (lower_the_capacity, r"grants file .*: the device refused it, status 400"),
    (damage_the_epoch, r"epoch: not a counter"),
    (name_no_engine, r"models\.language\.engine: .*known engines: .*\breference\b"),
    (give_a_bad_option, r"runtime\.json: models\.language\.capacity: must be an inte"),
    (ask_for_too_much_memory, r"device: "),
]


@pytest.mark.parametrize(
    ("spoil", "reason"), FAILURES, ids=[spoil.__name__ for spoil, _ in FAILURES]
)
def test_a_start_that_fails_is_one_line_and_exit_1(
    tmp_path: Path, spoil: Callable[[Path], Any], reason: str
) -> None:
    state = make_state(tmp_path)
    kept = spoil(state)
    with twistd(tmp_path, "aotx-runtime", "--state", state) as process:
        assert process.code(COMPILE_PATIENCE) == 1, process
    (line,) = process.lines("critical")
    assert line.startswith("runtime cannot start: ")
    assert re.search(reason, line), line
    assert "Traceback" not in process.text()
    assert RUNTIME_READY not in process.text()
    assert not (state / "service.sock").is_socket()
    del kept


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="there is a GPU")
def test_cuda_without_a_gpu_is_one_line_and_exit_1(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    ask_for_a_gpu(state)
    with twistd(tmp_path, "aotx-runtime", "--state", state) as process:
        assert process.code(COMPILE_PATIENCE) == 1, process
    (line,) = process.lines("critical")
    assert "device.backend" in line
    assert "Traceback" not in process.text()


def test_what_began_is_undone_when_the_gateway_cannot_start(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        edit(state / "gateway.json", port=taken.getsockname()[1])
        with twistd(tmp_path, "aotx", "--state", state) as process:
            assert process.code(COMPILE_PATIENCE) == 1, process
    assert RUNTIME_READY in process.text()
    (line,) = process.lines("critical")
    assert line.startswith("gateway cannot start: Couldn't listen")
    assert not (state / "service.sock").exists()


def test_a_gateway_with_another_revision_says_what_to_do(tmp_path: Path) -> None:
    state = make_state(tmp_path, revision="2")
    with twistd(tmp_path, "aotx", "--state", state) as process:
        process.wait_for(
            "knows no grant of revision 2: run aotx grants --reload", COMPILE_PATIENCE
        )

        token = (state / "token").read_text().strip()
        url = address(state / "gateway.json") + "/v1/models"
        answer = call(url, {"Authorization": f"Bearer {token}"})
        assert (answer.status, answer.body["error"]["code"]) == (403, "device_refused")
