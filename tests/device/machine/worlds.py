"""
The machine on devices of several kinds, all with the kernels of the small set.
"""

from __future__ import annotations

from typing import Final

import attrs

from tests.device.capacities import NO_MEDIA, SMALL, TIGHT
from tests.device.machine.rules import DeviceRules
from tests.device.making import (
    CHATML,
    LETTERS,
    kernel_engine,
    new_device,
    played_engine,
)
from tests.device.stepped import HasFacts
from twisted_aotx.device.host import Device
from twisted_aotx.wire.info import ControlRow

#: One that selectors name rightly (`strategies.frames`), and one that two rows name.
_CONTROLS = (
    ControlRow(
        name="one", layers=1, qualification_sha256=b"\1" * 32, doses=(1, -1, 40000)
    ),
    ControlRow(name="two", layers=1, qualification_sha256=b"\2" * 32, doses=(1,)),
    ControlRow(name="again", layers=1, qualification_sha256=b"\2" * 32, doses=(1,)),
)


def _engines(*modalities: int) -> tuple[HasFacts, ...]:
    """
    Of roles 2, 3 and 4, with the modality bits of each.

    One lease more than there are slots: requests wait for their role and for slots.
    """
    tokens = SMALL.sequence_tokens
    return (
        played_engine(
            2,
            capacity=3,
            sequence_tokens=tokens,
            message_format=LETTERS,
            modalities=modalities[0],
            controls=_CONTROLS,
        ),
        played_engine(
            3,
            capacity=3,
            sequence_tokens=tokens,
            message_format=CHATML,
            modalities=modalities[1],
        ),
        kernel_engine(
            4,
            capacity=2,
            sequence_tokens=tokens,
            rate=999_983,
            modalities=modalities[2],
        ),
    )


class DeviceMachine(DeviceRules):
    capacities = SMALL
    engines = _engines(7, 3, 7)

    def make_device(self, epoch: int) -> Device:
        return new_device(self.capacities, self.engines, epoch=epoch)


class TightMachine(DeviceMachine):
    """Feature rows for one image under way, and for few sources."""

    capacities = TIGHT


class NarrowMachine(DeviceMachine):
    """No image's reservation ever fits, and no sound's."""

    capacities = attrs.evolve(SMALL, image_rows=2047, audio_rows=0)


class PooledMachine(DeviceMachine):
    """Hardly any bytes for sources."""

    capacities = attrs.evolve(SMALL, media_bytes=2500)


class TextMachine(DeviceMachine):
    """No engine sees, one hears."""

    engines = _engines(1, 5, 1)


class NoMediaMachine(DeviceMachine):
    capacities = NO_MEDIA


#: Most of what happens, happens in the first.
MACHINES: Final = (
    *[DeviceMachine] * 9,
    TightMachine,
    NarrowMachine,
    PooledMachine,
    PooledMachine,
    TextMachine,
    NoMediaMachine,
)
