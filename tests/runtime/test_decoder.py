"""
The process that decodes images: what it finds, what it may take, how it is replaced
(`device.md` §13, D12).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from twisted.logger import LogLevel, capturedLogs, formatEvent

from tests.media_made import make_jpeg, pad_jpeg
from tests.processes import ROOT, environment
from tests.runtime.decoders import Watched, cut, job_of
from twisted_aotx.errors import SourceGone
from twisted_aotx.runtime import decoder_process
from twisted_aotx.runtime.decoder import Decoder, Share
from twisted_aotx.runtime.decoder_child import DECODING_NICENESS
from twisted_aotx.runtime.decoder_process import PIPE_BYTES
from twisted_aotx.runtime.decoding import (
    LINE_BYTES_MAX,
    PIECE_BYTES,
    Order,
    exception_name,
)

WIDTH, HEIGHT = 24, 16
SMALL = make_jpeg(WIDTH, HEIGHT)
#: More than a pipe holds.
GOOD = pad_jpeg(SMALL, PIPE_BYTES + 5 * PIECE_BYTES + 77)
#: Number of its last piece.
LAST = len(GOOD) // PIECE_BYTES
#: A progressive image takes most.
SIDE = 2048
LARGE = make_jpeg(SIDE, SIDE, sampling="4:4:4", progressive=True)
#: Four bytes of source each of which Pillow makes a hundred.
SEGMENTS = SMALL[:2] + b"\xff\xfe\x00\x02" * (1 << 20) + SMALL[2:]
#: For processes that do nothing any more.
HASTY = Share(image_seconds=0.2, wait_factor=1.0)


@pytest.fixture
def decoder() -> Iterator[Decoder]:
    decoder = Decoder()
    yield decoder
    decoder.close()


def decodes(
    decoder: Decoder, data: bytes = GOOD, width: int = WIDTH, height: int = HEIGHT
) -> bool:
    return decoder.decodes(job_of(data, width, height), cut(data))


def pid_of(decoder: Decoder) -> int:
    assert decoder.pid is not None
    return decoder.pid


def warnings(
    decoder: Decoder, pieces: Iterator[bytes], data: bytes = GOOD
) -> list[str]:
    """The lines that a refusal costs which is not the image's fault."""
    with capturedLogs() as events:
        assert not decoder.decodes(job_of(data, WIDTH, HEIGHT), pieces)
    return [
        formatEvent(event) for event in events if event["log_level"] != LogLevel.debug
    ]


def then(act: Callable[[], object], data: bytes, at: int) -> Iterator[bytes]:
    """The pieces of *data*, with something done before the one with number *at*."""
    for number, piece in enumerate(cut(data)):
        if number == at:
            act()
        yield piece


def test_one_process_decodes_one_image_after_another(decoder: Decoder) -> None:
    assert decoder.pid is None
    assert decodes(decoder, SMALL)
    first = decoder.pid

    answers = [
        decodes(decoder, GOOD),
        decodes(decoder, GOOD, WIDTH + 1),
        decodes(decoder, GOOD[:-40]),
        decodes(decoder, b"\xff"),
        decodes(decoder, LARGE, SIDE, SIDE),
        decodes(decoder, GOOD),
    ]

    assert answers == [True, False, False, False, True, True]
    assert decoder.pid == first


def test_the_name_of_what_pillow_raises_is_all_that_is_told(decoder: Decoder) -> None:
    with capturedLogs() as events:
        assert not decodes(decoder, b"\xff\xd8SECRET")

    (event,) = events
    assert event["log_level"] == LogLevel.debug
    assert formatEvent(event) == "an image was not decoded: SyntaxError"


# --- what is around it ----------------------------------------------------------------


def test_nothing_of_the_runtime_leaks_into_the_process(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOTX_SECRET", "SECRET")
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        assert decodes(decoder)
        proc = Path(f"/proc/{decoder.pid}")
        environ = (proc / "environ").read_bytes()
        links = {os.readlink(each) for each in (proc / "fd").iterdir()}
        assert os.readlink(f"/proc/self/fd/{writing}") not in links
    finally:
        os.close(reading)
        os.close(writing)

    names = {each.split(b"=")[0] for each in environ.split(b"\0") if each}
    assert b"PYTHONPATH" in names
    assert names <= {b"PYTHONPATH", b"LD_LIBRARY_PATH", b"PYTHONHOME"}
    assert len([link for link in links if link.startswith("pipe:")]) == 2
    assert links - {link for link in links if link.startswith("pipe:")} == {"/dev/null"}
    assert os.readlink(proc / "cwd") == "/"


def test_the_process_loads_nothing_of_the_runtime() -> None:
    """Neither its time to start nor its memory is for others' modules."""
    tell = "sys.stdout.write(' '.join(sys.modules))"
    program = f"import sys, {decoder_process.PROGRAM}; {tell}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env=decoder_process.decoder_environment(),
        stdout=subprocess.PIPE,
        check=True,
    )

    roots = {name.split(".")[0] for name in done.stdout.decode().split()}
    assert {"PIL", "twisted_aotx"} <= roots
    assert not roots & {"twisted", "attr", "attrs", "numpy", "numba"}


