"""
The JSON of a completion or a native request, judged and made a SUBMIT (`http.md` §5).

Layer 4, sans-IO. Order of checks, first failure wins:

1. unknown keys, a missing model or messages (param `body`);
2. control (native only), shape before digest and dose;
3. model (404), then the fields of the table in its order, then the neutral ones [D17];
4. messages (`gateway.messages`), then media that the model does not take;
5. 413 `context_limit`, 413 `frame_limit`, 503 `control_selection`.

Media are looked at and resolved after all of that (`gateway.inline`): what could have
been refused without them uploads nothing.

On the standard route `null` is absent for every optional field; the native route
refuses it [D17].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from twisted_aotx.gateway.messages import SourcePart, Turn, conversation
from twisted_aotx.gateway.neutral import (
    NEUTRAL,
    check_neutral,
    is_integer,
    is_number,
)
from twisted_aotx.gateway.problems import ProblemCode, invalid_field, refusal
from twisted_aotx.gateway.selection import selector
from twisted_aotx.limits import LINK_BYTES, PAYLOAD_BYTES_MAX
from twisted_aotx.wire.info import ModelRow
from twisted_aotx.wire.numbers import Modality, PartKind
from twisted_aotx.wire.requests import (
    DigestPart,
    Message,
    Submission,
    TextPart,
    encode,
)

#: What `max_tokens` is when nobody says, unless the grant allows less.
LIMIT_DEFAULT: Final = 256
#: The smallest normal binary32. A smaller top_p would be 0 on the wire, and refused.
TOP_P_MIN: Final = 2.0**-126

_REQUIRED: Final = ("model", "messages")
_COMMON: Final = frozenset(
    {
        *_REQUIRED,
        "stream",
        "stream_options",
        "n",
        "modalities",
        "store",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
    }
)


@attrs.frozen(kw_only=True)
class Terms:
    """
    What a body is judged against: what its caller may use now.
    """

    #: Alias → model row, of the aliases that are available to the caller.
    models: Mapping[str, ModelRow]
    #: The grant's output token cap.
    output_tokens: int
    #: `wrapped_prompt_bytes`: bytes of a rendered prompt.
    prompt_bytes: int
    #: Whether the device takes a control selection.
    control_selection: bool


@attrs.frozen(kw_only=True)
class Form:
    """
    A body that was accepted.
    """

    model: str
    stream: bool
    include_usage: bool
    #: Digests of media are zero until `settled`.
    submission: Submission = attrs.field(repr=False)
    #: Media that are to be resolved, in message order.
    media: tuple[SourcePart, ...] = attrs.field(default=(), repr=False)

    def settled(self, digests: Iterable[bytes]) -> Form:
        """
        The same with the digest of each of `media`, which are not kept.
        """
        left = iter(digests)
        messages = tuple(
            attrs.evolve(
                message,
                parts=tuple(
                    attrs.evolve(part, digest=next(left))
                    if isinstance(part, DigestPart)
                    else part
                    for part in message.parts
                ),
            )
            for message in self.submission.messages
        )
        submission = attrs.evolve(self.submission, messages=messages)
        return attrs.evolve(self, submission=submission, media=())


def completion(body: Mapping[str, Any], terms: Terms) -> Form:
    """
    The body of POST /v1/chat/completions.

    Raises:
        Problem: with the status, code and param of `http.md` §5.
    """
    _keys(body, _COMMON | NEUTRAL.keys())
    fields = {
        name: value
        for name, value in body.items()
        if value is not None or name in _REQUIRED
    }
    return _form(fields, terms, native=False)


def native(body: Mapping[str, Any], terms: Terms) -> Form:
    """
    The body of POST /aotx/v1/requests.

    Raises:
        Problem: with the status, code and param of `http.md` §5.
    """
    _keys(body, _COMMON | {"control"})
    return _form(body, terms, native=True)


def _keys(body: Mapping[str, Any], known: frozenset[str] | set[str]) -> None:
    if any(name not in known for name in body):
        raise invalid_field("body", "The body has a key that this route does not know.")
    if any(name not in body for name in _REQUIRED):
        raise invalid_field("body", "The body needs model and messages.")


def _form(fields: Mapping[str, Any], terms: Terms, *, native: bool) -> Form:
    chosen = selector(fields["control"]) if "control" in fields else b""
    model = fields["model"]
    row = terms.models.get(model) if isinstance(model, str) else None
    if row is None:
        raise refusal(ProblemCode.MODEL_NOT_FOUND, "model")
    stream, include_usage = _streaming(fields, native=native)
    _constants(fields)
    limit = _limit(fields, terms.output_tokens)
    temperature, top_p = _sampling(fields)
    if not native:
        check_neutral(fields)
    turns = conversation(fields["messages"], native=native)
    _fits(turns, row, terms)
    submission = Submission(
        role=row.role,
        limit=limit,
        temperature=temperature,
        top_p=top_p,
        messages=tuple(map(_message, turns)),
        selector=chosen,
    )
    if len(encode(submission)) > PAYLOAD_BYTES_MAX:
        raise refusal(ProblemCode.FRAME_LIMIT)
    if chosen and not terms.control_selection:
        raise refusal(ProblemCode.CONTROL_SELECTION)
    return Form(
        model=model,
        stream=stream,
        include_usage=include_usage,
        submission=submission,
        media=tuple(part for turn in turns for part in turn.media),
    )


def _message(turn: Turn) -> Message:
    parts = (
        part if isinstance(part, TextPart) else DigestPart(part.kind, bytes(32))
        for part in turn.parts
    )
    return Message(turn.role, tuple(parts))


def _streaming(fields: Mapping[str, Any], *, native: bool) -> tuple[bool, bool]:
    stream = fields.get("stream", False)
    if not isinstance(stream, bool):
        raise invalid_field("stream", "stream must be true or false.")
    if native and stream:
        raise invalid_field("stream", "A native request is read through its events.")
    if "stream_options" not in fields:
        return stream, False
    options = fields["stream_options"]
    if (
        not stream
        or not isinstance(options, dict)
        or options.keys() != {"include_usage"}
        or not isinstance(options["include_usage"], bool)
    ):
        message = 'stream_options is {"include_usage": bool}, with stream true.'
        raise invalid_field("stream_options", message)
    return stream, options["include_usage"]


def _constants(fields: Mapping[str, Any]) -> None:
    """
    The fields that are known and have one value.
    """
    if "n" in fields and not (is_integer(fields["n"]) and fields["n"] == 1):
        raise invalid_field("n", "n must be 1.")
    if "modalities" in fields and fields["modalities"] != ["text"]:
        raise invalid_field("modalities", 'modalities must be ["text"].')
    if "store" in fields and fields["store"] is not False:
        raise invalid_field("store", "store must be false.")


def _limit(fields: Mapping[str, Any], output_tokens: int) -> int:
    given = [
        fields[name]
        for name in ("max_tokens", "max_completion_tokens")
        if name in fields
    ]
    if not given:
        return min(LIMIT_DEFAULT, output_tokens)
    if len(given) == 2:
        message = "max_tokens and max_completion_tokens exclude each other."
        raise invalid_field("max_completion_tokens", message)
    limit = given[0]
    if not is_integer(limit) or not 1 <= limit <= output_tokens:
        message = f"The token limit must be an integer from 1 to {output_tokens}."
        raise invalid_field("max_completion_tokens", message)
    return int(limit)


def _sampling(fields: Mapping[str, Any]) -> tuple[float, float]:
    temperature = fields.get("temperature", 1.0)
    if not is_number(temperature) or not 0 <= temperature <= 2:
        raise invalid_field("temperature", "temperature must be a number from 0 to 2.")
    top_p = fields.get("top_p", 1.0)
    if not is_number(top_p) or not 0 < top_p <= 1:
        raise invalid_field("top_p", "top_p must be a number above 0, at most 1.")
    # Adding 0.0 turns -0.0 into 0.0.
    return float(temperature) + 0.0, max(float(top_p), TOP_P_MIN)


def _fits(turns: tuple[Turn, ...], row: ModelRow, terms: Terms) -> None:
    """
    Hold the conversation to what the model takes and the device has room for.
    """
    parts = [part for turn in turns for part in turn.parts]
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    for part in parts:
        if isinstance(part, TextPart):
            continue
        modality = Modality.IMAGE if part.kind == PartKind.IMAGE else Modality.AUDIO
        if not row.modalities & modality:
            message = "The model does not take this kind of content."
            raise invalid_field("messages.content", message)
    media_bytes = LINK_BYTES * (len(parts) - len(texts))
    if sum(map(len, texts)) + media_bytes > terms.prompt_bytes:
        raise refusal(ProblemCode.CONTEXT_LIMIT)
