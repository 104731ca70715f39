"""
An nginx in front of something.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import free_port


@contextmanager
def nginx(folder: Path, location: str) -> Iterator[int]:
    """
    A server with *location* in it, and otherwise as it comes; its port.
    """
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
        "events {}\nhttp {\n"
        + "".join(
            f"{name}_temp_path {folder}/{name};\n"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        + f"access_log off;\nserver {{\nlisten 127.0.0.1:{port};\n{location}\n}}\n}}\n"
    )
    process = subprocess.Popen(
        ["nginx", "-p", str(folder), "-c", str(config)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 10
        while True:
            assert process.poll() is None, (folder / "error.log").read_text()
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.wait()
