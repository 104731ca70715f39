"""
Rows of figures, and what makes them comparable: ratios between rows of one run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import attrs


@attrs.frozen
class Samples:
    """
    Seconds that something took, once per sample.
    """

    seconds: list[float]

    def quantile(self, part: float) -> float:
        """The sample that *part* (0..1) of all are below."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]

    @property
    def p50(self) -> float:
        """The median."""
        return self.quantile(0.5)

    @property
    def p99(self) -> float:
        """What one in a hundred exceeds."""
        return self.quantile(0.99)


@attrs.frozen
class Row:
    """
    One figure. *value* is in *unit*; *base* is the row that `ratio` compares it with.
    """

    what: str
    value: float
    unit: str
    note: str = ""
    base: Row | None = None

    @property
    def ratio(self) -> str:
        """How many times the base row's value."""
        if self.base is None:
            return ""
        return f"{self.value / self.base.value:.2f} × {self.base.what}"

    @classmethod
    def timed(cls, what: str, samples: Samples, base: Row | None = None) -> Row:
        """Microseconds: the median, and the 99th percentile as a note."""
        note = f"p99 {figure(samples.p99 * 1e6)}, {len(samples.seconds)} samples"
        return cls(what, samples.p50 * 1e6, "µs", note, base)


def figure(value: float) -> str:
    """Three significant digits; all of them in front of the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def show(title: str, rows: Sequence[Row]) -> None:
    """A table in Markdown, to standard output."""
    cells = [("", "", "", "ratio")]
    cells.extend(
        (row.what, f"{figure(row.value)} {row.unit}", row.note, row.ratio)
        for row in rows
    )
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    lines = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    sys.stdout.write(f"\n## {title}\n\n" + "\n".join(lines) + "\n")
    sys.stdout.flush()
