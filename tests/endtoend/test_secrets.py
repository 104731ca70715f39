"""
A whole service with planted secrets: log of every level, command lines, names and
environments of its processes and threads, metrics, answers and files.
"""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

import pytest

from tests.access.hunter import Catch, Hunter
from tests.access.planting import (
    ANSWERED,
    MEDIA,
    OUTPUT,
    PROMPT,
    SECRETS,
    SENT,
    UNKNOWN_TOKEN,
    chat,
    planted_jpeg,
    planted_wav,
)
from tests.endtoend.conftest import Service, set_engine
from tests.processes import COMPILE_PATIENCE, PATIENCE, edit, make_state, twistd

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: Files that hold what they are for, by what each may hold.
KEPT: Final = {
    "token": {"token"},
    "gateway.json": {"digest of token"},
    "runtime.json": {"output"},
    "state.sqlite3": {"media"},
    "state.sqlite3-wal": {"media"},
}


def ask(
    service: Service,
    catch: Catch,
    path: str,
    body: Any = None,
    *,
    data: bytes | None = None,
    kind: str = "application/json",
    token: str | None = None,
) -> int:
    """One request; its status. Its answer is looked at."""
    sent = json.dumps(body).encode() if body is not None else data
    headers = {"Authorization": f"Bearer {token or service.token}"}
    if sent is not None:
        headers["Content-Type"] = kind
    request = urllib.request.Request(service.url + path, sent, headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            status, text, found = answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        status, text, found = error.code, error.read(), error.headers
    shown = text.decode("latin-1") + str(found)
    catch.look("answer", path, shown, ANSWERED if status < 300 else ())
    return int(status)


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for one in found:
        for file in Path(f"/proc/{one}/task").glob("*/children"):
            found += map(int, file.read_text().split())
    return found


def look_at_processes(catch: Catch, pid: int) -> None:
    """Command lines, environments and the names of threads."""
    for one in family(pid):
        folder = Path(f"/proc/{one}")
        files = [folder / "cmdline", folder / "environ", *folder.glob("task/*/comm")]
        for file in files:
            catch.look("process", file.name, file.read_bytes().decode("latin-1"))


def test_a_whole_service(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    set_engine(state, text=OUTPUT, modalities=["image", "audio"])
    edit(state / "gateway.json", http={"access_log": "access.log"})
    token = (state / "token").read_text().strip()
    (digest,) = json.loads((state / "gateway.json").read_text())["principals"][0][
        "token_sha256"
    ]
    own: dict[str, str | bytes] = {
        "token": token,
        "digest of token": bytes.fromhex(digest),
    }
    catch = Catch(Hunter(SECRETS | own))
    words = "aotx", "--state", state, "--log-level=debug", "--log-format=json"
    with twistd(tmp_path, *words) as process:
        process.wait_for('"message":"ready: http', COMPILE_PATIENCE)
        service = Service(process, state)
        model = {"model": "reference"}
        for fields in ({}, {"stream": True}, {"user": SENT}):
            body = chat(PROMPT, **fields) | model
            assert ask(service, catch, "/v1/chat/completions", body) == 200
        assert ask(service, catch, "/aotx/v1/requests", chat() | model) == 202
        for data, kind in (
            (planted_wav(), "audio/wav"),
            (planted_jpeg(), "image/jpeg"),
        ):
            status = ask(service, catch, "/aotx/v1/media", data=data, kind=kind)
            assert status == 201
        for data, kind in (
            (MEDIA.encode(), "audio/wav"),
            (planted_jpeg()[:-2], "image/jpeg"),
            (MEDIA.encode(), SENT),
        ):
            status = ask(service, catch, "/aotx/v1/media", data=data, kind=kind)
            assert 400 <= status < 500
        assert ask(service, catch, "/v1/models", token=UNKNOWN_TOKEN) == 401
        assert ask(service, catch, f"/v1/models?token={token}") == 400
        assert ask(service, catch, f"/{SENT}") == 404
        assert ask(service, catch, "/v1/chat/completions", data=PROMPT.encode()) == 400
        assert ask(service, catch, "/v1/chat/completions", {SENT: PROMPT}) == 400
        assert ask(service, catch, "/metrics") == 200
        look_at_processes(catch, process.popen.pid)
        process.signal(signal.SIGTERM)
        assert process.code() == 0, process
        catch.look("log", "whole", process.text())
    for file in state.iterdir():
        if file.is_file():
            text = file.read_bytes().decode("latin-1")
            catch.look("file", file.name, text, KEPT.get(file.name, ()))
    # What is kept is found where it is kept, so the hunter knows it.
    hunter = catch.hunter
    for name, kept in (("token", "token"), ("state.sqlite3", "media")):
        found = hunter.in_bytes((state / name).read_bytes())
        assert {one.partition(" (")[0] for one in found} == {kept}
    assert catch.seen["file"] > 5
    assert len(process.text().splitlines()) > 10
    catch.assert_nothing()
