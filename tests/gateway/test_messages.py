"""
Messages and their parts: the rows of `http.md` §5 that judge them.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.form_samples import (
    AUDIO,
    BOTH,
    IMAGE,
    MEDIA,
    TERMS,
    Judge,
    assert_invalid,
    body,
    said,
)
from twisted_aotx.gateway.forms import completion, native
from twisted_aotx.wire.numbers import PartKind
from twisted_aotx.wire.requests import DigestPart, TextPart


@BOTH
@pytest.mark.parametrize("messages", [[], {}, "hi", None, 5])
def test_messages_are_a_list(judge: Judge, messages: Any) -> None:
    assert_invalid(judge, body(messages=messages), "messages")


@BOTH
def test_there_are_at_most_64_messages(judge: Judge) -> None:
    message = {"role": "user", "content": ""}

    assert len(judge(body(messages=[message] * 64), TERMS).submission.messages) == 64
    assert_invalid(judge, body(messages=[message] * 65), "messages")


@BOTH
@pytest.mark.parametrize(
    "message",
    [
        "hi",
        {},
        {"role": "user"},
        {"content": "hi"},
        {"role": "user", "content": "hi", "name": "x"},
        {"role": "user", "content": "hi", "other": None},
        {"role": "assistant", "content": "hi", "tool_calls": []},
    ],
)
def test_a_message_has_role_and_content(judge: Judge, message: Any) -> None:
    assert_invalid(judge, body(messages=[message]), "messages")


def test_an_answer_s_message_can_be_sent_back() -> None:
    """
    D17: what our own answer holds beside role and content is null, so it is absent.
    """
    message = {"role": "assistant", "content": "hi", "refusal": None}

    form = completion(body(messages=[message]), TERMS)

    assert form == completion(said("hi", "assistant"), TERMS)
    assert_invalid(native, body(messages=[message]), "messages")


@BOTH
@pytest.mark.parametrize(
    ("role", "number"), [("system", 0), ("user", 1), ("assistant", 2)]
)
def test_roles(judge: Judge, role: str, number: int) -> None:
    assert judge(said("x", role), TERMS).submission.messages[0].role == number


@BOTH
@pytest.mark.parametrize("role", ["", "User", "tool", "function", None, 1, [], {}])
def test_other_roles_are_refused(judge: Judge, role: Any) -> None:
    assert_invalid(judge, said("x", role), "messages.role")


def test_developer_is_system_on_the_standard_route() -> None:
    """
    D17.
    """
    assert completion(said("x", "developer"), TERMS) == completion(
        said("x", "system"), TERMS
    )
    assert_invalid(native, said("x", "developer"), "messages.role")


@BOTH
@pytest.mark.parametrize("content", [None, 5, {}, [], True])
def test_content_is_a_string_or_parts(judge: Judge, content: Any) -> None:
    assert_invalid(judge, said(content), "messages.content")


@BOTH
def test_content_may_be_empty_text(judge: Judge) -> None:
    parts = judge(said(""), TERMS).submission.messages[0].parts

    assert parts == (TextPart(b""),)


@BOTH
def test_there_are_at_most_32_parts(judge: Judge) -> None:
    part = {"type": "text", "text": "щ"}

    taken = judge(said([part] * 32), TERMS).submission.messages[0].parts

    assert taken == (TextPart("щ".encode()),) * 32
    assert_invalid(judge, said([part] * 33), "messages.content")


@BOTH
@pytest.mark.parametrize(
    ("part", "param"),
    [
        ("hi", "messages.content"),
        ({}, "messages.content"),
        ({"text": "hi"}, "messages.content"),
        ({"type": "text"}, "messages.content"),
        ({"type": "text", "text": "hi", "x": 1}, "messages.content"),
        ({"type": "text", "text": None}, "messages.content.text"),
        ({"type": "text", "text": 5}, "messages.content.text"),
        ({"type": "text", "text": ["hi"]}, "messages.content.text"),
        ({"type": "image", "image": ""}, "messages.content.type"),
        ({"type": None, "text": "hi"}, "messages.content.type"),
        ({"type": ["text"], "text": "hi"}, "messages.content.type"),
    ],
)
def test_parts_have_exact_keys(judge: Judge, part: Any, param: str) -> None:
    assert_invalid(judge, said([part]), param)


SECRET_URL = "data:image/jpeg;base64,SECRETsecret"


def image(**fields: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": fields}


def audio(**fields: Any) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": fields}


@BOTH
@pytest.mark.parametrize("part", [IMAGE, AUDIO])
def test_media_need_a_model_that_takes_them(judge: Judge, part: dict[str, Any]) -> None:
    assert_invalid(judge, said([part]), "messages.content")


@pytest.mark.parametrize("modality", ["image", "audio"])
def test_a_media_part_needs_a_model_that_takes_it(modality: str) -> None:
    part = MEDIA | {"modality": modality}

    assert_invalid(native, said([part]), "messages.content")


@BOTH
@pytest.mark.parametrize(
    "part",
    [
        IMAGE,
        AUDIO,
        image(url="data:image/jpeg;base64,/9j/4A==", detail="auto"),
        image(url="https://example.org/a.jpg"),
    ],
)
def test_media_that_a_model_takes(judge: Judge, part: dict[str, Any]) -> None:
    """
    What stands in them is looked at later.
    """
    text = {"type": "text", "text": "and"}
    form = judge(said([part, text, part]) | {"model": "org/every"}, TERMS)

    first, between, last = form.submission.messages[0].parts
    assert isinstance(between, TextPart)
    kind = PartKind.AUDIO if "input_audio" in part else PartKind.IMAGE
    assert first == last == DigestPart(kind, bytes(32))
    assert [source.kind for source in form.media] == [kind, kind]
    settled = form.settled([b"a" * 32, b"b" * 32])
    assert settled.media == ()
    assert settled.submission.messages[0].parts == (
        DigestPart(kind, b"a" * 32),
        between,
        DigestPart(kind, b"b" * 32),
    )


def test_bytes_and_urls_of_media_are_in_no_repr() -> None:
    for part in (image(url="https://secret.example/"), image(url=SECRET_URL)):
        form = completion(said([part]) | {"model": "org/every"}, TERMS)
        assert "secret" not in repr((form, form.media)).lower()


@BOTH
@pytest.mark.parametrize(
    ("part", "param"),
    [
        (IMAGE | {"x": 1}, "messages.content"),
        ({"type": "image_url"}, "messages.content"),
        ({"type": "image_url", "image_url": "http://x/"}, "image_url"),
        (image(), "image_url"),
        (image(detail="auto"), "image_url"),
        (image(url=""), "image_url"),
        (image(url=5), "image_url"),
        (image(url="https://x/", other=1), "image_url"),
        (image(url="https://x/", detail="high"), "image_url"),
        (image(url="https://x/", detail="low"), "image_url"),
        (image(url="data:image/png;base64,AAAA"), "image_url"),
        (image(url="data:image/JPEG;base64,AAAA"), "image_url"),
        (image(url="data:image/jpeg,AAAA"), "image_url"),
        (AUDIO | {"x": 1}, "messages.content"),
        ({"type": "input_audio", "input_audio": []}, "input_audio"),
        (audio(data="AAAA"), "input_audio"),
        (audio(data="AAAA", format="mp3"), "input_audio"),
        (audio(data="AAAA", format=["wav"]), "input_audio"),
        (audio(data=5, format="wav"), "input_audio"),
        (audio(data="AAAA", format="wav", x=1), "input_audio"),
    ],
)
def test_media_of_another_shape(judge: Judge, part: dict[str, Any], param: str) -> None:
    """
    cases I 146: the shape is judged whatever the model takes.
    """
    assert_invalid(judge, said([part]), param)
    assert_invalid(judge, said([part]) | {"model": "org/every"}, param)


def test_detail_may_be_null_on_the_standard_route() -> None:
    """
    D17: `detail` is optional too.
    """
    part = image(url="https://x/", detail=None)

    assert completion(said([part]) | {"model": "org/every"}, TERMS).media
    assert_invalid(native, said([part]), "image_url")


@BOTH
@pytest.mark.parametrize("role", ["system", "assistant"])
@pytest.mark.parametrize("part", [IMAGE, AUDIO])
def test_only_users_send_media(judge: Judge, role: str, part: dict[str, Any]) -> None:
    """
    cases I 146: image in assistant message.
    """
    wrong = said([part], role) | {"model": "org/every"}

    assert_invalid(judge, wrong, "messages.content")


def test_media_parts_are_native() -> None:
    assert_invalid(completion, said([MEDIA]), "messages.content.type")
    assert_invalid(native, said([MEDIA], "system"), "messages.content")


@pytest.mark.parametrize(
    ("part", "param"),
    [
        (MEDIA | {"x": 1}, "messages.content"),
        ({"type": "media", "modality": "image"}, "messages.content"),
        (MEDIA | {"modality": "text"}, "modality"),
        (MEDIA | {"modality": None}, "modality"),
        (MEDIA | {"modality": ["image"]}, "modality"),
        (MEDIA | {"media_id": "media-" + "A" * 32}, "media_id"),
        (MEDIA | {"media_id": "media-" + "a" * 31}, "media_id"),
        (MEDIA | {"media_id": "media-" + "0" * 32}, "media_id"),
        (MEDIA | {"media_id": "req-" + "a" * 32}, "media_id"),
        (MEDIA | {"media_id": 5}, "media_id"),
    ],
)
def test_media_parts_have_one_form(part: dict[str, Any], param: str) -> None:
    assert_invalid(native, said([part]), param)
