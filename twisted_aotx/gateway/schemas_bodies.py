"""
What request bodies look like, as JSON Schema (`http.md` §4, §5, §6). Sans-IO.
"""

from __future__ import annotations

from typing import Final

from twisted_aotx.gateway.schemas import (
    BASE64,
    BOOLEAN,
    DIGEST,
    INTEGER,
    MEDIA_ID,
    STRING,
    Schema,
    array,
    const,
    enum,
    nullable,
    record,
)

#: The largest integer of the policy's fields.
_WORD: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}


def _parts(*parts: Schema) -> Schema:
    return {
        "anyOf": [STRING, array({"oneOf": list(parts)}, minItems=1, maxItems=32)],
    }


_TEXT: Final = record(type=const("text"), text=STRING)
_IMAGE: Final = record(
    type=const("image_url"),
    image_url=record({"detail": const("auto")}, url=STRING),
)
_AUDIO: Final = record(
    type=const("input_audio"),
    input_audio=record(data=BASE64, format=const("wav")),
)
_SOURCE: Final = record(
    type=const("media"), media_id=MEDIA_ID, modality=enum("image", "audio")
)


def _messages(system: tuple[str, ...], user: tuple[Schema, ...]) -> Schema:
    said = record(role=enum(*system, "assistant"), content=_parts(_TEXT))
    asked = record(role=const("user"), content=_parts(_TEXT, *user))
    return array({"oneOf": [said, asked]}, minItems=1, maxItems=64)


_TOKENS: Final[Schema] = {"type": "integer", "minimum": 1}
#: Of both routes, each as it is when it is given.
_OPTIONS: Final[dict[str, Schema]] = {
    "n": const(1),
    "modalities": const(["text"]),
    "store": const(False),
    "max_tokens": _TOKENS,
    "max_completion_tokens": _TOKENS,
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "top_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
}
#: Of the standard route: neutral values of what is not offered [D17].
_NEUTRAL: Final[dict[str, Schema]] = {
    "frequency_penalty": const(0),
    "presence_penalty": const(0),
    "logprobs": const(False),
    "logit_bias": const({}),
    "stop": const([]),
    "tools": const([]),
    "tool_choice": const("none"),
    "seed": INTEGER,
    "response_format": const({"type": "text"}),
    "parallel_tool_calls": BOOLEAN,
    "service_tier": const("auto"),
    "user": STRING,
    "metadata": {"type": "object", "additionalProperties": STRING},
}
_STREAMING: Final[dict[str, Schema]] = {
    "stream": BOOLEAN,
    "stream_options": record(include_usage=BOOLEAN),
}
_SELECTION: Final = record(
    schema=const("aotx.control.selection.v1"),
    kind=const("residual_vector"),
    qualification_sha256=DIGEST,
    dose={"type": "integer", "minimum": -40_000, "maximum": 40_000},
)

#: What bodies hold.
BODIES: Final[dict[str, Schema]] = {
    "CompletionBody": record(
        {
            name: nullable(schema)
            for name, schema in (_OPTIONS | _STREAMING | _NEUTRAL).items()
        },
        model=STRING,
        messages=_messages(("system", "developer"), (_IMAGE, _AUDIO)),
    ),
    "RequestBody": record(
        _OPTIONS | {"stream": const(False), "control": _SELECTION},
        model=STRING,
        messages=_messages(("system",), (_IMAGE, _AUDIO, _SOURCE)),
    ),
    "CancelBody": record(),
    "ImportBody": record(
        url={"type": "string", "minLength": 1, "maxLength": 8192, "format": "uri"}
    ),
    "PolicyBody": record(
        action=enum("pause", "resume", "stop", "review_on", "review_off"),
        epoch=_WORD,
        control_revision=_WORD,
    ),
}
