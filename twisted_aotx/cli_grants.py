"""
`aotx grants`: write the grant table of a configuration, and have a runtime take it.

Parse, call, print, like `cli`, with its exit codes. A runtime is found by the lock of
its state directory, told by SIGHUP, and answers in `grants.state`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import signal
import time
from pathlib import Path
from typing import Final

import click

from twisted_aotx.cli_failures import fail, told
from twisted_aotx.config.files import file_error, replace_file
from twisted_aotx.config.gateway import load_gateway
from twisted_aotx.config.grants import grant_table
from twisted_aotx.grants_state import GrantsState
from twisted_aotx.limits import CONTROL_SECONDS
from twisted_aotx.wire.grants import GrantTable

_FILE: Final = click.Path(path_type=Path)
#: Seconds that a result is waited for: a control exchange that is under way, ours, and
#: what a gateway in the same process does.
_WAIT_SECONDS: Final = 2.0 * CONTROL_SECONDS + 10
_LOOK_SECONDS: Final = 0.02
_PID: Final = re.compile(rb"[1-9][0-9]{0,9}\n")


@click.command()
@click.option("--config", type=_FILE, help="A gateway.json.")
@click.option("--output", type=_FILE, help="The grant table to write.")
@click.option(
    "--reload",
    "state",
    metavar="STATE",
    type=_FILE,
    help="Write the table of the runtime that runs on the state directory STATE, have "
    "it reload, and wait for the result. --config is STATE/gateway.json by default.",
)
def grants(config: Path | None, output: Path | None, state: Path | None) -> None:
    """Write the grant table of a configuration, at once and durably."""
    if state is not None:
        if output is not None:
            raise click.UsageError(
                "--reload writes the runtime's own table: no --output"
            )
        _reload(config or state / "gateway.json", state)
        return
    if config is None or output is None:
        raise click.UsageError("--config and --output, or --reload, are needed")
    table = _table(config)
    with told(output):
        replace_file(output, table.pack())
    click.echo(f"{output}: revision {table.revision}, {len(table.rows)} principal(s)")


def _reload(config: Path, state: Path) -> None:
    table = _table(config)
    packet = table.pack()
    digest = hashlib.sha256(packet).digest()
    with told(state):
        before = _running(state)
        if table.revision <= before.revision and digest != before.digest:
            fail(
                f"{config}: revision: {table.revision} is not above "
                f"{before.revision}, which is in force; raise it"
            )
    with told(before.grants):
        replace_file(before.grants, packet)
    with told(state):
        os.kill(before.pid, signal.SIGHUP)
        after = _result(state, before, digest)
    if after.digest != digest:
        fail(
            *after.reasons,
            f"revision {after.revision} stays in force; {before.grants} holds what was "
            "refused, and a restart would read it",
        )
    click.echo(
        f"{before.grants}: revision {table.revision} is in force, "
        f"{len(table.rows)} principal(s)"
    )
    if after.reasons:
        fail(*after.reasons)


def _running(state: Path) -> GrantsState:
    """
    What the runtime of *state* says.

    Raises:
        ConfigErrors: none runs, or it has not said anything yet.
        OSError: it cannot be looked at.
    """
    pid = _holder(state / "service.lock")
    if pid is None:
        raise file_error("no runtime runs on this state directory")
    said = GrantsState.read(state)
    if said is None or said.pid != pid:
        raise file_error("the runtime has not started yet")
    return said


def _result(state: Path, before: GrantsState, digest: bytes) -> GrantsState:
    """
    How the reload that was asked for ended.

    Raises:
        ConfigErrors: the runtime has ended, or there is no result in time.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        after = _running(state)
        if after.pid != before.pid:
            raise file_error("the runtime was started anew meanwhile")
        # An earlier reload may end first: it judged another file.
        if after.reloads > before.reloads and after.judged in (digest, None):
            return after
        time.sleep(_LOOK_SECONDS)
    raise file_error(f"no result within {_WAIT_SECONDS:.0f} s; see the runtime's log")


def _holder(lock: Path) -> int | None:
    """
    The process that holds the lock file *lock*; None if none does.
    """
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        written = os.pread(descriptor, 16, 0)
        return int(written) if _PID.fullmatch(written) else None
    else:
        return None
    finally:
        os.close(descriptor)


def _table(config: Path) -> GrantTable:
    with told(config):
        file = load_gateway(config)
    for notice in file.notices:
        click.echo(f"{config}: warning: {notice}", err=True)
    return grant_table(file.settings)
