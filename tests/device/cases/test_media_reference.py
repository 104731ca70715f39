"""
Media and the engine in the device's kernels (`device.md` §17, docs/reference-model.md).
"""

from __future__ import annotations

import pytest

from tests.device.capacities import SMALL
from tests.device.cases.starting import Start
from tests.device.cases.uploading import (
    JPEG_FILE,
    WAV_FILE,
    make_ready,
    question,
    reference,
    remove,
)
from tests.device.driver import Driver
from tests.device.making import grant, kernel_engine, part
from tests.media_made import make_jpeg, make_wav
from twisted_aotx.engines.reference import CONTROLS
from twisted_aotx.wire.numbers import Phase


@pytest.fixture
def driver(start: Start) -> Driver:
    """The model of role 2 takes everything; a picture and a sound are ready."""
    engine = kernel_engine(
        2,
        capacity=4,
        sequence_tokens=SMALL.sequence_tokens,
        modalities=7,
        controls=CONTROLS,
    )
    driver = start(engines=[engine])
    driver.install(grant(actions=3, requests=16, media=16, media_bytes=1 << 20))
    make_ready(driver, 1, JPEG_FILE)
    make_ready(driver, 2, WAV_FILE)
    return driver


def say(driver: Driver, number: int, *parts: bytes) -> tuple[int, bytes]:
    """Prompt tokens and output of a request with temperature 0."""
    assert driver.submit(number, payload=question(*parts), limit=40) == 202
    for _ in range(20):
        reply, data = driver.read(number)
        if reply.phase not in (Phase.QUEUED, Phase.PREPARING, Phase.RUNNING):
            break
    assert reply.phase == Phase.COMPLETED
    return reply.prompt_tokens, data


def test_rows_are_prompt_tokens(driver: Driver) -> None:
    """`device.md` §5: rendered bytes and the rows of every reference."""
    plain, _ = say(driver, 1, part(b"x" * 72))
    one, _ = say(driver, 2, reference(JPEG_FILE))
    two, _ = say(driver, 3, reference(JPEG_FILE), reference(WAV_FILE))
    twice, _ = say(driver, 4, reference(JPEG_FILE), reference(JPEG_FILE))

    assert one == plain + 70
    assert two == plain + 70 + 72 + 1
    assert twice == plain + 2 * 70 + 72


def test_output_depends_on_the_sources(driver: Driver) -> None:
    """`device.md` §17: which they are, and their order."""
    make_ready(driver, 3, make_jpeg(seed=3))
    first, second = reference(JPEG_FILE), reference(make_jpeg(seed=3))
    outputs = [
        say(driver, number, *parts)[1]
        for number, parts in enumerate(
            ([first], [second], [first, second], [second, first], [first, first]),
            start=1,
        )
    ]

    assert len(set(outputs)) == 5


def test_many_bytes(driver: Driver) -> None:
    """docs/reference-model.md, Pace: sources longer than a tick's share."""
    long = make_wav(100_000)
    make_ready(driver, 3, long)
    assert driver.submit(1, payload=question(reference(long))) == 202
    phases = [driver.phase(1) for _ in range(5)]

    # 200,044 bytes in shares of 65,536.
    assert phases[:3] == [Phase.PREPARING] * 3
    assert phases[-1] in (Phase.RUNNING, Phase.COMPLETED)
    assert driver.cancel(1)[0].status == 200
    driver.step()
    assert remove(driver, 3)[0] == 200


def test_cancel_while_it_is_hashed(driver: Driver) -> None:
    """`device.md` §9: the lease ends, and its sources are free."""
    long = make_wav(100_000)
    make_ready(driver, 3, long)
    driver.submit(1, payload=question(reference(long)))
    driver.step()
    driver.cancel(1)
    driver.step()

    assert remove(driver, 3)[0] == 200
    assert say(driver, 2, reference(WAV_FILE))[0] > 72


def test_selection_beside_media(driver: Driver) -> None:
    """docs/reference-model.md, Controls: they go together."""
    outputs = {say(driver, 50, reference(WAV_FILE))[1]}
    choices = [(row, dose) for row in CONTROLS for dose in row.doses]
    for number, (control, dose) in enumerate(choices, start=1):
        tail = (
            b"\1\0\0\0\1\0\0\0"
            + dose.to_bytes(4, "little", signed=True)
            + bytes(4)
            + control.qualification_sha256
        )
        payload = question(reference(WAV_FILE)) + tail
        status = driver.submit(number, payload=payload, selector_bytes=48, limit=40)
        assert status == 202
        for _ in range(8):
            data = driver.read(number)[1]
        outputs.add(data)

    # Short of a corpus that has more to say.
    assert len(outputs) > 2
