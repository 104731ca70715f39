"""
WAV sources, checked in kernels and resumable: chunks first, then samples
(`device.md` §13).

What the media stage calls; the columns `wa_*` are indexed by audio worker:

| function | |
|---|---|
| `wav_start(D, worker)` | a new source |
| `wav_more(D, P, worker, offset, size, budget)` | → (consumed, verdict, status) |

*offset* is where the whole source of *size* bytes begins in P. *consumed* is bytes
looked at, less than *budget* + 64; any *budget* from 1 on makes progress.
The verdict is 0 while there is more to do, 1 accepted, 2 refused with a media status.
Accepted, `D.wa_samples[worker]` are samples at 16 kHz, `D.wa_rows[worker]` feature
rows. Reads `D.audio_frames` and `D.audio_rows`.

Rules:
1. Where several statuses apply, the first in this order does: 10 (format), 2 (length),
   11 (not finite), 9 (silent). So all chunks are walked before a sample is looked at.
2. What a chunk holds that no rule names is passed over and costs nothing.
"""

from __future__ import annotations

from typing import Any, Final

from twisted_aotx.device.backend import dev, i64
from twisted_aotx.device.bits import read32
from twisted_aotx.device.extent import audio_rows, audio_samples
from twisted_aotx.device.wav_signal import listen16, listen32, read16
from twisted_aotx.limits import Capacities
from twisted_aotx.wire.numbers import MediaStatus

#: Longest audio.
SECONDS_MAX: Final = 30

_FORMAT: Final = int(MediaStatus.AUDIO_FORMAT)
_LIMIT: Final = int(MediaStatus.LIMIT)
_NOT_FINITE: Final = int(MediaStatus.AUDIO_NOT_FINITE)
_SILENT: Final = int(MediaStatus.AUDIO_SILENT)

#: `wa_phase`: what the next step looks at.
_HEAD: Final = 0
_CHUNKS: Final = 1
_SAMPLES: Final = 2
_DONE: Final = 3

#: Bytes that a step looks at: RIFF and WAVE, the head of a chunk, the largest `fmt `.
_RIFF_BYTES: Final = 12
_CHUNK_BYTES: Final = 8
_FORMAT_BYTES: Final = 40

_PCM: Final = 1
_FLOAT: Final = 3
_EXTENSIBLE: Final = 0xFFFE


def _name(text: bytes) -> int:
    return int.from_bytes(text, "little")


_RIFF: Final = _name(b"RIFF")
_WAVE: Final = _name(b"WAVE")
_FMT: Final = _name(b"fmt ")
_DATA: Final = _name(b"data")
_FACT: Final = _name(b"fact")
_LIST: Final = _name(b"LIST")
_WAVL: Final = _name(b"wavl")
_PLST: Final = _name(b"plst")
_SLNT: Final = _name(b"slnt")
#: The sub-format GUID behind its tag: 00000000-0010-8000-00AA-00389B71.
_GUID_1: Final = _name(bytes.fromhex("00001000"))
_GUID_2: Final = _name(bytes.fromhex("800000aa"))
_GUID_3: Final = _name(bytes.fromhex("00389b71"))


def wav_fields(capacities: Capacities) -> list[tuple[Any, ...]]:
    """
    What is known of the source that each audio worker is at.
    """
    workers = (capacities.audio_workers,)
    names = (
        *("phase", "at", "rate", "channels", "bits", "data", "data_bytes"),
        *("fact", "heard", "samples", "rows"),
    )
    return [(f"wa_{name}", "<i8", workers) for name in names]


@dev
def wav_start(D: Any, worker: Any) -> None:
    """Nothing is known of the source of *worker* yet."""
    D.wa_phase[worker] = _HEAD
    D.wa_at[worker] = 0
    D.wa_rate[worker] = 0
    D.wa_data[worker] = 0
    D.wa_fact[worker] = -1
    D.wa_heard[worker] = 0
    D.wa_samples[worker] = 0
    D.wa_rows[worker] = 0


@dev
def _head(D: Any, P: Any, worker: Any, offset: Any, size: Any) -> Any:
    """The first twelve bytes; → status."""
    if size < _RIFF_BYTES:
        return _FORMAT
    if (
        read32(P, offset) != _RIFF
        or read32(P, offset + 4) + _CHUNK_BYTES != size
        or read32(P, offset + 8) != _WAVE
    ):
        return _FORMAT
    D.wa_at[worker] = _RIFF_BYTES
    D.wa_phase[worker] = _CHUNKS
    return 0


@dev
def _extension(P: Any, at: Any, size: Any, bits: Any, channels: Any) -> Any:
    """
    What follows the first 16 bytes of a `fmt ` at byte *at* of P: its encoding's tag
    for 40 bytes, 0 for less, -1 if it is not as it should be.
    """
    if size == 16:
        return 0
    extension = read16(P, at + 16)
    if size == 18:
        return 0 if extension == 0 else -1
    if size != _FORMAT_BYTES or extension != 22 or read16(P, at + 18) != bits:
        return -1
    mask = read32(P, at + 20)
    if mask != 0 and mask != (4 if channels == 1 else 3):
        return -1
    # The tag is two bytes of the four that the GUID begins with.
    if (
        read16(P, at + 26) != 0
        or read32(P, at + 28) != _GUID_1
        or read32(P, at + 32) != _GUID_2
        or read32(P, at + 36) != _GUID_3
    ):
        return -1
    return read16(P, at + 24)


