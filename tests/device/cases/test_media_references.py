"""
Requests that refer to media: links, leases, refusals, what the engine gets
(`device.md` §5, §10, §12).
"""

from __future__ import annotations

import hashlib

import pytest

from tests.device.capacities import SMALL
from tests.device.cases.starting import Start, result
from tests.device.cases.uploading import (
    AUDIO,
    IMAGE,
    JPEG_FILE,
    TEXT,
    WAV_FILE,
    cancel,
    make_ready,
    question,
    reference,
    remove,
    seeing_engine,
    settle,
    upload,
    with_media,
)
from tests.device.driver import Driver
from tests.device.making import P2, grant, part, payload_of
from tests.media_made import make_wav
from twisted_aotx.orders import OpenOrder
from twisted_aotx.wire.numbers import Phase

TEMPLATE, CALLER, LINK = 0, 1, 2


@pytest.fixture
def driver(start: Start) -> Driver:
    """A picture (1) and a sound (2) of P1 are ready."""
    driver = with_media(start)
    make_ready(driver, 1, JPEG_FILE)
    make_ready(driver, 2, WAV_FILE)
    return driver


def link(kind: bytes, data: bytes) -> bytes:
    return b"[" + kind + b":" + hashlib.sha256(data).hexdigest().encode() + b"]"


def open_order(driver: Driver) -> OpenOrder:
    (order,) = driver.opens()
    return order


def test_links(driver: Driver) -> None:
    """`device.md` §5: 72 bytes of class link; sources in order of reference."""
    payload = question(
        part(b"see "), reference(JPEG_FILE), part(b" hear "), reference(WAV_FILE)
    )
    assert driver.submit(1, payload=payload) == 202
    order = open_order(driver)

    picture, sound = link(b"image", JPEG_FILE), link(b"audio", WAV_FILE)
    assert len(picture) == 72
    assert order.rendered == b"PUsee " + picture + b" hear " + sound + b"uG()"
    at = order.rendered.index(picture)
    spans = dict(order.spans)
    assert spans[at] == CALLER
    assert spans[at + 72] == LINK
    assert spans[at + 72 + 6 + 72] == LINK
    first, second = order.sources
    assert (first.kind, first.format, first.samples, first.rows) == (1, 1, 0, 70)
    assert (second.kind, second.format) == (2, 3)
    assert (second.samples, second.rows) == (400, 1)
    assert (first.data, second.data) == (JPEG_FILE, WAV_FILE)
    assert first.sha256 == hashlib.sha256(JPEG_FILE).digest()
    assert order.payload == payload


def test_links_are_no_markers(driver: Driver) -> None:
    """`device.md` §5: only text that the caller wrote is looked at."""
    payload = question(reference(JPEG_FILE), reference(JPEG_FILE), part(b":"))
    assert driver.submit(1, payload=payload) == 202
    assert driver.submit(2, payload=question(part(b"[image"), reference(JPEG_FILE)))
    payload = question(part(b"[ima"), reference(JPEG_FILE), part(b"ge:"))
    assert driver.submit(3, payload=payload) == 202
    payload = question(reference(JPEG_FILE), part(b"[image:"))
    assert driver.submit(4, payload=payload) == 400
    assert len(driver.opens()[0].sources) == 2


def digest_part(kind: int, size: int = 32) -> bytes:
    return part(hashlib.sha256(JPEG_FILE).digest()[:size].ljust(size, b"\1"), kind)


def test_digest_parts_of_wrong_shape(driver: Driver) -> None:
    """`device.md` §5: 400."""
    for wrong in (
        digest_part(3),
        digest_part(2**31),
        digest_part(1, 31),
        digest_part(1, 33),
        digest_part(1, 0),
    ):
        assert driver.submit(1, payload=question(wrong)) == 400
    for role in (0, 2):
        head = role.to_bytes(4, "little") + (1).to_bytes(4, "little")
        assert driver.submit(1, payload=payload_of(head + digest_part(1))) == 400
    assert driver.submit(1, payload=question(digest_part(1))) == 202


@pytest.mark.parametrize(
    ("modalities", "image", "audio"),
    [(TEXT, 400, 400), (TEXT | IMAGE, 404, 400), (TEXT | AUDIO, 400, 404)],
)
def test_modality_that_the_role_lacks(
    start: Start, modalities: int, image: int, audio: int
) -> None:
    """`device.md` §5: also where another role has it."""
    driver = start(
        engines=[seeing_engine(modalities=modalities), seeing_engine(role=3)]
    )
    driver.install(grant(models=0b1100))

    for kind, status in ((1, image), (2, audio)):
        payload = question(digest_part(kind))
        assert driver.submit(1, payload=payload) == status
        assert driver.submit(1, payload=payload, role=3) == 404


