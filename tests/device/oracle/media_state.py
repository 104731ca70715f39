"""
Media sources, their receipts and their pools (`device.md` §12).

A source that is under way passes phases 2 to 5; how many ticks it stays in one is not
the contract's. `preparation` has the device's progress told, or makes its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import attrs

from tests.device.oracle.pools import Pool
from twisted_aotx.limits import Capacities

#: Phases (`wire.md` §10).
RECEIVING, HASHING, WAITING, DECODING, ENCODING, READY, REFUSED = range(1, 8)
LIVE = range(RECEIVING, READY + 1)

#: Statuses (`wire.md` §10).
TRANSFER, LIMIT, DIGEST, CANCELLED, JPEG_REFUSED, EXTENT, MODALITY = range(1, 8)
PRESSURE = 12

JPEG, WAV = 1, 3

Key = tuple[bytes, bytes]


@attrs.define(kw_only=True)
class MediaSource:
    """A descriptor in use."""

    index: int
    generation: int
    owner: bytes
    id: bytes
    sha256: bytes
    size: int
    format: int
    phase: int = RECEIVING
    status: int = 0
    samples: int = 0
    rows: int = 0
    data: bytearray = attrs.field(factory=bytearray, repr=False)
    #: Where its bytes and its feature rows stand.
    offset: int | None = None
    rows_at: int | None = None
    #: Requests that hold it.
    leases: int = 0
    #: Removals that the store has not answered.
    removals: int = 0
    #: What a worker of its family is busy with; only images leave the kernels.
    worker: int | None = None
    posted: bool = False
    #: What the worker said, until it is taken over.
    decoded: bool | None = None

    @property
    def key(self) -> Key:
        return self.owner, self.id

    @property
    def is_usable(self) -> bool:
        return self.phase == READY and self.removals == 0

    def metadata(self) -> bytes:
        return struct.pack(
            "<32sQIIIIII",
            self.sha256,
            self.size,
            self.phase,
            self.status,
            self.format,
            self.samples,
            self.rows,
            0,
        )


@attrs.define(kw_only=True)
class Receipt:
    """`metadata` is that of a cached refusal; pending without it."""

    deadline_ns: int
    metadata: bytes | None = None


@attrs.define
class Media:
    """All of it. `table` has a row for every descriptor that was ever used."""

    capacities: Capacities
    #: Formats that some engine takes.
    families: frozenset[int]
    table: list[MediaSource | None] = attrs.field(init=False)
    #: Rises by 1 with every BEGIN that takes a descriptor.
    generation: int = 0
    #: Refused descriptors, the one that was refused longest ago first.
    refused: list[MediaSource] = attrs.field(factory=list)
    receipts: dict[Key, Receipt] = attrs.field(factory=dict)
    bytes_pool: Pool = attrs.field(init=False)
    #: By format.
    rows_pools: dict[int, Pool] = attrs.field(init=False)
    #: By format: what each worker is busy with.
    workers: dict[int, list[MediaSource | None]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        sizes = self.capacities
        self.table = [None] * sizes.media_objects
        self.bytes_pool = Pool(sizes.media_bytes)
        self.rows_pools = {JPEG: Pool(sizes.image_rows), WAV: Pool(sizes.audio_rows)}
        self.workers = {
            JPEG: [None] * sizes.image_workers,
            WAV: [None] * sizes.audio_workers,
        }

    @property
    def is_on(self) -> bool:
        return self.capacities.media_objects > 0 and self.capacities.media_bytes > 0

    def sources(self) -> Iterator[MediaSource]:
        """In table order."""
        return (source for source in self.table if source is not None)

    def find(self, owner: bytes, id_: bytes) -> MediaSource | None:
        for source in self.sources():
            if source.key == (owner, id_):
                return source
        return None

    def live(self, owner: bytes) -> list[MediaSource]:
        return [s for s in self.sources() if s.owner == owner and s.phase in LIVE]

    def under_way(self) -> list[MediaSource]:
        """What keeps the device from being idle (`device.md` §14)."""
        return [s for s in self.sources() if HASHING <= s.phase <= ENCODING]

    # --- descriptors and receipts ---------------------------------------------------

    def free_descriptor(self) -> int | None:
        """A row never used, else the oldest refused one without a worker."""
        if None in self.table:
            return self.table.index(None)
        for source in self.refused:
            if source.worker is None:
                return source.index
        return None

    def add(self, index: int, source: MediaSource) -> None:
        """Put *source*, made for it, into the row that `free_descriptor` gave."""
        before = self.table[index]
        if before is not None:
            self.refused.remove(before)
        self.generation = source.generation
        self.table[index] = source

    def refuse(self, source: MediaSource, status: int, deadline_ns: int) -> None:
        """Phase 7; a pending receipt keeps it until *deadline_ns*."""
        if source.offset is not None:
            self.bytes_pool.free(source.offset)
            source.offset = None
        if source.rows_at is not None:
            self.rows_pools[source.format].free(source.rows_at)
            source.rows_at = None
        if source.worker is not None and not source.posted:
            self.leave_worker(source)
        source.phase = REFUSED
        source.status = status
        source.samples = source.rows = 0
        self.refused.append(source)
        receipt = self.receipts.get(source.key)
        if receipt is not None:
            receipt.metadata = source.metadata()
            receipt.deadline_ns = deadline_ns

    def leave_worker(self, source: MediaSource) -> None:
        assert source.worker is not None
        self.workers[source.format][source.worker] = None
        source.worker = None
        source.posted = False


def media_violations(media: Media) -> Iterator[str]:
    """What must hold between ticks, as sentences."""
    keys = [source.key for source in media.sources()]
    if len(set(keys)) != len(keys):
        yield "two descriptors of one source"
    for source in media.sources():
        pending = source.key in media.receipts
        if source.phase in LIVE and pending != (source.phase < READY):
            yield f"source {source.index}: a receipt in phase {source.phase}"
        if source.leases and source.phase != READY:
            yield f"source {source.index}: leased in phase {source.phase}"
        if (source.offset is not None) != (source.phase in LIVE):
            yield f"source {source.index}: bytes in phase {source.phase}"
