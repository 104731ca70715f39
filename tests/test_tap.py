"""
The life of the twistd commands: options, start order, signals, exit codes.

`http.md` §10, `device.md` §16. The gateway stands for all where no runtime is needed.
"""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.processes import (
    PATIENCE,
    address,
    edit,
    environment,
    free_port,
    make_state,
    twistd,
)

pytestmark = pytest.mark.e2e

LISTENING = "listening on"


def get(url: str, context: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE, context=context) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


# --- what is imported when ---------------------------------------------------


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("twisted_aotx.tap_gateway", "numba numpy twisted_aotx.device"),
        ("twisted_aotx.tap_runtime", "numba"),
        ("twisted_aotx.tap_aotx", "numba"),
        ("twisted_aotx.cli", "numba numpy twisted.internet.reactor"),
    ],
)
def test_commands_import_no_more_than_they_need(module: str, heavy: str) -> None:
    code = (
        f"import sys, {module}; print([n for n in {heavy.split()} if n in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )

    assert (found.stdout.strip(), found.stderr) == ("[]", "")


# --- options and configuration -----------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["aotx"],
        ["aotx", "--gateway", "gateway.json"],
        ["aotx", "--runtime", "runtime.json"],
        ["aotx-runtime"],
        ["aotx-runtime", "--gateway", "gateway.json"],
        ["aotx-gateway"],
        ["aotx-gateway", "--state", "var", "extra"],
        ["aotx-gateway", "--no-such-option"],
    ],
)
def test_usage_errors_exit_with_2(tmp_path: Path, words: list[str]) -> None:
    with twistd(tmp_path, *words) as process:
        assert process.code() == 2, process
        assert "Options:" in process.text()


def test_every_mistake_of_a_file_is_a_line_and_exit_1(tmp_path: Path) -> None:
    state = make_state(tmp_path, port=0, surprise=1)

    with twistd(tmp_path, "aotx-gateway", "--state", state) as process:
        assert process.code() == 1, process
        path = state / "gateway.json"
        surprise, port = process.text().splitlines()
    assert surprise.startswith(f"{path}: surprise: unknown key")
    assert port == f"{path}: port: must be 1 .. 65535, not 0"


