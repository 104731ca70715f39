"""
From a clone to a real model's answers with one command, as the README tells.

Everything comes from the index that pip is configured for, in an environment of its
own; only the model itself is taken from the tests' cache when it is there.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.endtoend.checkout import PRINTED, bin_run, copy_checkout, is_taken
from tests.real_model import smollm2
from tests.sources import ROOT
from tests.test_docs import blocks_of

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.model,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(is_taken(8081), reason="something listens on port 8081"),
]

#: Seconds for installing, compiling and loading.
PATIENCE = 600.0
MESSAGES: list[ChatCompletionMessageParam] = [
    {"role": "system", "content": "You are brief."},
    {"role": "user", "content": "Tell me a story."},
]


def need_an_index(folder: Path) -> None:
    """Skip if pip can get nothing."""
    words = ["download", "--no-deps", "--quiet", "--dest", str(folder), "attrs"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode != 0:
        pytest.skip(f"the index is out of reach: {done.stderr[-200:]}")


def words(text: str) -> int:
    """English-looking words; nothing is asked of what they say."""
    return len(re.findall(r"\b[A-Za-z][a-z]+\b", text))


def block(language: str, containing: str) -> str:
    (found,) = [
        each for each in blocks_of(ROOT / "README.md", language) if containing in each
    ]
    return found


def run(clone: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=clone, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_clone_serves_a_real_model(tmp_path: Path) -> None:
    need_an_index(tmp_path / "probe")
    clone = copy_checkout(tmp_path)
    (clone / "cache/aotx").mkdir(parents=True)
    (clone / "cache/aotx/models").symlink_to(smollm2().parent)

    with bin_run(clone) as process:
        process.wait_for(PRINTED, PATIENCE)
        text = process.text()
        for step in ("making .venv", "installing", "fetching", "compiling kernels"):
            assert step in text, text
        check_curl(clone, text)
        check_readme(clone)
        check_sdk((clone / "var/token").read_text().strip())
        process.signal(signal.SIGINT)
        assert process.code() == 0, process

    with bin_run(clone) as process:
        process.wait_for(PRINTED)
        text = process.text()
        assert "using var/ as it is, its engine is llama" in text
        for step in ("making", "installing", "fetching", "compiling kernels"):
            assert step not in text, text
        process.signal(signal.SIGINT)
        assert process.code() == 0, process


def check_curl(clone: Path, text: str) -> None:
    """The command that bin/run prints, and the README's."""
    if shutil.which("curl") is None:
        return
    printed = "curl" + text.partition("\ncurl")[2].partition("\n\n")[0]
    for command in (printed, block("sh", "curl")):
        answer = json.loads(run(clone, "sh", "-c", command))
        assert answer["model"] == "smollm2"
        assert words(answer["choices"][0]["message"]["content"]), answer
        assert answer["usage"]["completion_tokens"] <= 64


def check_readme(clone: Path) -> None:
    """The README's Python, as it stands."""
    first, *text, last = run(
        clone, sys.executable, "-c", block("python", "OpenAI")
    ).splitlines()
    assert first == "['smollm2']"
    assert words(" ".join(text)), text
    assert re.fullmatch(r"\d+ tokens", last)


def check_sdk(token: str) -> None:
    """Models, an answer, the same as a stream, usage."""
    client = OpenAI(base_url="http://127.0.0.1:8081/v1", api_key=token, max_retries=0)
    assert [model.id for model in client.models.list()] == ["smollm2"]
    whole = client.chat.completions.create(
        model="smollm2", messages=MESSAGES, max_tokens=40, temperature=0
    )
    chunks = list(
        client.chat.completions.create(
            model="smollm2",
            messages=MESSAGES,
            max_tokens=40,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )

    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    # What is sampled may end after a word; the likeliest answer is a story.
    assert words(text) >= 10, text
    assert text == whole.choices[0].message.content
    assert whole.usage is not None
    assert chunks[-1].usage == whole.usage
    # ChatML around two short messages, in this vocabulary.
    assert whole.usage.prompt_tokens == 23
    assert 1 <= whole.usage.completion_tokens <= 40
