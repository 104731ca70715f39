"""
A message format out of a file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from twisted_aotx.engines.llama import format_file
from twisted_aotx.engines.llama.format_file import FILE_BYTES_MAX, read_format
from twisted_aotx.errors import ConfigError
from twisted_aotx.interfaces import MessageFormat
from twisted_aotx.limits import SPAN_BYTES_MAX

GOOD: dict[str, Any] = {
    "system_head": "<s>[SYSTEM]",
    "system_tail": "[/SYSTEM]",
    "user_head": "[INST]",
    "user_tail": "[/INST]",
    "assistant_head": "",
    "assistant_tail": "</s>",
    "generation_head": "ä\n",
    "prefix_bytes": 3,
}


def written(folder: Path, value: object) -> Path:
    path = folder / "format.json"
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def test_a_whole_file(tmp_path: Path) -> None:
    assert read_format(written(tmp_path, GOOD)) == MessageFormat(
        system_head=b"<s>[SYSTEM]",
        system_tail=b"[/SYSTEM]",
        user_head=b"[INST]",
        user_tail=b"[/INST]",
        assistant_head=b"",
        assistant_tail=b"</s>",
        generation_head="ä\n".encode(),
        prefix_bytes=3,
    )


def test_think_spans_may_be_there(tmp_path: Path) -> None:
    path = written(tmp_path, {**GOOD, "think_open": "<think>", "think_close": "x"})

    found = read_format(path)

    assert (found.think_open, found.think_close) == (b"<think>", b"x")


def test_the_example_of_the_module_is_one(tmp_path: Path) -> None:
    text = format_file.__doc__ or ""
    example = text[text.index("{") : text.index("}") + 1]

    assert read_format(written(tmp_path, example.encode())).prefix_bytes == 3


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({**GOOD, "systemhead": ""}, "unknown key 'systemhead'; known: system_head, "),
        ({k: GOOD[k] for k in GOOD if k != "user_tail"}, "lacks user_tail"),
        ({**GOOD, "user_tail": None}, "user_tail must be a string"),
        ({**GOOD, "user_tail": "\ud800"}, "surrogate"),
        ({**GOOD, "user_tail": "x" * (SPAN_BYTES_MAX + 1)}, "user_tail has 513 bytes"),
        ({**GOOD, "prefix_bytes": 12}, "prefix_bytes must be an integer from 0 to 11"),
        ({**GOOD, "prefix_bytes": -1}, "prefix_bytes must be"),
        ({**GOOD, "prefix_bytes": True}, "prefix_bytes must be"),
        ([], ""),
        (b"{", ""),
        (b'{"user_tail": "", "user_tail": ""}', "a key stands twice"),
        (b" " * (FILE_BYTES_MAX + 1), "more than 65536 bytes"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, value: object, reason: str) -> None:
    path = written(tmp_path, value)

    with pytest.raises(ConfigError) as caught:
        read_format(path)
    assert caught.value.path == "format"
    assert caught.value.reason.startswith(f"{path}: ")
    assert reason in caught.value.reason


def test_bounds_are_inclusive(tmp_path: Path) -> None:
    value = {**GOOD, "user_tail": "x" * SPAN_BYTES_MAX, "prefix_bytes": 11}
    data = json.dumps(value).encode()

    found = read_format(written(tmp_path, data.ljust(FILE_BYTES_MAX)))

    assert (len(found.user_tail), found.prefix_bytes) == (SPAN_BYTES_MAX, 11)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_format(tmp_path / "none")
