"""
cases C 43 to 47: text that spells media markers (`device.md` §5).
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.device.capacities import SMALL
from tests.device.cases.prompting import (
    ASSISTANT,
    SYSTEM,
    USER,
    assert_no_entry,
    status_of_text,
    with_format,
)
from tests.device.cases.starting import Start
from tests.device.driver import Driver
from tests.device.making import grant, message, payload_of
from twisted_aotx.interfaces import MessageFormat
from twisted_aotx.wire.numbers import Phase


@pytest.fixture
def driver(start: Start) -> Driver:
    driver = start()
    driver.install(grant(requests=SMALL.requests))
    return driver


@pytest.mark.parametrize("marker", [b"[image:", b"[audio:"])
@pytest.mark.parametrize("role", [SYSTEM, USER, ASSISTANT])
def test_link_in_text(driver: Driver, marker: bytes, role: int) -> None:
    """cases C 43."""
    assert status_of_text(driver, b"see " + marker + b"x", role=role) == 400
    assert_no_entry(driver)


def splits(marker: bytes) -> list[Sequence[bytes]]:
    """Two parts at each position, an empty part between, and one byte per part."""
    cuts = range(1, len(marker))
    return [
        *((marker[:cut], marker[cut:]) for cut in cuts),
        *((marker[:cut], b"", marker[cut:]) for cut in cuts),
        [bytes([byte]) for byte in marker],
        (b"a" + marker[:3], marker[3:] + b"b"),
    ]


@pytest.mark.parametrize("parts", splits(b"[image:") + splits(b"[audio:"))
def test_link_across_parts(driver: Driver, parts: Sequence[bytes]) -> None:
    """cases C 44."""
    assert status_of_text(driver, *parts) == 400
    assert_no_entry(driver)


def test_link_made_with_the_template(start: Start) -> None:
    """`device.md` §5: in a window that touches a text part, from either side."""
    form = MessageFormat(
        system_head=b"",
        system_tail=b"",
        user_head=b"[im",
        user_tail=b"ge:",
        assistant_head=b"[image:",
        assistant_tail=b"",
        generation_head=b"",
    )
    driver = with_format(start, form)

    assert status_of_text(driver, b"age:") == 400
    assert status_of_text(driver, b"x[ima") == 400
    assert status_of_text(driver, b"a") == 400
    assert status_of_text(driver, b"x") == 202
    # The format's own bytes are no text.
    assert driver.submit(2, payload=payload_of(message(ASSISTANT, b"x"))) == 202


@pytest.mark.parametrize(
    "text", [b"[Image:", b"image:", b"[image :", b"[audio", b"[im"]
)
def test_nearly_a_link(driver: Driver, text: bytes) -> None:
    """cases C 46."""
    assert status_of_text(driver, text, b"age?") == 202


MARKERS = (b"<|image_pad|>", b"<|audio_bos|>", b"<|vision_start", b"<|video_pad|>")


@pytest.mark.parametrize("marker", [*MARKERS, b"<|AUDIO|>"])
def test_engine_marker(driver: Driver, marker: bytes) -> None:
    """cases C 47: admitted, then failed with 400; no engine sees it."""
    assert status_of_text(driver, b"a" + marker + b"b") == 202
    assert list(driver.device.orders()) == []

    reply = driver.read(1)[0]
    assert (reply.phase, reply.failure_status) == (Phase.FAILED, 400)
    assert (reply.prompt_tokens, reply.cancel_requested, reply.finish) == (0, 0, 0)


@pytest.mark.parametrize("parts", splits(b"<|image_pad|>")[:-1] + splits(b"<|audio_"))
def test_engine_marker_across_parts(driver: Driver, parts: Sequence[bytes]) -> None:
    """cases C 47 with the window rule of C 44."""
    assert status_of_text(driver, *parts) == 202
    assert driver.read(1)[0].failure_status == 400


@pytest.mark.parametrize(
    "text", [b"<|image_pad|", b"<|audio", b"<|Audio|>", b"<|vision"]
)
def test_nearly_an_engine_marker(driver: Driver, text: bytes) -> None:
    """`device.md` §5: the markers are exact."""
    assert status_of_text(driver, text) == 202
    assert driver.phase(1) == Phase.PREPARING
