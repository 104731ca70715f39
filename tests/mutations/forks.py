"""
Runs pytest many times: what all runs need is imported once, and each run is a fork.

`python -m tests.mutations.forks` in a copy of the tree reads requests from its input,
one JSON object a line, and answers each with a line: the exit code, or `null` if the
run was ended because it took too long.

| field | |
|---|---|
| arguments | pytest's |
| environment | what is set |
| cpu_seconds, wall_seconds | after which it is ended |
| output | the file that its output goes to |
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from typing import Any, Final

import pytest

#: Modules of others that most runs import; none that makes a reactor or a thread.
_PRELOADED: Final = (
    *("numba", "numba.extending", "numpy", "hypothesis.stateful", "attrs", "sqlite3"),
    *("twisted.application.service", "twisted.internet.defer", "twisted.logger"),
    *("twisted.internet.task", "twisted.internet.endpoints", "twisted.web.resource"),
    *("twisted.internet.protocol", "twisted.trial.unittest", "prometheus_client"),
    *("zope.interface", "greenlet", "PIL.Image", "coverage", "_pytest.junitxml"),
)
#: Seconds between two looks at a run.
_LOOK_SECONDS: Final = 0.02


def _run(request: dict[str, Any]) -> None:
    """In the fork: run pytest and end."""
    os.setsid()
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    limit = int(request["cpu_seconds"]) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    os.environ.update(request["environment"])
    importlib.invalidate_caches()
    code = pytest.main(request["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(code))


def _outcome(child: int, wall_seconds: float) -> int | None:
    """Wait for the fork *child*."""
    ends = time.monotonic() + wall_seconds
    try:
        while time.monotonic() < ends:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                # The limit of processor time kills.
                return None if code == -signal.SIGKILL else code
            time.sleep(_LOOK_SECONDS)
        return None
    finally:
        # And whatever its tests have left behind.
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def main() -> None:
    for name in _PRELOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(request)
        sys.stdout.write(json.dumps(_outcome(child, request["wall_seconds"])) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