def test_a_capacity_out_of_range_is_a_line_and_exit_1(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    edit(state / "runtime.json", device={"slots": 1025})

    with twistd(tmp_path, "aotx-runtime", "--state", state) as process:
        assert process.code() == 1, process
    assert process.text().splitlines() == [
        f"{state / 'runtime.json'}: device.slots: must be <= 1024: 1025"
    ]
    assert not (state / "epoch").exists()


def test_both_parts_must_name_one_socket(tmp_path: Path) -> None:
    state = make_state(tmp_path, socket="other.sock")

    with twistd(tmp_path, "aotx", "--state", state) as process:
        assert process.code() == 1
        assert "socket: is not the runtime's socket" in process.text()


def test_a_file_given_by_name_overrides_the_state_directory(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    other = tmp_path / "other.json"
    other.write_text((state / "gateway.json").read_text())
    other.chmod(0o600)
    edit(other, port=free_port())

    with twistd(
        tmp_path, "aotx-gateway", "--state", state, "--gateway", other
    ) as process:
        process.wait_for(LISTENING)
        assert f"{LISTENING} {address(other)}" in process.text()


# --- a gateway's life --------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_gateway_ends_in_order_when_asked(
    tmp_path: Path, number: signal.Signals
) -> None:
    state = make_state(tmp_path)
    with twistd(tmp_path, "aotx-gateway", "--state", state) as process:
        process.wait_for(LISTENING)
        process.signal(number)

        assert process.code() == 0, process
        assert f"[aotx#info] {number.name}: stopping" in process.text()


def test_an_idle_connection_does_not_hold_up_the_end(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    port = edit(state / "gateway.json")["port"]
    with twistd(tmp_path, "aotx-gateway", "--state", state) as process:
        process.wait_for(LISTENING)
        with socket.create_connection(("127.0.0.1", port)) as idle:
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert idle.recv(1000).startswith(b"HTTP/1.1 200")
            process.signal(signal.SIGTERM)

            assert process.code(5) == 0, process


def test_a_second_signal_ends_a_gateway_that_waits_for_an_answer(
    tmp_path: Path,
) -> None:
    # The first one gives answers write_seconds to get out; this one is never asked
    # for to its end.
    state = make_state(tmp_path, limits={"write_seconds": 60})
    port = edit(state / "gateway.json")["port"]
    token = (state / "token").read_text().strip()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        "Expect: 100-continue\r\n\r\n"
    )
    with twistd(tmp_path, "aotx-gateway", "--state", state) as process:
        process.wait_for(LISTENING)
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as half:
            half.sendall(head.encode())
            assert half.recv(1000).startswith(b"HTTP/1.1 100")
            process.signal(signal.SIGTERM)
            process.wait_for("SIGTERM: stopping")
            with pytest.raises(subprocess.TimeoutExpired):
                process.code(1)
            process.signal(signal.SIGTERM)

            assert process.code(5) == 0, process
    assert "SIGTERM again: leaving at once" in process.text()


def test_a_gateway_goes_on_after_sighup(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    with twistd(tmp_path, "aotx-gateway", "--state", state) as process:
        process.wait_for(LISTENING)
        process.signal(signal.SIGHUP)
        process.wait_for("reloaded: revision 1, 1 model(s), 1 principal(s)")

        assert get(address(state / "gateway.json") + "/healthz")[0] == 200
        process.signal(signal.SIGTERM)
        assert process.code() == 0


def test_a_gateway_takes_its_file_again_on_sighup(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    config = state / "gateway.json"
    url = address(config)
    with twistd(tmp_path, "aotx-gateway", "--state", state) as process:
        process.wait_for(LISTENING)
        request = urllib.request.Request(
            url + "/healthz", headers={"Origin": "https://a.example"}
        )
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request, timeout=PATIENCE)
        edit(
            config,
            origins=["https://a.example"],
            port=free_port(),
            limits={"connections": 5, "write_seconds": 3},
        )
        process.signal(signal.SIGHUP)
        process.wait_for("only a restart changes port, limits.connections")

        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            assert answer.status == 200
        process.signal(signal.SIGTERM)
        assert process.code() == 0, process


def test_a_bad_file_changes_nothing_and_every_error_is_told(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    config = state / "gateway.json"
    url = address(config)
    with twistd(tmp_path, "aotx-gateway", "--state", state) as process:
        process.wait_for(LISTENING)
        edit(config, port=0, surprise=1, origins=["https://a.example"])
        process.signal(signal.SIGHUP)
        process.wait_for("port: must be")

        first, second = process.lines("error")
        assert first.startswith("gateway goes on as before: surprise: unknown key")
        assert second.startswith("gateway goes on as before: port: must be 1 .. 65535")
        request = urllib.request.Request(
            url + "/healthz", headers={"Origin": "https://a.example"}
        )
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request, timeout=PATIENCE)


def test_tls_files_that_cannot_be_used_change_nothing(
    tmp_path: Path, pems: Path
) -> None:
    state = make_state(tmp_path)
    with twistd(tmp_path, "aotx-gateway", "--state", state) as process:
        process.wait_for(LISTENING)
        edit(
            state / "gateway.json",
            certificate=str(pems / "a.pem"),
            key=str(pems / "b.key"),
        )
        process.signal(signal.SIGHUP)
        process.wait_for("gateway goes on as before: key: does not belong")

        assert "reloaded:" not in process.text()


def test_a_taken_port_is_one_line_and_exit_1(tmp_path: Path) -> None:
    # twistd itself exits 0 after a start that fails once the reactor runs.
    state = make_state(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        edit(state / "gateway.json", port=taken.getsockname()[1])
        with twistd(tmp_path, "aotx-gateway", "--state", state) as process:
            assert process.code() == 1, process
    (line,) = process.lines("critical")
    assert line.startswith("gateway cannot start: Couldn't listen on 127.0.0.1:")
    assert "Address already in use" in line
    assert "Traceback" not in process.text()


def test_a_gateway_without_its_runtime_says_so_and_is_not_ready(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    with twistd(tmp_path, "aotx-gateway", "--state", state) as process:
        process.wait_for("does not answer yet")

        status, body = get(address(state / "gateway.json") + "/readyz")
        assert (status, b"not_ready" in body) == (503, True)


def test_what_the_file_should_not_hold_is_warned_about(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    (principal,) = edit(state / "gateway.json")["principals"]
    principal["actions"].append("affect_manage")
    edit(state / "gateway.json", principals=[principal])

    with twistd(tmp_path, "aotx-gateway", "--state", state) as process:
        process.wait_for("[aotx.gateway#warn] gateway.json: principals[0].actions")


# --- TLS -----------------------------------------------------------------------


def test_a_gateway_serves_tls_1_2_and_newer(tmp_path: Path, pems: Path) -> None:
    state = make_state(
        tmp_path, certificate=str(pems / "a.pem"), key=str(pems / "a.key")
    )
    context = ssl.create_default_context(cafile=pems / "a.pem")
    with twistd(tmp_path, "aotx-gateway", "--state", state) as process:
        process.wait_for(f"{LISTENING} https://127.0.0.1")

        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context.minimum_version = context.maximum_version = version
            url = address(state / "gateway.json") + "/healthz"
            assert get(url, context) == (200, b'{"status":"ok"}')
        process.signal(signal.SIGTERM)
        assert process.code() == 0


@pytest.mark.parametrize(
    ("certificate", "key", "path"),
    [
        ("a.pem", "b.key", "key: does not belong"),
        ("a.key", "a.key", "certificate: "),
        ("a.pem", "a.pem", "key: "),
        ("none", "a.key", "certificate: "),
        ("a.pem", "none", "key: "),
    ],
)
def test_tls_files_that_are_no_use_are_one_line_and_exit_1(
    tmp_path: Path, pems: Path, certificate: str, key: str, path: str
) -> None:
    state = make_state(
        tmp_path, certificate=str(pems / certificate), key=str(pems / key)
    )
    with twistd(tmp_path, "aotx-gateway", "--state", state) as process:
        assert process.code() == 1, process
    (line,) = process.lines("critical")
    assert line.startswith(f"gateway cannot start: {path}")


def test_tls_without_pyopenssl_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['OpenSSL'] = None\n"
        "from twisted_aotx.gateway.settings import GatewaySettings\n"
        "from twisted_aotx.wiring_gateway import tls_options\n"
        "settings = GatewaySettings(socket='s', revision=1, models=(),"
        " certificate='c', key='k')\n"
        "tls_options(settings)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )

    last = done.stderr.splitlines()[-1]
    assert last.endswith("certificate: TLS needs pyOpenSSL: pip install 'Twisted[tls]'")
