"""
`bin/bench [PART …]`: measures and prints; PART is a key of `PARTS`.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable

import click

from benchmarks import broker, card, device, edge, front, gateway, llama, media
from benchmarks.table import Row, show

#: Part → what measures it and makes tables by title.
PARTS: dict[str, Callable[[], dict[str, list[Row]]]] = {
    "device": device.measure,
    "broker": broker.measure,
    "gateway": gateway.measure,
    "edge": edge.measure,
    "front": front.measure,
    "media": media.measure,
    "card": card.measure,
    "llama": llama.measure,
}
#: What is measured when nothing is named: all that needs neither card nor model.
DEFAULT = ("device", "broker", "gateway", "edge", "front", "media")


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(tuple(PARTS)))
def main(parts: tuple[str, ...]) -> None:
    """Measure the named parts, or all but card and llama. Takes a few minutes."""
    load = os.getloadavg()[0]
    sys.stdout.write(
        f"# Benchmarks\n\nPython {platform.python_version()}, {os.cpu_count()} cores, "
        f"load {load:.1f} at the start. Ratios are the signal; single figures are this "
        "machine's.\n"
    )
    for part in parts or DEFAULT:
        for title, rows in PARTS[part]().items():
            show(title, rows)


main()
