"""
JPEG sources: their markers walked in kernels, resumable (`device.md` §13). What the
bits of the entropy data mean is the decoder's to find.

What the media stage calls; the columns `jp_*` are indexed by image worker:

| function | |
|---|---|
| `jpeg_fields(capacities)` | the columns |
| `jpeg_start(D, worker)` | a new source |
| `jpeg_more(D, P, worker, offset, size, budget)` | → (consumed, verdict, status) |

*offset* is where the whole source of *size* bytes begins in P. *consumed* is bytes
looked at, less than *budget* + 512; any *budget* from 1 on makes progress.
The verdict is 0 while there is more to do, 1 accepted, 2 refused with a media status.
Accepted, `D.jp_width[worker]` and `D.jp_height[worker]` are pixels,
`D.jp_rows[worker]` feature rows, at most a quarter of `D.image_patches`. Reads
`D.image_dimension`, `D.image_pixels` and `D.image_patches`.

Rules:
1. Where both statuses apply it is 5: the extent, which is the aspect and the rows that
   are reserved, is judged at EOI.
2. A marker is 0xFF and a code; more than one 0xFF is an unknown marker.
3. APP0 is JFIF or refused; it may come again.
4. Segments that are ignored are passed over and cost nothing.
"""

from __future__ import annotations

from typing import Any, Final

from twisted_aotx.device.backend import dev, i64
from twisted_aotx.device.jpeg_headers import (
    code_table,
    frame_segment,
    has_extent,
    jfif_segment,
    quantiser_table,
    restart_segment,
)
from twisted_aotx.device.jpeg_scans import scan_data, scan_segment
from twisted_aotx.device.jpeg_state import (
    AT_CODES,
    AT_DATA,
    AT_MARKER,
    AT_QUANTISER,
    AT_START,
    DONE,
    NO_EXTENT,
    REFUSED,
    big16,
    jpeg_fields,
    jpeg_start,
)

__all__ = ["jpeg_fields", "jpeg_more", "jpeg_start"]

_MARK: Final = 0xFF
_SOF0: Final = 0xC0
_SOF2: Final = 0xC2
_DHT: Final = 0xC4
_SOI: Final = 0xD8
_EOI: Final = 0xD9
_SOS: Final = 0xDA
_DQT: Final = 0xDB
_DRI: Final = 0xDD
_APP0: Final = 0xE0
_APP1: Final = 0xE1
_APP2: Final = 0xE2
_APP14: Final = 0xEE
_APP15: Final = 0xEF
_COM: Final = 0xFE

#: Bytes of a marker and of the length that follows most.
_MARKER_BYTES: Final = 2
_LENGTH_BYTES: Final = 2
#: What a segment in one piece costs at most: three quantisers are compared for a scan.
_SEGMENT_COST: Final = 256


@dev
def _is_whole(D: Any, worker: Any) -> Any:
    """1 if every component has a DC scan."""
    components = i64(D.jp_components[worker])
    if components == 0:
        return 0
    for n in range(components):
        if D.jp_direct[worker, n] == 0:
            return 0
    return 1


@dev
def _is_ignored(code: Any) -> Any:
    """Whether a segment with marker *code* is passed over: APPn but four, and COM."""
    if code == _COM:
        return True
    return _APP2 < code <= _APP15 and code != _APP14


@dev
def _segment(D: Any, P: Any, worker: Any, code: Any, at: Any, size: Any) -> Any:
    """The segment of marker *code*, *size* bytes from byte *at* of P; → status."""
    if code == _SOS:
        return scan_segment(D, P, worker, at, size)
    if code in (_SOF0, _SOF2):
        D.jp_progressive[worker] = i64(code == _SOF2)
        return frame_segment(D, P, worker, at, size)
    if code == _APP0:
        return jfif_segment(D, P, worker, at, size)
    if code == _DRI:
        return restart_segment(D, P, worker, at, size)
    return 0 if _is_ignored(code) else REFUSED


@dev
def _marker(D: Any, P: Any, worker: Any, offset: Any, size: Any) -> Any:
    """The marker at `jp_at`, and its segment if that is one piece; → (cost, status)."""
    at = i64(D.jp_at[worker])
    if size - at < _MARKER_BYTES or P[offset + at] != _MARK:
        return 1, REFUSED
    code = i64(P[offset + at + 1])
    if code == _EOI:
        if at + _MARKER_BYTES != size or _is_whole(D, worker) == 0:
            return _MARKER_BYTES, REFUSED
        if has_extent(D, worker) == 0:
            return _MARKER_BYTES, NO_EXTENT
        D.jp_phase[worker] = DONE
        return _MARKER_BYTES, 0
    at += _MARKER_BYTES
    if size - at < _LENGTH_BYTES:
        return _MARKER_BYTES, REFUSED
    length = big16(P, offset + at)
    if length < _LENGTH_BYTES or length > size - at:
        return _MARKER_BYTES, REFUSED
    end = at + length
    at += _LENGTH_BYTES
    if code in (_DQT, _DHT):
        D.jp_phase[worker] = AT_QUANTISER if code == _DQT else AT_CODES
        D.jp_at[worker] = at
        D.jp_end[worker] = end
        return _MARKER_BYTES + _LENGTH_BYTES, 0
    D.jp_at[worker] = end
    return _SEGMENT_COST, _segment(D, P, worker, code, offset + at, end - at)


@dev
def _table(D: Any, P: Any, worker: Any, offset: Any) -> Any:
    """A table of a DQT or DHT, which has one at least; → (cost, status)."""
    at = i64(D.jp_at[worker])
    left = i64(D.jp_end[worker]) - at
    if D.jp_phase[worker] == AT_QUANTISER:
        taken = i64(quantiser_table(D, P, worker, offset + at, left))
    else:
        taken = i64(code_table(D, P, worker, offset + at, left))
    if taken < 0:
        return _SEGMENT_COST, REFUSED
    D.jp_at[worker] = at + taken
    if taken == left:
        D.jp_phase[worker] = AT_MARKER
    return taken, 0


@dev
def _begin(D: Any, P: Any, worker: Any, offset: Any, size: Any) -> Any:
    """The first marker; → status."""
    if size < _MARKER_BYTES or P[offset] != _MARK or P[offset + 1] != _SOI:
        return REFUSED
    D.jp_at[worker] = _MARKER_BYTES
    D.jp_phase[worker] = AT_MARKER
    return 0


@dev
def jpeg_more(D: Any, P: Any, worker: Any, offset: Any, size: Any, budget: Any) -> Any:
    """
    Go on with the source; → (bytes looked at, verdict, media status), see above.
    """
    consumed = i64(0)
    status = i64(0)
    while consumed < budget and status == 0 and D.jp_phase[worker] != DONE:
        phase = D.jp_phase[worker]
        if phase == AT_DATA:
            spent, found = scan_data(D, P, worker, offset, size, budget - consumed)
        elif phase == AT_START:
            spent = i64(_MARKER_BYTES)
            found = i64(_begin(D, P, worker, offset, size))
        elif phase == AT_MARKER:
            spent, found = _marker(D, P, worker, offset, size)
        else:
            spent, found = _table(D, P, worker, offset)
        consumed += spent
        status = i64(found)
    verdict = i64(0)
    if status != 0:
        verdict = i64(2)
    elif D.jp_phase[worker] == DONE:
        verdict = i64(1)
    return consumed, verdict, status
