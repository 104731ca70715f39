"""
What is known of the JPEG that each image worker is at: the columns `jp_*`, and what
the files of the walk share.
"""

from __future__ import annotations

from typing import Any, Final

from twisted_aotx.device.backend import dev, i64
from twisted_aotx.limits import Capacities
from twisted_aotx.wire.numbers import MediaStatus

REFUSED: Final = int(MediaStatus.JPEG)
NO_EXTENT: Final = int(MediaStatus.EXTENT)

#: `jp_phase`: what the next step looks at.
AT_START: Final = 0
AT_MARKER: Final = 1
AT_QUANTISER: Final = 2
AT_CODES: Final = 3
AT_DATA: Final = 4
DONE: Final = 5

#: Tables of a kind, components of an image, coefficients of a block.
TABLES: Final = 4
COMPONENTS: Final = 3
COEFFICIENTS: Final = 64


def jpeg_fields(capacities: Capacities) -> list[tuple[Any, ...]]:
    """
    The columns of as many sources as are decoded at once.
    """
    workers = capacities.image_workers
    scalars = (
        *("phase", "at", "end", "progressive", "width", "height", "rows"),
        *("components", "jfif", "interval", "restart"),
    )
    return [
        *((f"jp_{name}", "<i8", (workers,)) for name in scalars),
        # of a component: its id, the quantiser that it names, whether it had a DC scan
        ("jp_name", "<i8", (workers, COMPONENTS)),
        ("jp_quantiser", "<i8", (workers, COMPONENTS)),
        ("jp_direct", "<i8", (workers, COMPONENTS)),
        # its lowest bit that is known of each coefficient, -1 for none
        ("jp_bit", "i1", (workers, COMPONENTS, COEFFICIENTS)),
        # its quantiser when it had its first scan; 0 in the first entry for none yet
        ("jp_used", "u1", (workers, COMPONENTS, COEFFICIENTS)),
        # tables as they are now; 0 in the first entry for none
        ("jp_table", "u1", (workers, TABLES, COEFFICIENTS)),
        # whether a Huffman table is there: four of class DC, four of class AC
        ("jp_codes", "u1", (workers, 2 * TABLES)),
    ]


@dev
def jpeg_start(D: Any, worker: Any) -> None:
    """Nothing is known of the source of *worker* yet."""
    D.jp_phase[worker] = AT_START
    D.jp_at[worker] = 0
    D.jp_end[worker] = 0
    D.jp_progressive[worker] = 0
    D.jp_width[worker] = 0
    D.jp_height[worker] = 0
    D.jp_rows[worker] = 0
    D.jp_components[worker] = 0
    D.jp_jfif[worker] = 0
    D.jp_interval[worker] = 0
    D.jp_restart[worker] = 0
    for component in range(COMPONENTS):
        D.jp_name[worker, component] = 0
        D.jp_quantiser[worker, component] = 0
        D.jp_direct[worker, component] = 0
        D.jp_used[worker, component, 0] = 0
        for k in range(COEFFICIENTS):
            D.jp_bit[worker, component, k] = -1
    for table in range(TABLES):
        D.jp_table[worker, table, 0] = 0
        D.jp_codes[worker, table] = 0
        D.jp_codes[worker, TABLES + table] = 0


@dev
def big16(P: Any, at: Any) -> Any:
    """The big-endian u16 at byte *at*, as i64."""
    return (i64(P[at]) << 8) | i64(P[at + 1])
