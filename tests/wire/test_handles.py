"""
The text of identities (`wire.md` §9).
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twisted_aotx.errors import LocalWireError, RemoteWireError
from twisted_aotx.wire.handles import (
    RequestHandle,
    completion_id,
    media_handle,
    parse_media_handle,
)

ID = bytes(range(16))
TEXT = "req-0123456789abcdef-000102030405060708090a0b0c0d0e0f"


def test_a_request_handle_in_both_directions() -> None:
    handle = RequestHandle(0x0123456789ABCDEF, ID)

    assert str(handle) == TEXT
    assert RequestHandle.parse(TEXT) == handle


@given(st.integers(1, 2**64 - 1), st.binary(min_size=16, max_size=16).filter(any))
def test_every_request_handle_comes_back(epoch: int, id: bytes) -> None:
    assert RequestHandle.parse(str(RequestHandle(epoch, id))) == RequestHandle(
        epoch, id
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT.upper(),
        TEXT.replace("abcdef", "ABCDEF"),
        TEXT[:-1],
        TEXT + "0",
        TEXT + "\n",
        " " + TEXT,
        TEXT.replace("req-", "req_"),
        TEXT.replace("0123456789abcdef-", "123456789abcdef-0"),
        TEXT.replace("0f", "0g"),
        TEXT.replace("0", "\u0660"),
        "media-000102030405060708090a0b0c0d0e0f",
    ],
)
def test_other_forms_are_no_request_handle(text: str) -> None:
    """cases J 152"""
    with pytest.raises(RemoteWireError) as caught:
        RequestHandle.parse(text)

    assert caught.value.field == "handle"


def test_zero_epoch_and_zero_id_are_told_apart_from_the_form() -> None:
    """cases J 152"""
    for text, field, offset in (
        ("req-" + "0" * 16 + "-" + ID.hex(), "epoch", 4),
        ("req-" + "0" * 15 + "1-" + "0" * 32, "id", 21),
    ):
        with pytest.raises(RemoteWireError) as caught:
            RequestHandle.parse(text)
        assert (caught.value.field, caught.value.offset) == (field, offset)


@pytest.mark.parametrize(
    ("epoch", "id"), [(0, ID), (2**64, ID), (-1, ID), (1, bytes(16)), (1, ID[:15])]
)
def test_handles_that_we_cannot_make(epoch: int, id: bytes) -> None:
    with pytest.raises(LocalWireError):
        RequestHandle(epoch, id)


def test_media_handles() -> None:
    text = "media-000102030405060708090a0b0c0d0e0f"

    assert media_handle(ID) == text
    assert parse_media_handle(text) == ID
    for other in (text[:-1], text + "0", text.upper(), "media-", TEXT, text + "\n"):
        with pytest.raises(RemoteWireError):
            parse_media_handle(other)


def test_a_completion_id_holds_the_request_id() -> None:
    assert completion_id(ID) == "chatcmpl-000102030405060708090a0b0c0d0e0f"
