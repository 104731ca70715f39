"""
The process that decodes images, beside a real runtime (D12).
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from tests.endtoend.conftest import GATEWAY_READY, Service, set_engine
from tests.endtoend.test_media import jpeg, remove, upload
from tests.processes import COMPILE_PATIENCE, make_state, twistd
from tests.runtime.decoders import Watched
from twisted_aotx.runtime.decoder_process import PROGRAM

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def decoders_of(runtime: int) -> list[int]:
    """The processes that a runtime decodes with."""
    children = psutil.Process(runtime).children()
    return [each.pid for each in children if PROGRAM in each.cmdline()]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_decoder_comes_with_the_first_image_and_goes_with_the_runtime(
    tmp_path: Path, end: signal.Signals
) -> None:
    """One that dies meanwhile costs no upload and disturbs nobody."""
    state = make_state(tmp_path)
    set_engine(state, modalities=["image"])
    with twistd(tmp_path, "aotx", "--state", state) as process:
        process.wait_for(GATEWAY_READY, COMPILE_PATIENCE)
        service = Service(process, state)
        runtime = process.popen.pid
        assert decoders_of(runtime) == []

        for red in (1, 2):
            answer = upload(service, jpeg(red))
            assert answer.status == 201, answer.body
            assert remove(service, answer.body["id"]).status == 204
        (first,) = decoders_of(runtime)
        gone = Watched.of(first)
        os.kill(first, signal.SIGKILL)
        assert gone.ends()
        assert upload(service, jpeg(3)).status == 201
        (second,) = decoders_of(runtime)
        last = Watched.of(second)

        process.signal(end)

        assert last.ends()
        assert process.code() == (0 if end == signal.SIGTERM else -end)
        # A busy machine may have more to warn of.
        lines = [line for line in process.lines("warn") if "decoder" in line]
        assert lines == ["an image decoder was lost: signal 9 ended it"]