def test_the_package_is_found_whatever_the_folder(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where the import path has entries that name the folder."""
    monkeypatch.chdir(ROOT)
    ours = [path for path in sys.path if path and Path(path) != ROOT]
    monkeypatch.setattr(sys, "path", ["", ".", *ours])

    assert decodes(decoder)


def test_the_process_stands_back_and_leaves_no_file(decoder: Decoder) -> None:
    """On a machine with few cores a picture holds up nobody who answers requests."""
    ours = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert decodes(decoder)
    pid = pid_of(decoder)

    limits = Path(f"/proc/{pid}/limits").read_text()
    niceness = os.getpriority(os.PRIO_PROCESS, pid)
    assert niceness == min(19, ours + DECODING_NICENESS)
    assert re.search(r"^Max core file size +0 +0 ", limits, re.MULTILINE)
    assert re.search(r"^Max file size +0 +0 ", limits, re.MULTILINE)
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == ours


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_that_stop_a_service_are_the_runtimes(
    decoder: Decoder, number: signal.Signals
) -> None:
    assert decodes(decoder)
    pid = pid_of(decoder)
    os.kill(pid, number)

    assert decodes(decoder)
    assert decoder.pid == pid


#: A runtime, as far as its decoder is concerned.
_RUNTIME = """
import os, signal, sys
from tests.media_made import make_jpeg
from tests.runtime.decoders import cut, job_of
from twisted_aotx.runtime.decoder import Decoder
decoder, data = Decoder(), make_jpeg(24, 16)
assert decoder.decodes(job_of(data, 24, 16), cut(data))
sys.stdout.write(f"{decoder.pid}\\n")
sys.stdout.flush()
signal.pause()
"""


@pytest.mark.parametrize("is_stopped", [False, True])
def test_the_process_does_not_outlive_a_killed_runtime(is_stopped: bool) -> None:
    """By the end of its input; one that is stopped sees none."""
    with subprocess.Popen(
        [sys.executable, "-c", _RUNTIME], env=environment(), stdout=subprocess.PIPE
    ) as runtime:
        assert runtime.stdout is not None
        pid = int(runtime.stdout.readline())
        process = Watched.of(pid)
        if is_stopped:
            os.kill(pid, signal.SIGSTOP)
        runtime.kill()

    assert process.ends()


# --- what becomes of it ---------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1, LAST])
def test_a_process_that_dies_in_the_middle_is_replaced(
    decoder: Decoder, at: int
) -> None:
    assert decodes(decoder)
    pid = pid_of(decoder)
    pieces = then(lambda: os.kill(pid, signal.SIGKILL), GOOD, at)

    assert warnings(decoder, pieces) == [
        "an image decoder was lost: signal 9 ended it",
    ]
    assert decoder.pid is None
    assert decodes(decoder)
    assert decoder.pid != pid


def test_a_process_that_died_meanwhile_costs_no_image(decoder: Decoder) -> None:
    assert decodes(decoder)
    pid = pid_of(decoder)
    process = Watched.of(pid)
    os.kill(pid, signal.SIGKILL)
    assert process.ends()

    with capturedLogs() as events:
        assert decodes(decoder)

    assert [formatEvent(event) for event in events] == [
        "an image decoder was lost: signal 9 ended it"
    ]
    assert decoder.pid != pid


@pytest.mark.parametrize("at", [1, LAST])
def test_a_process_that_hangs_is_not_waited_for(decoder: Decoder, at: int) -> None:
    assert decodes(decoder)
    pid = pid_of(decoder)
    process = Watched.of(pid)
    pieces = then(lambda: os.kill(pid, signal.SIGSTOP), GOOD, at)
    patient, decoder._share = decoder._share, HASTY

    assert warnings(decoder, pieces) == [
        "an image decoder was lost: no answer within 0.2 s"
    ]
    assert process.ends()
    decoder._share = patient
    assert decodes(decoder)


def test_an_image_gets_no_more_processor_time_than_its_share() -> None:
    decoder = Decoder(Share(image_seconds=0.02, pixel_seconds=0.0, wait_factor=3000.0))
    job = job_of(LARGE, SIDE, SIDE)

    with capturedLogs() as events:
        assert not decoder.decodes(job, cut(LARGE))

    assert [formatEvent(event) for event in events] == [
        "an image decoder was lost: an image took more than its share of processor time"
    ]
    assert decodes(decoder, SMALL)
    decoder.close()


def test_an_image_gets_no_more_memory_than_its_share() -> None:
    decoder = Decoder(Share(image_bytes=1 << 20, pixel_bytes=2))
    assert decodes(decoder, SMALL)
    pid = decoder.pid

    with capturedLogs() as events:
        assert not decodes(decoder, LARGE, SIDE, SIDE)

    assert [formatEvent(event) for event in events] == [
        "an image was not decoded: MemoryError"
    ]
    assert decoder.pid is None, "what is left of it is not for others to miss"
    assert decodes(decoder, SMALL)
    assert decoder.pid != pid
    decoder.close()


def test_segments_that_fill_memory_are_refused(decoder: Decoder) -> None:
    with capturedLogs() as events:
        assert not decodes(decoder, SEGMENTS)

    assert [formatEvent(event) for event in events] == [
        "an image was not decoded: MemoryError"
    ]
    assert decodes(decoder)


def test_a_source_that_goes_in_the_middle_costs_nothing(decoder: Decoder) -> None:
    def pieces() -> Iterator[bytes]:
        yield GOOD[:PIECE_BYTES]
        raise SourceGone(3)

    assert decodes(decoder)
    pid = decoder.pid

    with capturedLogs() as events:
        for _ in range(3):
            with pytest.raises(SourceGone):
                decoder.decodes(job_of(GOOD, WIDTH, HEIGHT), pieces())
        assert decodes(decoder)

    assert events == []
    assert decoder.pid == pid


def test_an_error_in_the_middle_leaves_no_half_source(decoder: Decoder) -> None:
    def pieces() -> Iterator[bytes]:
        yield GOOD[:PIECE_BYTES]
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        decoder.decodes(job_of(GOOD, WIDTH, HEIGHT), pieces())

    assert decodes(decoder)


def test_a_kill_ends_an_image_under_way_without_a_word(decoder: Decoder) -> None:
    assert warnings(decoder, then(decoder.kill, GOOD, 0)) == []
    assert warnings(decoder, cut(GOOD)) == []


# --- odd processes --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("os.abort()", "signal 6 ended it"),
        ("sys.exit(3)", "it ended with 3"),
        ("os.closerange(0, 3); signal.pause()", "it closed its pipes"),
        ("os.write(1, b'two words\\n'); signal.pause()", "it spoke nonsense"),
        ("os.write(1, b'SECR\\xc9T\\n'); signal.pause()", "it spoke nonsense"),
        (f"os.write(1, b'a' * {LINE_BYTES_MAX + 1}); signal.pause()", "it spoke nons"),
    ],
)
def test_a_process_that_is_none_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, reason: str
) -> None:
    program = "import os, signal, sys\nsys.stdin.buffer.readline()\n"
    (tmp_path / "odd_decoder.py").write_text(f"{program}{does}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(decoder_process, "PROGRAM", "odd_decoder")
    monkeypatch.setattr("twisted_aotx.runtime.decoder.REAP_SECONDS", 0.2)
    decoder = Decoder()

    (line,) = warnings(decoder, cut(SMALL), SMALL)

    assert line.startswith(f"an image decoder was lost: {reason}")
    assert decoder.pid is None


def test_a_process_that_cannot_be_started(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(tmp_path / "none"))
        lines = warnings(decoder, cut(GOOD))

    reason = "it cannot be started: No such file or directory"
    assert lines == [f"an image decoder was lost: {reason}"]
    assert decodes(decoder)


# --- what passes between --------------------------------------------------------------


def test_an_order_fits_its_line() -> None:
    largest = Order(1 << 30, 65535, 65535, 1 << 40, 1 << 50)

    assert Order.unpack(largest.pack()) == largest
    assert len(largest.pack()) <= LINE_BYTES_MAX


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b"\n", ""),
        (b"OSError\n", "OSError"),
        (b"", None),
        (b"OSError", None),
        (b"OS Error\n", None),
        (b"OS\nError\n", None),
        (b"2\n", None),
        ("Fehlér\n".encode(), None),
    ],
)
def test_only_a_name_is_an_answer(line: bytes, name: str | None) -> None:
    assert exception_name(line) == name


def test_a_share_grows_with_the_image_and_its_source() -> None:
    share = Share()
    small, large = job_of(SMALL, 16, 16), job_of(bytes(1 << 20), 2048, 2048)

    assert share.seconds(large) - share.seconds(small) == pytest.approx(
        (2048 * 2048 - 256) * share.pixel_seconds
    )
    grown = share.memory_bytes(large) - share.memory_bytes(small)
    # What the largest progressive image takes: 10 bytes a pixel, and its source.
    assert grown > 10 * 2048 * 2048 + (1 << 20)
    assert grown < 13 * 2048 * 2048 + (5 << 20)
