"""
How large a device may be (D7).
"""

from __future__ import annotations

import attrs
import pytest

from tests.device.capacities import SMALL
from tests.device.making import EPOCH, HASH_KEY, SEED_KEY
from twisted_aotx import limits
from twisted_aotx.device.host import Device
from twisted_aotx.device.tables import regions_of
from twisted_aotx.errors import ConfigError
from twisted_aotx.limits import Capacities


def make(capacities: Capacities) -> Device:
    return Device(capacities, epoch=EPOCH, hash_key=HASH_KEY, seed_key=SEED_KEY)


def test_all_tables_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many bytes, and not one more."""
    size = regions_of(SMALL).size
    monkeypatch.setattr(limits, "TABLE_BYTES_MAX", size)
    device = make(SMALL)
    assert device.service_bytes == size
    device.free()

    monkeypatch.setattr(limits, "TABLE_BYTES_MAX", size - 1)
    with pytest.raises(ConfigError, match=f"all tables take {size} bytes"):
        make(SMALL)


def test_no_region_outgrows_what_a_record_may_be() -> None:
    """numpy counts the bytes of a record in 32 bits, however large all else is."""
    most = Capacities(
        slots=1024,
        requests=65536,
        channels=1024,
        principals=1022,
        prompt_bytes=limits.PROMPT_BYTES_MAX,
        output_bytes=16 << 20,
        media_objects=65536,
        media_bytes=1 << 30,
        image_workers=64,
        audio_workers=64,
    )

    regions = regions_of(most)

    for record in (regions.host, regions.device, regions.bulk):
        assert record.itemsize < 2**31


def test_what_is_too_large_is_refused_before_it_is_allocated() -> None:
    """Capacities that are each within their bounds, and together a terabyte."""
    assert limits.TABLE_BYTES_MAX == 8 << 30
    vast = attrs.evolve(Capacities(), requests=65536, output_bytes=16777216)

    with pytest.raises(ConfigError, match="over 8 GiB"):
        make(vast)
