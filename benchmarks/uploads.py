"""
Uploads through a gateway and to the plain handler, one at a time.
"""

from __future__ import annotations

import time
from typing import Any, Final

from benchmarks.gateway import Service
from benchmarks.http import Target, fetch
from tests.media_made import make_wav

MIB: Final = 1 << 20
MEDIA: Final = "/aotx/v1/media"
JPEG: Final = "image/jpeg"


def posting(
    address: tuple[str, int], body: bytes, kind: str = JPEG, *lines: str
) -> Target:
    """POST of *body* as it is, with header *lines*."""
    head = [f"POST {MEDIA} HTTP/1.1", f"Host: {address[0]}:{address[1]}", *lines]
    head += [f"Content-Type: {kind}", f"Content-Length: {len(body)}", "", ""]
    return Target(address, "\r\n".join(head).encode() + body)


def uploading(running: Service, body: bytes, kind: str) -> Target:
    """An upload of the first principal."""
    lines = [f"{name}: {value}" for name, value in running.headers.items()]
    return posting(running.address, body, kind, *lines)


def uploaded(target: Target) -> tuple[float, Any]:
    """Seconds until the source is ready, and its answer."""
    start = time.perf_counter()
    status, source = fetch(target)
    seconds = time.perf_counter() - start
    assert status == 201, source
    return seconds, source


def remove(running: Service, handle: str) -> None:
    """Make room for the next one."""
    asked = running.target(f"{MEDIA}/{handle}").data.replace(b"GET", b"DELETE", 1)
    with Target(running.address, asked).connect() as connection:
        assert b" 204 " in connection.recv(4096)


def hashed(address: tuple[str, int], body: bytes, digest: str) -> float:
    """Seconds that the plain handler takes."""
    target = posting(address, body)
    start = time.perf_counter()
    status, answer = fetch(target)
    seconds = time.perf_counter() - start
    assert (status, answer) == (200, digest)
    return seconds


def sound() -> bytes:
    """A WAV of 8 MiB."""
    made = make_wav((8 * MIB - 56) // 8, "float32", 48000, 2, fact=True)
    assert len(made) == 8 * MIB
    return made
