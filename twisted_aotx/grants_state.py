"""
`grants.state`: what a running runtime says of its grants, for `aotx grants --reload`.

A file in the state directory, replaced whole with every reload and removed at the end:
one JSON object, of marks and reasons only. Nobody but the user of the runtime reads or
writes it. Layer 5.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import attrs

from twisted_aotx import strictjson
from twisted_aotx.config.files import file_error, read_trusted, replace_file
from twisted_aotx.errors import ConfigErrors

NAME: Final = "grants.state"
#: Bytes of the file, at most, and of the reasons in it.
_BYTES_MAX: Final = 65536
_REASONS_MAX: Final = 32
_REASON_CHARACTERS_MAX: Final = 400

_REVISION: Final = re.compile(r"[1-9][0-9]{0,19}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@attrs.frozen(kw_only=True)
class GrantsState:
    """
    How the last reload ended. `judged` tells whose file that was: it may have been one
    that was replaced meanwhile.
    """

    #: The runtime's process, as in `service.lock`.
    pid: int
    #: The file that a reload reads.
    grants: Path
    #: Reloads that have ended since the runtime started.
    reloads: int
    #: What is in force: the table's revision and the SHA-256 of its file.
    revision: int
    digest: bytes
    #: SHA-256 of the file that the last reload handed to the device, or found in force;
    #: None when it came to neither.
    judged: bytes | None = None
    #: Why something goes on as before.
    reasons: tuple[str, ...] = ()

    def write(self, directory: Path) -> None:
        """
        Replace the file in *directory*, so that a reader sees the old or the new.

        Raises:
            OSError: the file is as it was.
        """
        reasons = [text[:_REASON_CHARACTERS_MAX] for text in self.reasons]
        value = {
            "pid": self.pid,
            "grants": str(self.grants),
            "reloads": self.reloads,
            "revision": str(self.revision),
            "sha256": self.digest.hex(),
            "judged_sha256": None if self.judged is None else self.judged.hex(),
            "reasons": reasons[:_REASONS_MAX],
        }
        replace_file(directory / NAME, strictjson.dumps(value) + b"\n")

    @classmethod
    def read(cls, directory: Path) -> GrantsState | None:
        """
        What the file in *directory* says; None when there is none.

        Raises:
            ConfigErrors: the file cannot be trusted, or says something else.
        """
        path = directory / NAME
        if not path.exists():
            return None
        try:
            return _parsed(strictjson.loads(read_trusted(path, _BYTES_MAX)))
        except (strictjson.StrictJSONError, KeyError, TypeError):
            raise file_error(f"{path} was not written by a runtime") from None
        except ConfigErrors as errors:
            reasons = "; ".join(error.reason for error in errors.errors)
            raise file_error(f"{path} {reasons}") from None

    @staticmethod
    def remove(directory: Path) -> None:
        """
        The runtime of *directory* has ended.
        """
        (directory / NAME).unlink(missing_ok=True)


def _parsed(value: dict[str, Any]) -> GrantsState:
    judged = value["judged_sha256"]
    return GrantsState(
        pid=_count(value["pid"]),
        grants=Path(_text(value["grants"])),
        reloads=_count(value["reloads"]),
        revision=int(_matching(_REVISION, value["revision"])),
        digest=bytes.fromhex(_matching(_DIGEST, value["sha256"])),
        judged=None if judged is None else bytes.fromhex(_matching(_DIGEST, judged)),
        reasons=tuple(map(_text, value["reasons"])),
    )


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _matching(pattern: re.Pattern[str], value: object) -> str:
    text = _text(value)
    if not pattern.fullmatch(text):
        raise TypeError
    return text
