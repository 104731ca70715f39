"""
Rules of uploads, of the media worker and of requests that refer to media.
"""

from __future__ import annotations

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.device.machine.sources import SourceRules
from tests.device.making import part, payload_of
from tests.device.oracle.media_state import JPEG, RECEIVING, MediaSource
from tests.device.strategies.frames import Intent, plain_submits
from tests.device.strategies.media import (
    BY_DIGEST,
    CANCEL,
    CHUNK,
    CHUNK_BYTES,
    END,
    File,
    Twist,
    begin,
    files,
    frame,
    looks,
    numbers,
    owners,
    twists,
    whole,
)
from twisted_aotx.errors import SourceGone
from twisted_aotx.orders import MediaJob


class MediaRules(SourceRules):
    """
    Frames of uploads in order and out of it; jobs done late, well or badly.
    """

    def _activate(self, epoch: int) -> None:
        super()._activate(epoch)
        self.jobs: list[MediaJob] = []
        self.old_jobs: list[MediaJob] = []

    @rule(file=files, owner=owners, number=numbers, twist=twists, ticked=st.booleans())
    def begin_upload(
        self, file: File, owner: bytes, number: int, twist: Twist, ticked: bool
    ) -> None:
        self._send(begin(file, owner, number, twist), number)
        if ticked:
            self.now += 1
            self._tick()

    @rule(file=files, owner=owners, number=numbers, ticks=st.integers(0, 3), go=numbers)
    def upload(
        self, file: File, owner: bytes, number: int, ticks: int, go: int
    ) -> None:
        """A whole one, if its id is free and all goes well; other frames in between."""
        for intent in whole(file, owner, number):
            self._send(intent, go)
            if ticks:
                self._tick()
        for _ in range(ticks):
            self.now += 1
            self._tick()

    @precondition(lambda self: self._receiving())
    @rule(
        which=st.integers(0, 10**6),
        size=st.sampled_from((1, 100, CHUNK_BYTES, CHUNK_BYTES)),
        twist=twists,
        end=st.sampled_from((False, True, True)),
        ticked=st.booleans(),
    )
    def go_on(
        self, which: int, size: int, twist: Twist, end: bool, ticked: bool
    ) -> None:
        """The next bytes of an upload, and perhaps its END."""
        sources = self._receiving()
        source = sources[which % len(sources)]
        known = BY_DIGEST.get(source.sha256)
        data = (known.data if known else b"?" * source.size)[: source.size]
        at = len(source.data)
        number = int.from_bytes(source.id, "big")
        piece = data[at : at + size]
        who = source.owner, number
        size = source.size
        self._send(
            frame(CHUNK, *who, size=size, offset=at, data=piece, twist=twist), which
        )
        if end:
            self._send(frame(END, *who, size=size, offset=size, twist=twist), which)
        if ticked:
            self.now += 1
            self._tick()

    def _receiving(self) -> list[MediaSource]:
        return [s for s in self._sources() if s.phase == RECEIVING]

    @rule(
        which=st.integers(0, 10**6),
        command=st.sampled_from((CANCEL,) * 5 + (END, CHUNK, 0, 5)),
        which_kind=st.sampled_from(("any", "any", "ready", "leased", "foreign")),
        data=st.sampled_from((b"",) * 5 + (b"?",)),
        twist=twists,
        ticked=st.booleans(),
    )
    def interfere(
        self,
        which: int,
        command: int,
        which_kind: str,
        data: bytes,
        twist: Twist,
        ticked: bool,
    ) -> None:
        """Mostly CANCEL, of a source in any phase, or of none."""
        kinds = {
            "any": self._sources(),
            "ready": self._ready(),
            "leased": [s for s in self._sources() if s.leases],
        }
        sources = kinds.get(which_kind, [])
        owner, number = b"\0" * 15 + b"\2", which % 11
        if sources:
            source = sources[which % len(sources)]
            owner, number = source.owner, int.from_bytes(source.id, "big")
        self._send(frame(command, owner, number, data=data, twist=twist), which)
        if ticked:
            self.now += 1
            self._tick()

    @rule(intents=st.lists(looks, min_size=1, max_size=3))
    def look(self, intents: list[Intent]) -> None:
        for n, intent in enumerate(intents):
            self._send(intent, n)
        self.now += 1
        self._tick()

    # --- the media worker -------------------------------------------------------------

    @rule(decoded=st.sampled_from((True, True, True, False)), late=st.booleans())
    def work(self, decoded: bool, late: bool) -> None:
        """Take what is asked, and be done with what was asked before."""
        if not late:
            self.jobs += self.pair.media_jobs()
        for job in self.jobs:
            self.pair.finish_media(job.worker, decoded)
        self.old_jobs += self.jobs
        self.jobs = list(self.pair.media_jobs())
        self.now += 1
        self._tick()

    @precondition(lambda self: self.jobs or self.old_jobs)
    @rule(which=st.integers(0, 10**6))
    def copy(self, which: int) -> None:
        """The bytes of what was asked, or the word that they are gone."""
        jobs = self.jobs + self.old_jobs
        job = jobs[which % len(jobs)]
        try:
            self.pair.source_bytes(job.index, job.generation, job.offset, job.size)
        except SourceGone:
            return

    @rule()
    def settle(self) -> None:
        """Nothing that could go on by itself stays where it is."""
        self.pair.set_hold(False)
        self._settle()

    def _settle(self) -> None:
        for _ in range(100):
            self._tick()
            if self.pair.is_settled():
                return
        raise AssertionError("sources that could go on do not")

    # --- requests that refer to media -------------------------------------------------

    @rule(
        intent=plain_submits(),
        picks=st.lists(st.integers(0, 10**6), min_size=1, max_size=3),
        kind=st.sampled_from((0, 0, 0, 0, 1, 2, 3)),
        text=st.sampled_from((b"", b"see ", b"[im", b"<|audio_")),
        role=st.sampled_from((1, 1, 1, 1, 1, 0, 2)),
    )
    def refer(
        self, intent: Intent, picks: list[int], kind: int, text: bytes, role: int
    ) -> None:
        """Digests of sources in any phase, mostly of their own family."""
        sources = self._sources()
        parts = [part(text)] if text else []
        for pick in picks:
            digest, own = b"\1" * 32, 1
            if sources:
                source = sources[pick % len(sources)]
                digest, own = source.sha256, 1 if source.format == JPEG else 2
                if pick % 5:
                    intent = attrs.evolve(intent, principal=source.owner)
            parts.append(part(digest, kind or own))
        head = role.to_bytes(4, "little") + len(parts).to_bytes(4, "little")
        payload = payload_of(head + b"".join(parts))
        self._send(attrs.evolve(intent, payload=payload), picks[0])
        self.now += 1
        self._tick()
        self._take_orders()
