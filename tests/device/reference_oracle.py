"""
The reference model in plain Python, written from docs/reference-model.md alone.

Imports nothing of ours: an independent witness for the kernels.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any

END = 256
LOG2 = [0, *((n**256).bit_length() - 1 for n in range(1, 1024))]


def _nested_root(value: int) -> int:
    for _ in range(8):
        value = math.isqrt(value)
    return value


EXP2 = [_nested_root(2 ** (4096 - i)) for i in range(256)]
WORD = 2**32


def mix(word: int) -> int:
    """The page's `mix`."""
    word ^= word >> 16
    word = word * 0x85EBCA6B % WORD
    word ^= word >> 13
    word = word * 0xC2B2AE35 % WORD
    return word ^ (word >> 16)


def philox(key: int, counter: int) -> list[int]:
    """Philox4x32-10: four words."""
    keys = [key % WORD, key // WORD]
    c = [counter % WORD, counter // WORD, 0, 0]
    for _ in range(10):
        low = 0xD2511F53 * c[0]
        high = 0xCD9E8D57 * c[2]
        c = [
            high // WORD ^ c[1] ^ keys[0],
            high % WORD,
            low // WORD ^ c[3] ^ keys[1],
            low % WORD,
        ]
        keys = [(keys[0] + 0x9E3779B9) % WORD, (keys[1] + 0xBB67AE85) % WORD]
    return c


def corpus_symbols(corpus: bytes) -> list[int]:
    """The list of symbols of *corpus*."""
    symbols: list[int] = []
    for paragraph in re.split(b"\n{2,}", corpus.rstrip(b"\n")):
        symbols += paragraph.replace(b"\n", b" ")
        symbols.append(END)
    return symbols if corpus else []


class Model:
    """
    The table of contexts of one corpus.
    """

    def __init__(self, corpus: bytes) -> None:
        self.rows: dict[tuple[int, ...], dict[int, int]] = {}
        history = [END] * 5
        for symbol in corpus_symbols(corpus):
            for order in range(1, 6):
                row = self.rows.setdefault(tuple(history[-order:]), {})
                if symbol in row:
                    row[symbol] = min(1023, row[symbol] + 1)
                elif len(row) < 16:
                    row[symbol] = 1
            history.append(symbol)

    def tokens(
        self,
        prompt: bytes,
        temperature: float,
        top_p: float,
        seed: int,
        caution: int = 0,
        verve: int = 0,
        digests: Sequence[bytes] = (),
    ) -> Iterator[int]:
        """
        The tokens of one request, END the last; no limit.

        *caution* and *verve* are doses of the controls, 0 is none; *digests* those of
        the media sources.
        """
        a, b = 0x811C9DC5, 0x9747B28C
        for data in (prompt, *digests):
            for x in data:
                a = (a ^ x) * 0x01000193 % WORD
                b = (b ^ x) * 0x85EBCA6B % WORD
            a, b = mix(a), mix(b ^ len(data))
        t, p = soften(q16(temperature), caution), q16(top_p)
        history = [END] * 5
        k = 0
        while True:
            ranked = self._ranked(history, a, b, k, caution, verve)
            symbol = self._drawn(ranked, k, t, p, seed)
            if symbol == END and k < 96 and self.rows:
                yield 32
                history = [END] * 5
            else:
                yield symbol
                if symbol == END:
                    return
                history.append(symbol)
            k += 1

    def _ranked(
        self, history: list[int], a: int, b: int, k: int, caution: int, verve: int
    ) -> list[tuple[int, int]]:
        """(score, symbol) of each candidate, the best first."""
        for order in range(5, 0, -1):
            row = self.rows.get(tuple(history[-order:]))
            if row:
                break
        else:
            return [(0, END)]
        ranked = []
        for s, n in row.items():
            noise = mix(a ^ mix((b + 512 * k + s) % WORD)) >> 22
            score = LOG2[n] + soften(noise, caution)
            if s == 32:
                score += verve // 20
            if s == END:
                score += 2 * k - 512
            ranked.append((score, s))
        return sorted(ranked, key=lambda pair: (-pair[0], pair[1]))

    def _drawn(
        self, ranked: list[tuple[int, int]], k: int, t: int, p: int, seed: int
    ) -> int:
        """Steps 4 to 7 of the page."""
        if len(ranked) == 1 or t == 0:
            return ranked[0][1]
        weights = []
        for score, _ in ranked:
            d = (ranked[0][0] - score) * 65536 // t
            weights.append(0 if d >= 4352 else EXP2[d % 256] >> (d // 256))
        kept = 1
        while 65536 * sum(weights[:kept]) < p * sum(weights):
            kept += 1
        left = philox(seed, k)[0] * sum(weights[:kept]) >> 32
        for weight, (_, s) in zip(weights[: kept - 1], ranked, strict=False):
            if left < weight:
                return s
            left -= weight
        return ranked[kept - 1][1]


def soften(x: int, dose: int) -> int:
    """The page's `soften` for *dose*; a dose of 0 changes nothing."""
    return max(1, x * (20000 - dose) // 20000) if x else 0


def q16(value: float) -> int:
    """floor(65536 · value) of the 32-bit float, at least 1 unless it is 0."""
    exact: float
    (exact,) = struct.unpack("<f", struct.pack("<f", abs(value)))
    if exact == 0:
        return 0
    return max(1, math.floor(exact * 65536))


def generate(
    model: Model,
    prompt: bytes,
    temperature: float,
    top_p: float,
    seed: int,
    limit: int,
    **doses: Any,
) -> tuple[bytes, int, int]:
    """(output, tokens, finish) of one request; *doses* as in `Model.tokens`."""
    output = bytearray()
    tokens = model.tokens(prompt, temperature, top_p, seed, **doses)
    for count, token in enumerate(tokens, 1):
        if token == END:
            return bytes(output), count, 1
        output.append(token)
        if count == limit:
            return bytes(output), count, 2
    raise AssertionError("tokens ended without END")
