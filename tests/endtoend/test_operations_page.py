"""
What docs/operations.md tells an operator to type, typed, against a real service.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.endtoend.calls import call
from tests.endtoend.conftest import GATEWAY_READY, Service
from tests.endtoend.test_pages import needs_curl, one_block, shell
from tests.processes import COMPILE_PATIENCE, edit, make_state, twistd
from tests.test_docs import DOCS

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PAGE = DOCS / "operations.md"
_RUN = "from twisted_aotx.cli import run; run(prog_name='aotx')"
#: aotx and python3 of the tests' environment.
COMMANDS = f'''
aotx() {{ {sys.executable} -c "{_RUN}" "$@"; }}
python3() {{ {sys.executable} "$@"; }}
'''
PROMPT = "Who has used how much?"


@contextmanager
def running(folder: Path) -> Iterator[Service]:
    """Both parts on the state directory in *folder*; they must end in order."""
    with twistd(folder, "aotx", "--state", folder / "var") as process:
        process.wait_for(GATEWAY_READY, COMPILE_PATIENCE)
        yield Service(process, folder / "var")
        process.signal(signal.SIGTERM)
        assert process.code() == 0, process
        assert process.lines("critical") == process.lines("error") == []


def typed_in(service: Service, script: str) -> str:
    return shell(service, COMMANDS + script)


def chat(service: Service) -> dict[str, int]:
    """The usage of a completion."""
    body = {
        "model": "reference",
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": 9,
    }
    answer = call(f"{service.url}/v1/chat/completions", service.headers, body)
    assert answer.status == 200, answer
    usage: dict[str, int] = answer.body["usage"]
    return usage


def used(service: Service) -> tuple[int, int, int]:
    """What `aotx usage` says of the only principal: requests and tokens."""
    (line,) = [
        each
        for each in one_block(PAGE, "sh", "aotx usage").splitlines()
        if "--json" in each
    ]
    rows = json.loads(typed_in(service, line))["data"]
    if not rows:
        return (0, 0, 0)
    (row,) = rows
    names = ("requests", "prompt_tokens", "completion_tokens")
    requests, prompt, completion = (int(row[name]) for name in names)
    return requests, prompt, completion


def policy(service: Service) -> dict[str, Any]:
    answer = call(f"{service.url}/aotx/v1/policy", service.headers)
    assert answer.status == 200
    state: dict[str, Any] = answer.body
    return state


def reviewed(service: Service) -> None:
    """Until nothing is pending: looking is no foreground work."""
    for _ in range(1000):
        if policy(service)["pending"] == 0:
            return
    pytest.fail("review is on and the device idle, but nothing is reviewed")


@needs_curl
def test_review_is_switched_and_usage_is_read(tmp_path: Path) -> None:
    """`Pause and resume review`, `Who used what`: every command of both."""
    make_state(tmp_path)
    script = one_block(PAGE, "sh", "change review_on")
    functions, _, steps = script.partition("change review_on")
    with running(tmp_path) as service:
        assert used(service) == (0, 0, 0)
        usage = chat(service)

        assert "Review is off" in typed_in(service, "aotx usage --state var")
        typed_in(service, f"{functions}change review_on")
        reviewed(service)

        once = (1, usage["prompt_tokens"], usage["completion_tokens"])
        assert used(service) == once
        told = [
            json.loads(line)
            for line in typed_in(service, f"{functions}change review_on{steps}")
            .replace("}{", "}\n{")
            .splitlines()
        ]
        assert [each["state"] for each in told] == [
            *("quiet", "paused", "quiet", "quiet", "quiet"),
        ]
        assert [each["review_enabled"] for each in told] == [True] * 3 + [False] * 2
        assert [each["control_revision"] for each in told] == [3, 4, 5, 6, 6]
        table = typed_in(service, one_block(PAGE, "sh", "aotx usage"))
        assert table.count("reference") >= 2


@needs_curl
def test_a_copy_is_restored_and_a_principal_revoked(tmp_path: Path) -> None:
    """
    `Back up and restore`: while it runs, and into a new state directory.
    `Revoke a principal`, with steps 3 and 4 above it.
    """
    make_state(tmp_path)
    functions, _, _ = one_block(PAGE, "sh", "change review_on").partition("change re")
    with running(tmp_path) as service:
        first = chat(service)
        typed_in(service, f"{functions}change review_on")
        reviewed(service)
        kept = used(service)
        assert kept == (1, first["prompt_tokens"], first["completion_tokens"])

        typed_in(service, one_block(PAGE, "sh", "mkdir backup"))

        names = {path.name for path in (tmp_path / "backup").iterdir()}
        assert names == {
            *("state.sqlite3", "gateway.json", "runtime.json", "grants", "token"),
            "epoch",
        }
        assert (tmp_path / "backup").stat().st_mode & 0o077 == 0
        # And what comes after the copy.
        chat(service)
    assert used(service)[0] == 2

    typed_in(service, one_block(PAGE, "sh", "var.old"))

    assert used(service) == kept
    with running(tmp_path) as service:
        state = policy(service)
        assert (state["epoch"], state["review_enabled"]) == (1002, True)
        chat(service)
        edit(service.state / "gateway.json", principals=[], revision="2")

        typed_in(service, one_block(PAGE, "sh", "aotx check --config var"))
        done = typed_in(service, one_block(PAGE, "sh", "aotx grants --reload"))

        assert "revision 2 is in force, 0 principal(s)" in done
        answer = call(f"{service.url}/v1/models", service.headers)
        assert answer.status == 401
    # What is in the ledger stays.
    assert used(service)[0] == 2
