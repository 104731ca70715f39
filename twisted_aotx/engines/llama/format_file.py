"""
A message format out of a file, for models whose chat template is not made of spans.

The option `format` names it. It is a JSON object with the seven spans that every format
has, as strings, and three keys that may be left out:

    {
        "system_head": "<s>[SYSTEM]", "system_tail": "[/SYSTEM]",
        "user_head": "[INST]", "user_tail": "[/INST]",
        "assistant_head": "", "assistant_tail": "</s>",
        "generation_head": "",
        "think_open": "", "think_close": "",
        "prefix_bytes": 3
    }

`prefix_bytes` counts the leading bytes of `system_head` that stand once at the start of
every prompt, also without a system message. docs/models.md tells how to write one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import attrs

from twisted_aotx import strictjson
from twisted_aotx.errors import ConfigError
from twisted_aotx.interfaces import MessageFormat
from twisted_aotx.limits import SPAN_BYTES_MAX
from twisted_aotx.strictjson import StrictJSONError

#: Bytes of the file; nine spans of escaped characters are shorter.
FILE_BYTES_MAX: Final = 65536
#: The option that names the file, and the path of every error.
OPTION: Final = "format"

_REQUIRED: Final = (
    "system_head",
    "system_tail",
    "user_head",
    "user_tail",
    "assistant_head",
    "assistant_tail",
    "generation_head",
)
_SPANS: Final = (*_REQUIRED, "think_open", "think_close")


def read_format(path: Path) -> MessageFormat:
    """
    The format that the file at *path* holds.

    Raises:
        ConfigError: it cannot be read or used.
    """
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(OPTION, f"{path}: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(OPTION, f"{path}: has more than {FILE_BYTES_MAX} bytes")
    try:
        values = strictjson.loads(data)
    except StrictJSONError as error:
        raise ConfigError(OPTION, f"{path}: {error}") from None
    try:
        return _format(values)
    except ValueError as error:
        raise ConfigError(OPTION, f"{path}: {error}") from None


def _format(values: dict[str, Any]) -> MessageFormat:
    known = [field.name for field in attrs.fields(MessageFormat)]
    for name in values:
        if name not in known:
            raise ValueError(f"unknown key {name!a}; known: {', '.join(known)}")
    for name in _REQUIRED:
        if name not in values:
            raise ValueError(f"lacks {name}, which may be empty but not left out")
    spans = {name: _span(name, values[name]) for name in _SPANS if name in values}
    prefix_bytes = values.get("prefix_bytes", 0)
    most = len(spans["system_head"])
    if type(prefix_bytes) is not int or not 0 <= prefix_bytes <= most:
        raise ValueError(
            f"prefix_bytes must be an integer from 0 to {most}, the bytes of "
            "system_head"
        )
    return MessageFormat(**spans, prefix_bytes=prefix_bytes)


def _span(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string")
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} holds half of a surrogate pair") from None
    if len(data) > SPAN_BYTES_MAX:
        raise ValueError(f"{name} has {len(data)} bytes, more than {SPAN_BYTES_MAX}")
    return data
