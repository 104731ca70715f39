"""
The planted faults: one line each that breaks a promise, and the test that tells.

`planted.toml` has a table `[[fault]]` for each:

| key | |
|---|---|
| name | what is broken |
| why | what would happen to a user |
| file | within the project |
| before, after | the line or lines, once in the file, and what they become |
| test | the pytest name of the one test that must fail |
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import attrs

from tests.sources import ROOT

PLANTED = Path(__file__).with_name("planted.toml")


class NotThere(Exception):
    """
    What a fault replaces is not in its file, or not once.
    """


@attrs.frozen(kw_only=True)
class Fault:
    """
    A row of `planted.toml`.
    """

    name: str
    why: str
    file: str
    before: str
    after: str
    test: str

    def plant(self, root: Path = ROOT) -> str:
        """
        The text of the file below *root* with the fault in it; nothing is written.

        Raises:
            NotThere: see there.
        """
        text = (root / self.file).read_text()
        count = text.count(self.before)
        if count != 1:
            raise NotThere(f"{self.name}: found {count} times in {self.file}")
        return text.replace(self.before, self.after)


def planted_faults() -> list[Fault]:
    """Every planted fault, in the order of the file."""
    rows = tomllib.loads(PLANTED.read_text())["fault"]
    # The quotes of a text stand on lines of their own.
    strip = ("before", "after")
    return [
        Fault(**{k: v.strip("\n") if k in strip else v for k, v in row.items()})
        for row in rows
    ]
