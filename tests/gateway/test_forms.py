"""
Bodies of completions and native requests: the rows of `http.md` §5.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.form_samples import (
    AUDIO,
    BOTH,
    CONTROL,
    IMAGE,
    TERMS,
    Judge,
    assert_invalid,
    body,
    each,
    refused,
    said,
)
from twisted_aotx.gateway.forms import Terms, completion, native
from twisted_aotx.limits import PAYLOAD_BYTES_MAX
from twisted_aotx.wire.numbers import MessageRole
from twisted_aotx.wire.requests import Message, TextPart, encode


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

    assert judge(said([IMAGE, AUDIO]) | {"model": "org/every"}, terms).media
    text = {"type": "text", "text": "x"}
    over = refused(judge, said([IMAGE, AUDIO, text]) | {"model": "org/every"}, terms)

    assert (over.status, over.code) == (413, "context_limit")


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


def test_what_was_said_is_in_no_repr() -> None:
    form = completion(said("my secret"), TERMS)

    assert "my secret" not in repr(form)
