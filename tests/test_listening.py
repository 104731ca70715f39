"""
`--listen`: what may be said, and that it is so (`http.md` §1).
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.processes import PATIENCE, edit, environment, free_port, make_state, twistd
from twisted_aotx.places import parse

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
OK = b'{"status":"ok"}'


def asked(client: socket.socket, sent: bytes = HEALTH) -> bytes:
    client.settimeout(PATIENCE)
    client.sendall(sent)
    received = b""
    while part := client.recv(4096):
        received += part
    return received


def tcp(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


@pytest.mark.parametrize(
    ("text", "kind", "where", "options"),
    [
        ("tcp:8081:interface=127.0.0.1", "tcp", "8081", {"interface": "127.0.0.1"}),
        ("tcp:0:interface=localhost", "tcp", "0", {"interface": "localhost"}),
        ("tcp:1:interface=127.9.9.9:backlog=5", "tcp", "1", None),
        (r"tcp6:1:interface=\:\:1", "tcp6", "1", {"interface": "::1"}),
        ("tls:8443", "tls", "8443", {}),
        ("tls:8443:interface=192.0.2.1", "tls", "8443", None),
        ("unix:/run/x.sock:mode=600", "unix", "/run/x.sock", {"mode": "600"}),
        (r"unix:/run/a\:b", "unix", "/run/a:b", {}),
        ("haproxy:tcp:8081", "tcp", "8081", {}),
        ("haproxy:unix:/run/x", "unix", "/run/x", {}),
        ("systemd:domain=INET:index=0", "systemd", "", None),
    ],
)
def test_what_may_be_said(
    text: str, kind: str, where: str, options: dict[str, str] | None
) -> None:
    place = parse(text)

    assert (place.kind, place.where) == (kind, where)
    assert place.options == options or options is None
    assert place.behind_proxy is text.startswith("haproxy:")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must begin with"),
        ("8081", "must begin with"),
        ("ssl:443", "must begin with"),
        ("haproxy:haproxy:tcp:1", "must begin with"),
        ("haproxy:tls:1", "must begin with"),
        ("tcp:", "the port is no number"),
        ("tcp:http:interface=127.0.0.1", "the port is no number"),
        ("tcp:65536:interface=127.0.0.1", "a port is"),
        ("tcp:-1:interface=127.0.0.1", "a port is"),
        ("tcp:1:mode=600", "takes no"),
        ("tcp:1:127.0.0.1", "takes no"),
        ("unix:", "needs a path"),
        ("unix:/x:mode=9", "mode is no number"),
        ("tls:1:backlog=x", "backlog is no number"),
        ("tcp:8081", "without TLS"),
        ("tcp:8081:interface=0.0.0.0", "without TLS"),
        ("tcp:8081:interface=192.0.2.1", "without TLS"),
        ("tcp:8081:interface=example.org", "without TLS"),
        ("tcp6:8081", "without TLS"),
    ],
)
def test_what_is_refused_and_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(text)


@pytest.mark.e2e
def test_it_listens_everywhere_it_is_told_and_nowhere_else(
    tmp_path: Path, pems: Path
) -> None:
    state = make_state(
        tmp_path, certificate=str(pems / "a.pem"), key=str(pems / "a.key")
    )
    plain, secure, proxied = free_port(), free_port(), free_port()
    path = tmp_path / "http.sock"
    # A socket that a killed process left.
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    listen = [
        f"--listen=tcp:{plain}:interface=127.0.0.1",
        f"--listen=tls:{secure}:interface=127.0.0.1",
        f"--listen=unix:{path}",
        f"--listen=haproxy:tcp:{proxied}:interface=127.0.0.1",
    ]
    with twistd(tmp_path, "aotx-gateway", "--state", state, *listen) as process:
        process.wait_for("listening on")
        line = next(each for each in process.lines("info") if "listening" in each)
        assert line == (
            f"listening on http://127.0.0.1:{plain}, https://127.0.0.1:{secure}, "
            f"unix:{path}, http://127.0.0.1:{proxied} (PROXY header)"
        )
        assert asked(tcp(plain)).endswith(OK)
        context = ssl.create_default_context(cafile=pems / "a.pem")
        with context.wrap_socket(tcp(secure), server_hostname="127.0.0.1") as client:
            assert asked(client).endswith(OK)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            assert asked(client).endswith(OK)
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        header = b"PROXY TCP4 198.51.100.7 127.0.0.1 4321 80\r\n"
        assert asked(tcp(proxied), header + HEALTH).endswith(OK)
        port = edit(state / "gateway.json")["port"]
        with pytest.raises(ConnectionRefusedError):
            tcp(port)

        process.signal(signal.SIGTERM)
        assert process.code() == 0, process
    assert not path.exists()


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("listen", "code", "reason"),
    [
        ("tcp:8081", 2, "--listen tcp:8081: others than this machine"),
        ("tls:0", 1, "--listen tls:0: tls: needs certificate and key"),
        ("systemd:domain=INET:index=0", 1, "systemd handed over no such socket"),
    ],
)
def test_what_cannot_be_is_a_line(
    tmp_path: Path, listen: str, code: int, reason: str
) -> None:
    state = make_state(tmp_path)
    with twistd(
        tmp_path, "aotx-gateway", "--state", state, "--listen", listen
    ) as process:
        assert process.code() == code, process
        assert reason in process.text()


@pytest.mark.e2e
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_socket_of_systemd(tmp_path: Path, host: str) -> None:
    """
    Where it listens is only seen when it does: open to others, it is refused then.
    """
    state = make_state(tmp_path)
    log = tmp_path / "out.log"
    run = "from twisted.scripts.twistd import run; run()"
    words = ["-n", "--pidfile=", "aotx-gateway", "--state", str(state)]
    words += ["--listen", "systemd:domain=INET:index=0"]
    with socket.socket() as listening, log.open("wb") as output:
        listening.bind((host, 0))
        listening.listen()
        port = listening.getsockname()[1]
        script = 'export LISTEN_PID=$$; exec "$@" 3<&"$FROM"'
        given = {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "http"}
        popen = subprocess.Popen(
            ["bash", "-c", script, "x", sys.executable, "-c", run, *words],
            env={**environment(), **given, "FROM": str(listening.fileno())},
            pass_fds=[listening.fileno()],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=tmp_path,
        )
        try:
            if host == "0.0.0.0":
                assert popen.wait(PATIENCE) == 1, log.read_text()
                assert "without TLS" in log.read_text()
                return
            assert asked(tcp(port)).endswith(OK)
            popen.send_signal(signal.SIGTERM)
            assert popen.wait(PATIENCE) == 0, log.read_text()
        finally:
            popen.kill()
            popen.wait()


@pytest.mark.e2e
def test_a_reload_renews_the_certificate_and_drops_nobody(
    tmp_path: Path, pems: Path
) -> None:
    """
    http.md §10: SIGHUP; a connection that is open keeps what it has.
    """
    certificate, key = tmp_path / "it.pem", tmp_path / "it.key"

    def take(letter: str) -> None:
        certificate.write_bytes((pems / f"{letter}.pem").read_bytes())
        key.write_bytes((pems / f"{letter}.key").read_bytes())

    take("a")
    state = make_state(tmp_path, certificate=str(certificate), key=str(key))
    port = edit(state / "gateway.json")["port"]
    first = ssl.create_default_context(cafile=pems / "a.pem")
    second = ssl.create_default_context(cafile=pems / "b.pem")
    with twistd(tmp_path, "aotx-gateway", "--state", state) as process:
        process.wait_for("listening on")
        kept = first.wrap_socket(tcp(port), server_hostname="127.0.0.1")
        take("b")
        process.signal(signal.SIGHUP)
        process.wait_for("reloaded: ")

        with second.wrap_socket(tcp(port), server_hostname="127.0.0.1") as client:
            assert asked(client).endswith(OK)
        with pytest.raises(ssl.SSLError):
            first.wrap_socket(tcp(port), server_hostname="127.0.0.1")
        assert asked(kept).endswith(OK)

        # What is no certificate changes nothing.
        certificate.write_text("nothing")
        process.signal(signal.SIGHUP)
        process.wait_for("certificate: ")
        url = f"https://127.0.0.1:{port}/healthz"
        with urllib.request.urlopen(url, timeout=PATIENCE, context=second) as answer:
            assert answer.read() == OK
        process.signal(signal.SIGTERM)
        assert process.code() == 0
    assert os.path.exists(key)
