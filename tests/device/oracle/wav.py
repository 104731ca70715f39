"""
What the device says of a WAV file (`device.md` §13), on whole bytes.
"""

from __future__ import annotations

import math
import struct

import attrs

OK, LIMIT, SILENT, FORMAT, NOT_FINITE = 0, 2, 9, 10, 11

_RATES = (16000, 44100, 48000)
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")


@attrs.frozen
class Verdict:
    """*samples* and *rows* count only with status 0."""

    status: int
    samples: int = 0
    rows: int = 0


@attrs.frozen
class _Form:
    encoding: int
    channels: int
    rate: int

    @property
    def width(self) -> int:
        return 2 if self.encoding == _PCM else 4

    @property
    def frame(self) -> int:
        return self.width * self.channels


def judge(data: bytes, frames_max: int) -> Verdict:
    """*frames_max*: `audio source frames` of `wire.md` §13."""
    try:
        form, body = _parse(data)
    except _Refused:
        return Verdict(FORMAT)
    frames = len(body) // form.frame
    if frames > frames_max or frames > 30 * form.rate:
        return Verdict(LIMIT)
    samples = -(-frames * 16000 // form.rate)
    mel = -(-samples // 160)
    rows = -(-mel // 2) // 2
    if rows < 1:
        return Verdict(LIMIT)
    code = "h" if form.encoding == _PCM else "f"
    values = struct.unpack(f"<{frames * form.channels}{code}", body)
    if not all(map(math.isfinite, values)):
        return Verdict(NOT_FINITE)
    # Python's sum of two floats is exact enough to be zero only for opposites.
    sums = (
        sum(values[at : at + form.channels])
        for at in range(0, len(values), form.channels)
    )
    if not any(sums):
        return Verdict(SILENT)
    return Verdict(OK, samples, rows)


class _Refused(Exception):
    """A rule with status 10 is broken."""


def _demand(held: bool) -> None:
    if not held:
        raise _Refused


def _parse(data: bytes) -> tuple[_Form, bytes]:
    """The format and the `data` chunk."""
    _demand(len(data) >= 12 and data[:4] == b"RIFF" and data[8:12] == b"WAVE")
    _demand(struct.unpack_from("<I", data, 4)[0] + 8 == len(data))
    form: _Form | None = None
    body: bytes | None = None
    fact: int | None = None
    for name, chunk in _chunks(data):
        if name == b"fmt ":
            _demand(form is None and body is None)
            form = _format(chunk)
        elif name == b"data":
            _demand(form is not None and body is None and len(chunk) > 0)
            body = chunk
        elif name == b"fact":
            _demand(fact is None and len(chunk) >= 4)
            (fact,) = struct.unpack_from("<I", chunk)
        elif name == b"LIST":
            _demand(len(chunk) >= 4 and chunk[:4] != b"wavl")
        else:
            _demand(name not in (b"plst", b"slnt"))
    if form is None or body is None:
        raise _Refused
    _demand(len(body) % form.frame == 0)
    _demand(fact is None or fact == len(body) // form.frame)
    return form, body


def _chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    chunks = []
    at = 12
    while at < len(data):
        _demand(len(data) - at >= 8)
        size = struct.unpack_from("<I", data, at + 4)[0]
        end = at + 8 + size
        _demand(end + size % 2 <= len(data))
        chunks.append((data[at : at + 4], data[at + 8 : end]))
        at = end + size % 2
    return chunks


def _format(chunk: bytes) -> _Form:
    _demand(len(chunk) in (16, 18, 40))
    tag, channels, rate, byte_rate, align, bits = struct.unpack_from("<HHIIHH", chunk)
    if len(chunk) == 18:
        _demand(chunk[16:18] == bytes(2))
    if len(chunk) == 40:
        _demand(tag == _EXTENSIBLE)
        extension, valid, mask, sub = struct.unpack_from("<HHIH", chunk, 16)
        _demand(extension == 22 and valid == bits and chunk[26:] == _GUID_TAIL)
        _demand(mask in (0, 4 if channels == 1 else 3))
        tag = sub
    _demand((tag, bits) in ((_PCM, 16), (_FLOAT, 32)))
    _demand(rate in _RATES and channels in (1, 2))
    _demand(align == channels * bits // 8 and byte_rate == rate * align)
    return _Form(tag, channels, rate)
