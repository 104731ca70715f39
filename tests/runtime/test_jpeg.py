"""
Which images decode, and that a decoder's words go nowhere (`device.md` §13, D12).
"""

from __future__ import annotations

import warnings
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.media_made import make_jpeg
from twisted_aotx.runtime import jpeg
from twisted_aotx.runtime.jpeg import fault_of

WIDTH, HEIGHT = 24, 16


def decodes(file: BytesIO, width: int, height: int) -> bool:
    return not fault_of(file, width, height)


GOOD = make_jpeg(WIDTH, HEIGHT)


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize(
    ("mode", "sampling"),
    [("RGB", "4:4:4"), ("RGB", "4:2:2"), ("RGB", "4:2:0"), ("L", "4:4:4")],
)
@pytest.mark.parametrize("restart", [0, 1])
def test_every_kind_that_the_kernels_take_decodes(
    mode: str, sampling: str, progressive: bool, restart: int
) -> None:
    """Cases G 113."""
    image = make_jpeg(
        WIDTH, HEIGHT, mode, sampling=sampling, progressive=progressive, restart=restart
    )

    assert decodes(BytesIO(image), WIDTH, HEIGHT)


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 200), (8192, 41)])
def test_odd_sizes_decode(width: int, height: int) -> None:
    assert decodes(BytesIO(make_jpeg(width, height)), width, height)


@pytest.mark.parametrize(("width", "height"), [(25, 16), (24, 15), (16, 24)])
def test_another_size_than_the_kernels_read_is_refused_before_any_pixel(
    monkeypatch: pytest.MonkeyPatch, width: int, height: int
) -> None:
    loaded: list[Any] = []
    monkeypatch.setattr(Image.Image, "load", lambda self: loaded.append(self))

    assert not decodes(BytesIO(GOOD), width, height)
    assert loaded == []


def test_an_image_that_is_cut_anywhere_is_refused() -> None:
    """Bug report B81: a JPEG cut at every 1/16."""
    cuts = [len(GOOD) * n // 16 for n in range(16)]

    assert [decodes(BytesIO(GOOD[:cut]), WIDTH, HEIGHT) for cut in cuts] == [False] * 16


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xd8", b"\x89PNG\r\n\x1a\n" + bytes(100), b"GIF89a" + bytes(99)]
)
def test_what_is_no_jpeg_is_refused(data: bytes) -> None:
    assert not decodes(BytesIO(data), WIDTH, HEIGHT)


def test_other_formats_that_pillow_knows_are_refused() -> None:
    out = BytesIO()
    Image.new("RGB", (WIDTH, HEIGHT)).save(out, "PNG")

    assert not decodes(BytesIO(out.getvalue()), WIDTH, HEIGHT)


def test_a_warning_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL.JpegImagePlugin import JpegImageFile

    def load(self: Any) -> None:
        warnings.warn_explicit("odd", UserWarning, "x.py", 1, "PIL.JpegImagePlugin")

    monkeypatch.setattr(JpegImageFile, "load", load)

    assert not decodes(BytesIO(GOOD), WIDTH, HEIGHT)


@pytest.mark.parametrize(
    "error", [MemoryError(), RecursionError(), ValueError("SECRET")]
)
def test_whatever_the_decoder_raises_is_a_refusal_and_its_words_are_not_told(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def decode(*_: object) -> None:
        raise error

    monkeypatch.setattr(jpeg, "_decode", decode)

    assert fault_of(BytesIO(GOOD), WIDTH, HEIGHT) == type(error).__name__


@given(at=st.integers(2, len(GOOD) - 1), value=st.integers(0, 255))
def test_a_byte_that_changed_raises_nothing(at: int, value: int) -> None:
    damaged = GOOD[:at] + bytes([value]) + GOOD[at + 1 :]

    assert decodes(BytesIO(damaged), WIDTH, HEIGHT) in (True, False)