def test_sources_that_are_not_there(driver: Driver) -> None:
    """`device.md` §5: own, ready, of that digest and that family, else 404."""
    assert driver.submit(1, P2, payload=question(reference(JPEG_FILE))) == 404
    assert driver.submit(1, payload=question(reference(make_wav(401)))) == 404
    # The shape of the whole payload comes first.
    assert driver.submit(1, payload=question(reference(make_wav(401))) + b"\0") == 400
    assert driver.submit(1, payload=question(reference(JPEG_FILE, kind=2))) == 404
    assert driver.submit(1, payload=question(reference(WAV_FILE, kind=1))) == 404
    other = make_wav(500)
    upload(driver, 3, other)
    assert driver.submit(1, payload=question(reference(other))) == 404
    settle(driver)
    assert driver.submit(1, payload=question(reference(other))) == 404
    driver.store()
    assert driver.submit(1, payload=question(reference(other))) == 202
    remove(driver, 2)
    assert driver.submit(2, payload=question(reference(WAV_FILE))) == 404


def test_references_beyond_the_prompt(driver: Driver) -> None:
    """`device.md` §5: rendered bytes; 56 links fit into 4,096 bytes, 57 do not."""
    assert SMALL.prompt_bytes // 72 == 56
    links = [reference(WAV_FILE)] * 57

    def payload(count: int) -> bytes:
        head = (1).to_bytes(4, "little")
        halves = links[: count // 2], links[count // 2 : count]
        return payload_of(
            *(head + len(h).to_bytes(4, "little") + b"".join(h) for h in halves)
        )

    assert driver.submit(1, payload=payload(57)) == 413
    assert driver.submit(1, payload=payload(56)) == 202
    assert len(open_order(driver).sources) == 56
    assert cancel(driver, 2)[0] == 409
    driver.cancel(1)
    driver.step()
    assert remove(driver, 2)[0] == 200


def test_refused_submits_hold_nothing(driver: Driver) -> None:
    """`device.md` §4: no effect before row 11."""
    long = question(reference(WAV_FILE), part(b"x" * SMALL.prompt_bytes))
    assert driver.submit(1, payload=long) == 413
    late = question(reference(WAV_FILE), part(b"\xff"))
    assert driver.submit(1, payload=late) == 400
    missing = question(reference(WAV_FILE), reference(make_wav(555)))
    assert driver.submit(1, payload=missing) == 404

    assert remove(driver, 2)[0] == 200


def test_forbidden_markers_beside_links(driver: Driver) -> None:
    """`device.md` §5: admitted, then failed with 400; the lease ends."""
    payload = question(reference(WAV_FILE), part(b"<|audio_"))
    assert driver.submit(1, payload=payload) == 202
    driver.step()

    assert result(driver.read(1)[0]) == (Phase.FAILED, 400, 0, 0)
    assert list(driver.take_orders()) == []
    assert remove(driver, 2)[0] == 200


LONG = part(b"x" * SMALL.prompt_bytes)
UNKNOWN = reference(b"nobody's")


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        # The shape of the whole payload first …
        ((UNKNOWN, part(b"", 3)), 400),
        ((LONG, part(bytes(31), IMAGE)), 400),
        # … then part by part.
        ((UNKNOWN, part(b"\xff")), 404),
        ((part(b"\xff"), UNKNOWN), 400),
        ((UNKNOWN, LONG), 404),
        ((LONG, UNKNOWN), 413),
        ((LONG, part(b"\xff")), 413),
        ((part(b"\xff"), LONG), 400),
        ((part(b"[image:"), LONG), 400),
        ((part(b"[image:" + b"x" * SMALL.prompt_bytes),), 413),
        ((part(b"x" * (SMALL.prompt_bytes - 72)), UNKNOWN), 413),
        ((part(b"x" * (SMALL.prompt_bytes - 74)), UNKNOWN), 404),
    ],
)
def test_of_two_faults_one_is_told(
    driver: Driver, parts: tuple[bytes, ...], status: int
) -> None:
    """`device.md` §5: which one follows from the order alone, so it never changes."""
    assert driver.submit(1, payload=question(*parts)) == status
