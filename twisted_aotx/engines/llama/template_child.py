"""
The process that runs one chat template: JSON in, JSON out (`template_run`).

Its limits hold for what comes from the file, so they are set when all else is loaded.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from typing import Any

from twisted_aotx.engines.llama.chat_template import FormatError
from twisted_aotx.engines.llama.message_format import derive_format
from twisted_aotx.engines.llama.template_run import answer_of


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """The answer to *question*, within the limits that it names."""
    # Whatever it has used up before counts as nothing; SIGPROF ends the process.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, question["seconds"])
    memory = question["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    try:
        return answer_of(
            derive_format(
                question["template"], bos=question["bos"], eos=question["eos"]
            )
        )
    except FormatError as error:
        return {"fault": str(error)}
    except MemoryError:
        return {"fault": f"it needs more than {memory} bytes"}
    except ImportError as error:
        return {"missing": error.name}


def main() -> None:
    """Answer the question on standard input."""
    json.dump(answer(json.load(sys.stdin.buffer)), sys.stdout)


if __name__ == "__main__":
    main()
