"""
Bodies of completions and native requests: every row of `http.md` §5, D17.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from twisted_aotx.errors import Problem
from twisted_aotx.gateway.forms import Form, Terms, completion, native
from twisted_aotx.limits import PAYLOAD_BYTES_MAX
from twisted_aotx.wire.info import ModelRow
from twisted_aotx.wire.numbers import MessageRole, Modality
from twisted_aotx.wire.requests import Message, Selector, TextPart, encode

Judge = Callable[[dict[str, Any], Terms], Form]

TEXT_ROW = ModelRow(role=2, modalities=Modality.TEXT, sha256=b"m" * 32)
EVERY_ROW = ModelRow(role=4, modalities=7, sha256=b"e" * 32)
TERMS = Terms(
    models={"m": TEXT_ROW, "org/every": EVERY_ROW},
    output_tokens=300,
    prompt_bytes=PAYLOAD_BYTES_MAX,
    control_selection=True,
)
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AAAA"}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
MEDIA = {"type": "media", "media_id": "media-" + "a" * 32, "modality": "image"}
CONTROL = {
    "schema": "aotx.control.selection.v1",
    "kind": "residual_vector",
    "qualification_sha256": "ab" * 32,
    "dose": -40000,
}
BOTH = pytest.mark.parametrize("judge", [completion, native])


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}]} | fields


def said(content: Any, role: str = "user") -> dict[str, Any]:
    return body(messages=[{"role": role, "content": content}])


def each(name: str, *values: Any) -> list[tuple[str, Any]]:
    return [(name, value) for value in values]


def refused(judge: Judge, body: dict[str, Any], terms: Terms = TERMS) -> Problem:
    with pytest.raises(Problem) as caught:
        judge(body, terms)
    return caught.value


def assert_invalid(judge: Judge, body: dict[str, Any], param: str) -> None:
    problem = refused(judge, body)
    assert (problem.status, problem.code, problem.param) == (
        400,
        "invalid_field",
        param,
    )


@BOTH
def test_the_least_body_is_taken_with_its_defaults(judge: Judge) -> None:
    """
    cases I 139: limit min(256, grant), temperature and top_p 1.0.
    """
    form = judge(body(), TERMS)

    assert (form.model, form.stream, form.include_usage) == ("m", False, False)
    submission = form.submission
    assert (submission.role, submission.limit) == (2, 256)
    assert (submission.temperature, submission.top_p) == (1.0, 1.0)
    assert submission.messages == (Message(MessageRole.USER, (TextPart(b"hi"),)),)
    assert submission.selector == b""


@BOTH
@pytest.mark.parametrize(("granted", "limit"), [(1, 1), (255, 255), (257, 256)])
def test_the_default_limit_is_the_grant_s_when_that_is_less(
    judge: Judge, granted: int, limit: int
) -> None:
    terms = Terms(
        models=TERMS.models,
        output_tokens=granted,
        prompt_bytes=100,
        control_selection=False,
    )

    assert judge(body(), terms).submission.limit == limit


@BOTH
@pytest.mark.parametrize(
    "wrong",
    [
        body(temprature=1),
        body(top_logprobs=1),
        body(control_=None),
        {"messages": [{"role": "user", "content": "hi"}]},
        {"model": "m"},
        {},
    ],
)
def test_unknown_and_missing_keys_are_the_body_s_fault(
    judge: Judge, wrong: dict[str, Any]
) -> None:
    assert_invalid(judge, wrong, "body")


@BOTH
@pytest.mark.parametrize("model", ["", "M", "m ", "other", None, 7, ["m"], {"m": 1}])
def test_a_model_that_is_not_available_is_not_found(judge: Judge, model: Any) -> None:
    problem = refused(judge, body(model=model))

    assert (problem.status, problem.code, problem.param) == (
        404,
        "model_not_found",
        "model",
    )


def test_an_alias_gives_its_role() -> None:
    assert native(body(model="org/every"), TERMS).submission.role == 4


@pytest.mark.parametrize(("stream", "taken"), [(True, True), (False, False)])
def test_stream_is_a_boolean(stream: bool, taken: bool) -> None:
    assert completion(body(stream=stream), TERMS).stream is taken


def test_a_native_request_does_not_stream() -> None:
    """
    cases J 148.
    """
    assert native(body(stream=False), TERMS).stream is False
    assert_invalid(native, body(stream=True), "stream")
    assert_invalid(
        native, body(stream_options={"include_usage": True}), "stream_options"
    )


@BOTH
@pytest.mark.parametrize("stream", [0, 1, "true", "", []])
def test_stream_is_nothing_else(judge: Judge, stream: Any) -> None:
    assert_invalid(judge, body(stream=stream), "stream")


@pytest.mark.parametrize("wanted", [True, False])
def test_usage_of_a_stream_is_an_option(wanted: bool) -> None:
    options = {"include_usage": wanted}

    assert (
        completion(body(stream=True, stream_options=options), TERMS).include_usage
        is wanted
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"include_usage": 1},
        {"include_usage": None},
        {"include_usage": True, "include_obfuscation": False},
        {"includeUsage": True},
        [],
        True,
        "include_usage",
    ],
)
def test_stream_options_have_one_form(options: Any) -> None:
    assert_invalid(
        completion, body(stream=True, stream_options=options), "stream_options"
    )


@pytest.mark.parametrize("stream", [{}, {"stream": False}, {"stream": None}])
def test_stream_options_need_a_stream(stream: dict[str, Any]) -> None:
    """
    B43: with `stream: false` they are refused.
    """
    options = {"include_usage": True}

    assert_invalid(completion, body(stream_options=options, **stream), "stream_options")


@BOTH
@pytest.mark.parametrize(
    ("name", "value"), [("n", 1), ("modalities", ["text"]), ("store", False)]
)
def test_fields_with_one_value_are_taken(judge: Judge, name: str, value: Any) -> None:
    assert judge(body(**{name: value}), TERMS) == judge(body(), TERMS)


@BOTH
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *each("n", 0, 2, True, 1.0, "1", []),
        *each("modalities", [], ["audio"], ["text", "audio"], ["text", "text"], "text"),
        *each("store", True, 0, "false", []),
    ],
)
def test_fields_with_one_value_have_no_other(
    judge: Judge, name: str, value: Any
) -> None:
    assert_invalid(judge, body(**{name: value}), name)


@BOTH
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("limit", [1, 300])
def test_a_limit_within_the_grant_is_taken(judge: Judge, name: str, limit: int) -> None:
    """
    B53: 1 is a limit too.
    """
    assert judge(body(**{name: limit}), TERMS).submission.limit == limit


@BOTH
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("limit", [0, -1, 301, True, 1.0, "1", [], 10**300])
def test_a_limit_beyond_the_grant_is_refused(
    judge: Judge, name: str, limit: Any
) -> None:
    assert_invalid(judge, body(**{name: limit}), "max_completion_tokens")


@BOTH
def test_two_limits_are_one_too_many(judge: Judge) -> None:
    limits = {"max_tokens": 5, "max_completion_tokens": 5}

    assert_invalid(judge, body(**limits), "max_completion_tokens")


@BOTH
@pytest.mark.parametrize(
    ("given", "temperature"), [(0, 0.0), (0.0, 0.0), (-0.0, 0.0), (2, 2.0), (1.5, 1.5)]
)
def test_temperature_within_its_range(
    judge: Judge, given: float, temperature: float
) -> None:
    taken = judge(body(temperature=given), TERMS).submission.temperature

    assert repr(taken) == repr(temperature)


@BOTH
@pytest.mark.parametrize("given", [-0.01, 2.01, -1, 3, True, "1", [], 10**300])
def test_temperature_beyond_its_range(judge: Judge, given: Any) -> None:
    assert_invalid(judge, body(temperature=given), "temperature")


@BOTH
@pytest.mark.parametrize(
    ("given", "top_p"), [(1, 1.0), (1.0, 1.0), (0.25, 0.25), (1e-300, 2.0**-126)]
)
def test_top_p_within_its_range(judge: Judge, given: float, top_p: float) -> None:
    """
    What is above 0 here is above 0 in a binary32 too.
    """
    assert judge(body(top_p=given), TERMS).submission.top_p == top_p


@BOTH
@pytest.mark.parametrize("given", [0, 0.0, -0.1, 1.01, 2, True, "1", {}])
def test_top_p_beyond_its_range(judge: Judge, given: Any) -> None:
    assert_invalid(judge, body(top_p=given), "top_p")


OPTIONAL = [
    *("stream", "stream_options", "n", "modalities", "store", "max_tokens"),
    *("max_completion_tokens", "temperature", "top_p"),
]
NEUTRAL: list[tuple[str, Any]] = [
    ("frequency_penalty", 0),
    ("frequency_penalty", 0.0),
    ("presence_penalty", 0),
    ("presence_penalty", -0.0),
    ("logprobs", False),
    ("logit_bias", {}),
    ("stop", []),
    ("tools", []),
    ("tool_choice", "none"),
    ("response_format", {"type": "text"}),
    ("parallel_tool_calls", True),
    ("parallel_tool_calls", False),
    ("service_tier", "auto"),
    ("user", ""),
    ("user", "someone"),
    ("metadata", {}),
    ("metadata", {"a": "b", "c": ""}),
]
NOT_NEUTRAL: list[tuple[str, Any]] = [
    *each("frequency_penalty", 0.1, -1, False, "0"),
    *each("presence_penalty", 0.1, -1, False, []),
    *each("logprobs", True, 0, "false"),
    *each("logit_bias", {"1": 1}, [], 0),
    *each("stop", ["x"], "x", "", {}),
    *each("tools", [{"type": "function"}], {}, "none"),
    *each("tool_choice", "auto", "required", {"type": "none"}, []),
    *each(
        "response_format", {"type": "json_object"}, {}, "text", {"type": "text", "x": 1}
    ),
    *each("parallel_tool_calls", 0, 1, "true", []),
    *each("service_tier", "default", "", 0, []),
    *each("user", 1, [], {}, True),
    *each("metadata", [], "x", {"a": 1}, {"a": None}, {"a": {}}),
    *each("seed", 0, 1),
]


@pytest.mark.parametrize(("name", "value"), NEUTRAL)
def test_neutral_values_change_nothing(name: str, value: Any) -> None:
    """
    D17: what cannot change the result is accepted on the standard route only.
    """
    assert completion(body(**{name: value}), TERMS) == completion(body(), TERMS)
    assert_invalid(native, body(**{name: value}), "body")


@pytest.mark.parametrize(("name", "value"), NOT_NEUTRAL)
def test_every_other_value_is_refused_by_name(name: str, value: Any) -> None:
    """
    D17: every other value is refused with its name in `param`.
    """
    assert_invalid(completion, body(**{name: value}), name)
    assert_invalid(native, body(**{name: value}), "body")


@pytest.mark.parametrize("temperature", [0, 0.0])
@pytest.mark.parametrize("seed", [0, -5, 2**63, 10**300])
def test_a_seed_is_neutral_when_nothing_is_sampled(
    temperature: float, seed: int
) -> None:
    """
    D17: any integer when temperature is given as 0.
    """
    form = completion(body(temperature=temperature, seed=seed), TERMS)

    assert form == completion(body(temperature=0), TERMS)


@pytest.mark.parametrize(
    "fields",
    [
        {"seed": 1, "temperature": 0.1},
        {"seed": 1, "temperature": None},
        {"seed": True, "temperature": 0},
        {"seed": 1.0, "temperature": 0},
        {"seed": "1", "temperature": 0},
    ],
)
def test_a_seed_is_refused_otherwise(fields: dict[str, Any]) -> None:
    assert_invalid(completion, body(**fields), "seed")


@pytest.mark.parametrize(
    "name", [*OPTIONAL, *sorted({name for name, _ in NEUTRAL}), "seed"]
)
def test_null_is_absent_on_the_standard_route(name: str) -> None:
    """
    D17, B51: null for any optional field means absent.
    """
    assert completion(body(**{name: None}), TERMS) == completion(body(), TERMS)


@pytest.mark.parametrize("name", OPTIONAL)
def test_null_is_refused_on_the_native_route(name: str) -> None:
    param = "max_completion_tokens" if name == "max_tokens" else name

    assert_invalid(native, body(**{name: None}), param)


def test_null_is_no_second_limit() -> None:
    form = completion(body(max_tokens=5, max_completion_tokens=None), TERMS)

    assert form.submission.limit == 5


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
def test_media_are_unavailable_to_a_model_that_would_take_them(
    judge: Judge, part: dict[str, Any]
) -> None:
    """
    The shape is accepted; the device has no media yet.
    """
    problem = refused(judge, said([part]) | {"model": "org/every"})

    assert (problem.status, problem.code) == (503, "device_refused")


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
        (image(url="data:image/jpeg;base64,AA AA"), "image_url"),
        (image(url="data:image/jpeg;base64,AAAA\n"), "image_url"),
        (image(url="data:image/jpeg;base64,AAA"), "image_url"),
        (image(url="data:image/jpeg;base64,AB=="), "image_url"),
        (image(url="data:image/jpeg;base64,AA="), "image_url"),
        (image(url="data:image/jpeg;base64,AA==AAAA"), "image_url"),
        (image(url="data:image/jpeg;base64,A-_A"), "image_url"),
        (image(url="data:image/jpeg;base64,éAAA"), "image_url"),
        (AUDIO | {"x": 1}, "messages.content"),
        ({"type": "input_audio", "input_audio": []}, "input_audio"),
        (audio(data="AAAA"), "input_audio"),
        (audio(data="AAAA", format="mp3"), "input_audio"),
        (audio(data="AAAA", format=["wav"]), "input_audio"),
        (audio(data=5, format="wav"), "input_audio"),
        (audio(data="AB==", format="wav"), "input_audio"),
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

    assert refused(completion, said([part]) | {"model": "org/every"}).status == 503
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


@BOTH
@pytest.mark.parametrize("text", ["x" * 10, "щ" * 5, "😀😀xx"])
def test_text_fills_the_prompt_exactly(judge: Judge, text: str) -> None:
    """
    The limit and one byte past it, in UTF-8 bytes.
    """
    terms = Terms(
        models=TERMS.models, output_tokens=1, prompt_bytes=10, control_selection=False
    )

    assert judge(said(text), terms).submission.messages[0].parts
    problem = refused(
        judge, said([{"type": "text", "text": t} for t in (text, "x")]), terms
    )
    assert (problem.status, problem.code, problem.param) == (413, "context_limit", None)


@BOTH
def test_each_media_part_counts_as_its_link(judge: Judge) -> None:
    terms = Terms(
        models=TERMS.models, output_tokens=1, prompt_bytes=144, control_selection=False
    )

    fits = refused(judge, said([IMAGE, AUDIO]) | {"model": "org/every"}, terms)
    text = {"type": "text", "text": "x"}
    over = refused(judge, said([IMAGE, AUDIO, text]) | {"model": "org/every"}, terms)

    assert (fits.status, over.status) == (503, 413)
    assert over.code == "context_limit"


@BOTH
def test_the_payload_fills_a_frame_exactly(judge: Judge) -> None:
    """
    413 `frame_limit` one byte past 65,408; part and message heads count.
    """
    heads = 4 + 8 + 2 * 8
    terms = Terms(
        models=TERMS.models,
        output_tokens=1,
        prompt_bytes=1 << 20,
        control_selection=False,
    )

    def parts(size: int) -> dict[str, Any]:
        texts = ["x" * (size - 5), "y" * 5]
        return said([{"type": "text", "text": text} for text in texts])

    whole = judge(parts(PAYLOAD_BYTES_MAX - heads), terms)
    problem = refused(judge, parts(PAYLOAD_BYTES_MAX - heads + 1), terms)

    assert len(encode(whole.submission)) == PAYLOAD_BYTES_MAX
    assert (problem.status, problem.code, problem.param) == (413, "frame_limit", None)


def test_the_selector_counts_in_the_frame() -> None:
    text = "x" * (PAYLOAD_BYTES_MAX - 4 - 8 - 8)

    assert native(said(text), TERMS).submission.selector == b""
    assert refused(native, said(text) | {"control": CONTROL}).code == "frame_limit"


@pytest.mark.parametrize("dose", [-40000, -1, 1, 40000])
def test_a_control_becomes_the_selector(dose: int) -> None:
    """
    cases J 155: exactly 48 bytes.
    """
    form = native(body(control=CONTROL | {"dose": dose}), TERMS)

    assert form.submission.selector == (
        b"\1\0\0\0\1\0\0\0" + dose.to_bytes(4, "little", signed=True) + bytes(4)
    ) + bytes.fromhex("ab" * 32)
    assert Selector.unpack(form.submission.selector).dose == dose


@pytest.mark.parametrize(
    ("control", "param"),
    [
        (None, "control"),
        ([], "control"),
        ({}, "control"),
        (CONTROL | {"extra": 1}, "control"),
        ({k: v for k, v in CONTROL.items() if k != "dose"}, "control"),
        (CONTROL | {"schema": "aotx.control.v1"}, "control.schema"),
        (CONTROL | {"schema": None}, "control.schema"),
        (CONTROL | {"kind": "other"}, "control.kind"),
        (CONTROL | {"kind": 1}, "control.kind"),
        *[
            (CONTROL | {"qualification_sha256": v}, "control.qualification_sha256")
            for v in ("AB" * 32, "ab" * 31, "ab" * 32 + "a", "zz" * 32, 5, None)
        ],
        *[
            (CONTROL | {"dose": v}, "control.dose")
            for v in (True, 0.5, 1.0, "1", None, 40001, -40001)
        ],
        (CONTROL | {"dose": 0}, "control"),
        (CONTROL | {"qualification_sha256": "0" * 64}, "control"),
    ],
)
def test_a_control_of_another_form(control: Any, param: str) -> None:
    """
    cases J 155.
    """
    assert_invalid(native, body(control=control), param)


def test_control_is_unknown_on_the_standard_route() -> None:
    assert_invalid(completion, body(control=CONTROL), "body")
    assert_invalid(completion, body(control=None), "body")


def test_a_device_without_selection() -> None:
    """
    cases J 155: 503 `control_selection`, after every fault of the body.
    """
    terms = Terms(
        models=TERMS.models, output_tokens=9, prompt_bytes=9, control_selection=False
    )

    problem = refused(native, body(control=CONTROL), terms)

    assert (problem.status, problem.code) == (503, "control_selection")
    assert refused(native, body(control=CONTROL, n=2), terms).param == "n"


def test_what_was_said_is_in_no_repr() -> None:
    form = completion(said("my secret"), TERMS)

    assert "my secret" not in repr(form)
