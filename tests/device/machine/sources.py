"""
Rules about sources that there are: looked at, removed, and removed while in use.
"""

from __future__ import annotations

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.device.machine.steps import MachineBase
from tests.device.making import part, payload_of
from tests.device.oracle.media_state import JPEG, READY, MediaSource
from tests.device.strategies.frames import Intent, plain_submits
from tests.device.strategies.media import CANCEL, frame
from twisted_aotx.wire.numbers import Operation


class SourceRules(MachineBase):
    """
    Each picks one of the sources; without any it does not apply.
    """

    def _sources(self) -> list[MediaSource]:
        return list(self.oracle.state.media.sources())

    def _ready(self) -> list[MediaSource]:
        return [source for source in self._sources() if source.phase == READY]

    @precondition(lambda self: self._sources())
    @rule(which=st.integers(0, 10**6), payload=st.sampled_from((b"", b"", b"x")))
    def look_at(self, which: int, payload: bytes) -> None:
        """MEDIA_READ by its owner."""
        sources = self._sources()
        source = sources[which % len(sources)]
        self._send(
            Intent(
                Operation.MEDIA_READ,
                source.owner,
                payload=payload,
                number=int.from_bytes(source.id, "big"),
                addressed=False,
            ),
            which,
        )
        self.now += 1
        self._tick()

    @precondition(lambda self: self._ready())
    @rule(which=st.integers(0, 10**6), saved=st.booleans())
    def remove(self, which: int, saved: bool) -> None:
        """CANCEL of what is ready; the store is done with it well or badly (D12)."""
        sources = self._ready()
        source = sources[which % len(sources)]
        number = int.from_bytes(source.id, "big")
        self._send(frame(CANCEL, source.owner, number), which)
        self.now += 1
        self._tick()
        self._take_records()
        while self.records:
            self._finish_record(saved)
        self._tick()

    @precondition(lambda self: self._ready())
    @rule(which=st.integers(0, 10**6), intent=plain_submits(), ticked=st.booleans())
    def remove_in_use(self, which: int, intent: Intent, ticked: bool) -> None:
        """CANCEL of what a request that was just sent refers to."""
        sources = self._ready()
        source = sources[which % len(sources)]
        number = int.from_bytes(source.id, "big")
        kind = 1 if source.format == JPEG else 2
        head = (1).to_bytes(4, "little") + (1).to_bytes(4, "little")
        self.submitted += 1
        use = attrs.evolve(
            intent,
            principal=source.owner,
            number=1000 + self.submitted,
            payload=payload_of(head + part(source.sha256, kind)),
        )
        self._send(use, which)
        if ticked:
            self.now += 1
            self._tick()
        self._send(frame(CANCEL, source.owner, number), which + 1)
        self.now += 1
        self._tick()
