"""
The reference model's table: which byte follows which context in the corpus.

A symbol is a byte (0..255) or END (256), the end of a paragraph. A context is the last
1 to 5 symbols, 9 bits each, newest lowest; before the corpus's first symbol all are
END. A key is `order << 45 | context` and so never 0, which marks a free row. Rows are
found by open addressing; a key is exact, so two contexts never mix.

Rules (docs/reference-model.md):
1. Two or more line feeds in a row are one END, a single one is a space. The corpus ends
   with END: line feeds at its end count once, and END is added if there are none.
2. Each symbol is counted under its contexts of order 1 to 5, shortest first.
3. A row keeps the first 16 different symbols it meets; counts stop at 1,023.
4. At most 24,576 contexts: a larger corpus is refused and leaves the table empty.

All roles share the table. It is written once, before the first tick, by one lane.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, u64

#: The end token; bytes are 0..255.
END = 256
#: Bits of one symbol in a context.
SYMBOL_BITS = 9
SYMBOL_MASK = (1 << SYMBOL_BITS) - 1
LINE_FEED = 10
SPACE = 32
#: Symbols of the longest context.
ORDER_MAX = 5
#: The context before the first symbol: five times END.
START_CONTEXT = sum(END << (SYMBOL_BITS * k) for k in range(ORDER_MAX))
CONTEXT_MASK = (1 << (SYMBOL_BITS * ORDER_MAX)) - 1
#: Rows of the hash table, a power of two; 11,493 are used by the shipped corpus.
TABLE_ROWS = 32768
#: Rows that may be used, three quarters: probing stays short.
CONTEXTS_MAX = 24576
#: Different symbols that one context keeps.
CHOICES_MAX = 16
#: Largest count; log2 of it is looked up.
COUNT_MAX = 1023
#: Bytes of the largest corpus.
CORPUS_BYTES_MAX = 65536

#: What `ref_load_corpus` answers.
LOADED = 0
OTHER_CORPUS = 1
CORPUS_TOO_LARGE = 2

_M32 = u64(0xFFFFFFFF)
_HALF = u64(32)
_OFFSET_A = u64(0x811C9DC5)
_OFFSET_B = u64(0x9747B28C)
_PRIME_A = u64(0x01000193)
_PRIME_B = u64(0x85EBCA6B)
_MIX_1 = u64(0x85EBCA6B)
_MIX_2 = u64(0xC2B2AE35)


def table_fields() -> list[Any]:
    """The table's fields of region D."""
    return [
        ("ref_corpus_hash", "<u8", (2,)),
        ("ref_contexts", "<i8", (1,)),
        ("ref_key", "<i8", (TABLE_ROWS,)),
        ("ref_used", "<i4", (TABLE_ROWS,)),
        ("ref_symbol", "<u2", (TABLE_ROWS, CHOICES_MAX)),
        ("ref_count", "<u2", (TABLE_ROWS, CHOICES_MAX)),
    ]


@dev
def mix32(word: Any) -> Any:
    """
    Spread every bit of *word* (u64 below 2^32) over 32 bits: MurmurHash3's finalizer.
    """
    word = word ^ (word >> u64(16))
    word = (word * _MIX_1) & _M32
    word = word ^ (word >> u64(13))
    word = (word * _MIX_2) & _M32
    return word ^ (word >> u64(16))


@dev
def hash_bytes(data: Any, size: Any) -> Any:
    """
    Two 32-bit hashes of the first *size* bytes of *data* (u1 array), as u64 pair.

    Each step is one to one, so texts that differ in one byte always differ in both.
    """
    return hash_more(_OFFSET_A, _OFFSET_B, data, size)


@dev
def hash_more(a: Any, b: Any, data: Any, size: Any) -> Any:
    """As `hash_bytes`, from *a* and *b* on."""
    for k in range(size):
        byte = u64(data[k])
        a = ((a ^ byte) * _PRIME_A) & _M32
        b = ((b ^ byte) * _PRIME_B) & _M32
    return mix32(a), mix32(b ^ (u64(size) & _M32))


