"""
The log of a process: where, how much, in which form.
"""

from __future__ import annotations

import io
import json
import signal
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import ILogObserver, Logger

from tests.processes import PATIENCE, address, make_state, twistd
from twisted_aotx.logs import LEVELS, log_observer

TWISTD = {"syslog": False, "logger": None, "logfile": None, "nodaemon": True}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def said(observer: ILogObserver | None) -> None:
    assert observer is not None
    log = Logger("aotx.test", observer=observer)
    for level in LEVELS:
        getattr(log, level)("a {thing}", thing=level)


@pytest.mark.parametrize("number", range(len(LEVELS)))
def test_a_level_leaves_out_what_is_less(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    said(log_observer(TWISTD, level=LEVELS[number], style="json"))

    lines = [json.loads(line) for line in file.getvalue().splitlines()]

    assert [line["level"] for line in lines] == list(LEVELS[number:])
    assert {line["logger"] for line in lines} == {"aotx.test"}
    assert lines[-1]["message"] == "a critical"


@pytest.mark.parametrize(
    ("out", "style", "is_json"),
    [
        (Terminal, "auto", False),
        (io.StringIO, "auto", True),
        (Terminal, "json", True),
        (io.StringIO, "text", False),
    ],
)
def test_text_on_a_terminal_and_json_elsewhere(
    monkeypatch: pytest.MonkeyPatch, out: type[io.StringIO], style: str, is_json: bool
) -> None:
    file = out()
    monkeypatch.setattr(sys, "stdout", file)
    said(log_observer(TWISTD, level="warn", style=style))

    first = file.getvalue().splitlines()[0]

    assert first.startswith("{") is is_json
    assert ("[aotx.test#warn] a warn" in first) is not is_json


def test_a_file_gets_json(tmp_path: Path) -> None:
    path = tmp_path / "log"
    options = TWISTD | {"logfile": str(path)}
    said(log_observer(options, level="error", style="auto"))

    assert [json.loads(line)["level"] for line in path.read_text().splitlines()] == [
        "error",
        "critical",
    ]


@pytest.mark.parametrize(
    "options",
    [{"syslog": True}, {"logger": "x.y"}, {"logfile": "-", "nodaemon": False}],
)
def test_what_twistd_decides_is_left_to_it(options: dict[str, Any]) -> None:
    assert log_observer(TWISTD | options, level="info", style="auto") is None


def answers(url: str) -> None:
    """
    Wait until the gateway at *url* answers.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=PATIENCE):
                return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.e2e
def test_a_process_logs_as_it_is_told(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    words = ("aotx-gateway", "--state", state)
    with twistd(tmp_path, *words, "--log-format=auto") as process:
        process.wait_for("listening on")
        process.signal(signal.SIGTERM)
        assert process.code() == 0
        lines = [json.loads(line) for line in process.text().splitlines()]
        assert {"level", "logger", "message", "time"} == set(lines[0])
        assert "SIGTERM: stopping" in [line["message"] for line in lines]
    with twistd(tmp_path, *words, "--log-level=error") as process:
        answers(address(state / "gateway.json"))
        process.signal(signal.SIGTERM)
        assert process.code() == 0
        assert process.text() == ""


@pytest.mark.e2e
@pytest.mark.parametrize("option", ["--log-level=loud", "--log-format=xml"])
def test_other_words_are_usage_errors(tmp_path: Path, option: str) -> None:
    state = make_state(tmp_path)
    with twistd(tmp_path, "aotx-gateway", "--state", state, option) as process:
        assert process.code() == 2
        assert "is one of" in process.text()