@dev
def _format(D: Any, P: Any, worker: Any, at: Any, size: Any) -> Any:
    """The `fmt ` of *size* bytes at byte *at* of P; → status."""
    if D.wa_rate[worker] != 0 or D.wa_data[worker] != 0:
        return _FORMAT
    if size != 16 and size != 18 and size != _FORMAT_BYTES:
        return _FORMAT
    tag = read16(P, at)
    channels = read16(P, at + 2)
    rate = read32(P, at + 4)
    bits = read16(P, at + 14)
    block = channels * (bits >> 3)
    inner = _extension(P, at, size, bits, channels)
    if size == _FORMAT_BYTES:
        if tag != _EXTENSIBLE:
            return _FORMAT
        tag = inner
    elif inner != 0:
        return _FORMAT
    if not ((tag == _PCM and bits == 16) or (tag == _FLOAT and bits == 32)):
        return _FORMAT
    if rate != 16000 and rate != 44100 and rate != 48000:
        return _FORMAT
    if channels != 1 and channels != 2:
        return _FORMAT
    if read16(P, at + 12) != block or read32(P, at + 8) != rate * block:
        return _FORMAT
    D.wa_rate[worker] = rate
    D.wa_channels[worker] = channels
    D.wa_bits[worker] = bits
    return 0


@dev
def _block(D: Any, worker: Any) -> Any:
    """Bytes of one frame."""
    return i64(D.wa_channels[worker]) * (i64(D.wa_bits[worker]) >> 3)


@dev
def _chunk(D: Any, P: Any, worker: Any, offset: Any, size: Any) -> Any:
    """The chunk at `wa_at`; → status."""
    at = i64(D.wa_at[worker])
    if size - at < _CHUNK_BYTES:
        return _FORMAT
    name = read32(P, offset + at)
    length = read32(P, offset + at + 4)
    at += _CHUNK_BYTES
    if length + (length & 1) > size - at:
        return _FORMAT
    D.wa_at[worker] = at + length + (length & 1)
    if name == _FMT:
        return _format(D, P, worker, offset + at, length)
    if name == _DATA:
        if D.wa_rate[worker] == 0 or D.wa_data[worker] != 0:
            return _FORMAT
        if length == 0 or length % _block(D, worker) != 0:
            return _FORMAT
        D.wa_data[worker] = at
        D.wa_data_bytes[worker] = length
    elif name == _FACT:
        if D.wa_fact[worker] >= 0 or length < 4:
            return _FORMAT
        D.wa_fact[worker] = read32(P, offset + at)
    elif name == _LIST:
        if length < 4 or read32(P, offset + at) == _WAVL:
            return _FORMAT
    elif name in (_PLST, _SLNT):
        return _FORMAT
    return 0


@dev
def _settle(D: Any, worker: Any) -> Any:
    """All chunks are walked; → status, 10 before 2."""
    data = i64(D.wa_data[worker])
    if data == 0:
        return _FORMAT
    rate = i64(D.wa_rate[worker])
    frames = i64(D.wa_data_bytes[worker]) // _block(D, worker)
    fact = i64(D.wa_fact[worker])
    if fact >= 0 and fact != frames:
        return _FORMAT
    if frames > i64(D.audio_frames) or frames > SECONDS_MAX * rate:
        return _LIMIT
    samples = audio_samples(frames, rate)
    rows = audio_rows(samples)
    if rows < 1 or rows > i64(D.audio_rows):
        return _LIMIT
    D.wa_samples[worker] = samples
    D.wa_rows[worker] = rows
    D.wa_at[worker] = data
    D.wa_phase[worker] = _SAMPLES
    return 0


@dev
def _samples(D: Any, P: Any, worker: Any, offset: Any, budget: Any) -> Any:
    """Whole frames of at most *budget* bytes, but one at least; → (bytes, status)."""
    at = i64(D.wa_at[worker])
    end = i64(D.wa_data[worker]) + i64(D.wa_data_bytes[worker])
    block = _block(D, worker)
    spent = min(end - at, max(i64(1), budget // block) * block)
    channels = i64(D.wa_channels[worker])
    first = offset + at
    D.wa_at[worker] = at + spent
    if D.wa_bits[worker] == 16:
        heard = listen16(P, first, first + spent, channels)
        if heard == 1:
            # Whole numbers are finite: what follows changes nothing.
            D.wa_phase[worker] = _DONE
            return spent, 0
    else:
        heard = listen32(P, first, first + spent, channels)
        if heard == -1:
            return spent, _NOT_FINITE
    if heard == 1:
        D.wa_heard[worker] = 1
    if at + spent == end:
        if D.wa_heard[worker] == 0:
            return spent, _SILENT
        D.wa_phase[worker] = _DONE
    return spent, 0


@dev
def wav_more(D: Any, P: Any, worker: Any, offset: Any, size: Any, budget: Any) -> Any:
    """
    Go on with the source; → (bytes looked at, verdict, media status), see above.
    """
    consumed = i64(0)
    status = i64(0)
    while consumed < budget and status == 0 and D.wa_phase[worker] != _DONE:
        phase = D.wa_phase[worker]
        if phase == _HEAD:
            status = i64(_head(D, P, worker, offset, size))
            consumed += _RIFF_BYTES
        elif phase == _SAMPLES:
            spent, found = _samples(D, P, worker, offset, budget - consumed)
            consumed += spent
            status = i64(found)
        elif D.wa_at[worker] == size:
            status = i64(_settle(D, worker))
            consumed += 1
        else:
            status = i64(_chunk(D, P, worker, offset, size))
            consumed += _CHUNK_BYTES + _FORMAT_BYTES
    verdict = i64(0)
    if status != 0:
        verdict = i64(2)
    elif D.wa_phase[worker] == _DONE:
        verdict = i64(1)
    return consumed, verdict, status