@dev
def find_row(D: Any, key: Any) -> Any:
    """The row of *key*, or the free row where it belongs. Ends: a quarter is free."""
    word = u64(key)
    home = mix32((word & _M32) ^ mix32(word >> _HALF))
    row = i64(home & u64(TABLE_ROWS - 1))
    while D.ref_key[row] != 0 and D.ref_key[row] != key:
        row = (row + 1) & (TABLE_ROWS - 1)
    return row


@dev
def context_key(context: Any, order: Any) -> Any:
    """The key of the last *order* symbols of *context*."""
    newest = context & ((i64(1) << (SYMBOL_BITS * order)) - 1)
    return (order << (SYMBOL_BITS * ORDER_MAX)) | newest


@dev
def push_symbol(context: Any, symbol: Any) -> Any:
    """The context after *symbol*."""
    return ((context << SYMBOL_BITS) | symbol) & CONTEXT_MASK


@dev
def _count_in_row(D: Any, row: Any, symbol: Any) -> None:
    used = i64(D.ref_used[row])
    at = i64(0)
    while at < used and D.ref_symbol[row, at] != symbol:
        at += 1
    if at < used:
        if D.ref_count[row, at] < COUNT_MAX:
            D.ref_count[row, at] = i64(D.ref_count[row, at]) + 1
    elif used < CHOICES_MAX:
        D.ref_symbol[row, at] = symbol
        D.ref_count[row, at] = 1
        D.ref_used[row] = used + 1


@dev
def _count_symbol(D: Any, context: Any, symbol: Any) -> Any:
    """Count *symbol* under every order; 0 when the table is full."""
    for order in range(1, ORDER_MAX + 1):
        key = context_key(context, i64(order))
        row = find_row(D, key)
        if D.ref_key[row] == 0:
            if D.ref_contexts[0] >= CONTEXTS_MAX:
                return i64(0)
            D.ref_key[row] = key
            D.ref_contexts[0] = i64(D.ref_contexts[0]) + 1
        _count_in_row(D, row, symbol)
    return i64(1)


@dev
def _clear_table(D: Any) -> None:
    for row in range(TABLE_ROWS):
        D.ref_key[row] = 0
        D.ref_used[row] = 0
        for at in range(CHOICES_MAX):
            D.ref_symbol[row, at] = 0
            D.ref_count[row, at] = 0
    D.ref_contexts[0] = 0


@dev
def build_table(D: Any, corpus: Any, size: Any) -> Any:
    """
    Count *size* bytes of *corpus* (u1 array) into the table, once.

    Returns LOADED; OTHER_CORPUS when another one is loaded already; CORPUS_TOO_LARGE.
    The last two change nothing.
    """
    if size > CORPUS_BYTES_MAX:
        return i64(CORPUS_TOO_LARGE)
    a, b = hash_bytes(corpus, size)
    if D.ref_contexts[0] > 0:
        if D.ref_corpus_hash[0] == a and D.ref_corpus_hash[1] == b:
            return i64(LOADED)
        return i64(OTHER_CORPUS)
    context = i64(START_CONTEXT)
    at = i64(0)
    while at < size or (context & SYMBOL_MASK) != END:
        symbol = i64(END)
        if at < size:
            symbol = i64(corpus[at])
        at += 1
        if symbol == LINE_FEED:
            symbol = i64(SPACE)
            if at >= size:
                symbol = i64(END)
            while at < size and corpus[at] == LINE_FEED:
                symbol = i64(END)
                at += 1
        if _count_symbol(D, context, symbol) == 0:
            _clear_table(D)
            return i64(CORPUS_TOO_LARGE)
        context = push_symbol(context, symbol)
    D.ref_corpus_hash[0] = a
    D.ref_corpus_hash[1] = b
    return i64(LOADED)
