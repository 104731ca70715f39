"""
A chat template's message format, derived in a process that may not take for ever.

A template is a program out of a downloaded file: nested loops, and filters that fill
lists, can run for years or ask for all memory, and nothing inside an interpreter stops
them. So `message_format` runs in a process of its own, which the kernel ends when its
share of processor time is used up, and which gets no more memory than its share.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import lru_cache
from typing import Any, Final

import attrs

from twisted_aotx.engines.llama.chat_template import FormatError
from twisted_aotx.engines.llama.environment import child_environment
from twisted_aotx.engines.llama.message_format import Derived
from twisted_aotx.interfaces import MessageFormat

#: The process's program.
PROGRAM: Final = "twisted_aotx.engines.llama.template_child"
#: Seconds of processor time for all probe conversations; templates need milliseconds.
TEMPLATE_SECONDS: Final = 10.0
#: Bytes of address space of the process.
TEMPLATE_MEMORY_BYTES: Final = 1 << 30
#: Seconds after which nobody waits any more, however little the process got to run.
WAIT_SECONDS: Final = 300.0
#: Templates that are remembered: the models of one runtime, and some.
_REMEMBERED: Final = 8


@lru_cache(_REMEMBERED)
def run_template(
    template: str, *, bos: str = "", eos: str = "", seconds: float = TEMPLATE_SECONDS
) -> Derived:
    """
    What `message_format.derive_format` makes of *template*. Blocks.

    Args:
        template, bos, eos: As there.
        seconds: Of processor time that it may take.

    Raises:
        FormatError, ImportError: As there; also for a template that takes longer.
    """
    question = {
        "template": template,
        "bos": bos,
        "eos": eos,
        "seconds": seconds,
        "memory_bytes": TEMPLATE_MEMORY_BYTES,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", PROGRAM],
            input=json.dumps(question).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
            timeout=WAIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FormatError(f"it did not come to an end in {WAIT_SECONDS:g} s") from None
    except OSError as error:
        raise FormatError(f"no process can be started: {error.strerror}") from None
    if done.returncode == -signal.SIGPROF:
        raise FormatError(f"it takes more than {seconds:g} s to run")
    if done.returncode:
        raise FormatError(f"the process that runs it ended with {done.returncode}")
    return _derived(json.loads(done.stdout))


def _derived(answer: dict[str, Any]) -> Derived:
    if "missing" in answer:
        raise ImportError(answer["missing"], name=answer["missing"])
    if "fault" in answer:
        raise FormatError(answer["fault"])
    spans = {name: bytes.fromhex(text) for name, text in answer["spans"].items()}
    return Derived(
        MessageFormat(**spans, prefix_bytes=answer["prefix_bytes"]),
        answer["default_system"],
    )


def answer_of(derived: Derived) -> dict[str, Any]:
    """What the process writes for *derived*."""
    spans = attrs.asdict(derived.message_format)
    prefix_bytes = spans.pop("prefix_bytes")
    return {
        "spans": {name: span.hex() for name, span in spans.items()},
        "prefix_bytes": prefix_bytes,
        "default_system": derived.default_system,
    }
