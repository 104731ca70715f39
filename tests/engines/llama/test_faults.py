"""
What ends the child unexpectedly is told without its words: its last line is logged.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.access.hunter import Hunter, planted
from tests.processes import PATIENCE, environment
from twisted_aotx.engines.llama.messages import Ping

PROMPT = planted("prompt")
#: A child whose model fails at a prompt, in the reader's thread or the main one.
CHILD = """
import os
from twisted_aotx.engines.llama import child

class Broken(child.Child):
    def {where}(self):
        said = os.environ["SAID"]
        try:
            {{}}[said]
        except KeyError:
            raise ValueError(f"cannot read {{said}}")

child.Child = Broken
child.main()
"""


@pytest.mark.parametrize("where", ["_serve", "_handle"])
def test_a_child_that_fails(where: str) -> None:
    run = CHILD.format(where=where)
    if where == "_handle":
        run = run.replace("(self)", "(self, message)")
    # Open to the end: a child whose input ends may leave before it fails.
    read, write = os.pipe()
    if where == "_handle":
        os.write(write, Ping(1).pack())
    try:
        done = subprocess.run(
            [sys.executable, "-c", run],
            stdin=read,
            env={**environment(), "SAID": PROMPT},
            capture_output=True,
            check=False,
            timeout=PATIENCE,
        )
    finally:
        os.close(read)
        os.close(write)
    told = done.stderr.decode()

    assert done.returncode == 1, told
    assert told.splitlines()[-1] == "ValueError"
    assert "Traceback" not in told
    assert f"in {where}" in told
    assert Hunter({"prompt": PROMPT}).find(told + done.stdout.decode()) == set()
