"""
What bodies and answers look like, as JSON Schema: the components of `/openapi.json`.

Shapes only, by their sections of `http.md`; what a schema cannot say (which fields go
together, what a grant allows) is said by the error that refuses it. Sans-IO.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from twisted_aotx.gateway.problems import ProblemCode
from twisted_aotx.gateway.settings import Limits
from twisted_aotx.gateway.status import STATES

Schema = dict[str, Any]

STRING: Final[Schema] = {"type": "string"}
INTEGER: Final[Schema] = {"type": "integer"}
NATURAL: Final[Schema] = {"type": "integer", "minimum": 0}
BOOLEAN: Final[Schema] = {"type": "boolean"}
NULL: Final[Schema] = {"type": "null"}
#: A number of up to 64 bits.
DECIMAL: Final[Schema] = {"type": "string", "pattern": "^(0|[1-9][0-9]{0,19})$"}
DIGEST: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
BASE64: Final[Schema] = {"type": "string", "contentEncoding": "base64"}
REQUEST_ID: Final[Schema] = {
    "type": "string",
    "pattern": "^req-[0-9a-f]{16}-[0-9a-f]{32}$",
}
MEDIA_ID: Final[Schema] = {"type": "string", "pattern": "^media-[0-9a-f]{32}$"}
CURSOR: Final[Schema] = {"type": "string", "pattern": "^[0-9]{1,20}$"}


def ref(name: str) -> Schema:
    """
    The component *name*.
    """
    return {"$ref": f"#/components/schemas/{name}"}


def const(value: object) -> Schema:
    """
    Exactly *value*.
    """
    return {"const": value}


def enum(*values: object) -> Schema:
    """
    One of *values*.
    """
    return {"enum": list(values)}


def array(items: Schema, **bounds: int) -> Schema:
    """
    A list of *items*.
    """
    return {"type": "array", "items": items, **bounds}


def nullable(schema: Schema) -> Schema:
    """
    *schema* or null.
    """
    return {"anyOf": [schema, NULL]}


def record(optional: Schema | None = None, /, **fields: Schema) -> Schema:
    """
    An object of exactly *fields*, and of those of *optional* that are there.
    """
    return {
        "type": "object",
        "properties": fields | (optional or {}),
        "required": list(fields),
        "additionalProperties": False,
    }


_USAGE: Final = record(
    prompt_tokens=NATURAL, completion_tokens=NATURAL, total_tokens=NATURAL
)
_FINISH: Final = enum("stop", "length", None)
_MODEL: Final = record(
    id=STRING,
    object=const("model"),
    created=NATURAL,
    owned_by=const("operator"),
    automatic_memory=const(False),
)
_STATUS: Final = {
    "schema": const("aotx.request.v1"),
    "id": REQUEST_ID,
    "runtime_epoch": DECIMAL,
    "model_role": NATURAL,
    "state": enum(*STATES.values()),
    "cancel_requested": BOOLEAN,
    "status": NATURAL,
    "persistence": const("ephemeral"),
    "usage": ref("Usage"),
    "finish_reason": _FINISH,
}
_CONTROL: Final = record(
    schema=const("aotx.control.v1"),
    name=STRING,
    kind=const("residual_vector"),
    available=BOOLEAN,
    positions=enum("all", "response"),
    hook=NATURAL,
    layers=array(NATURAL),
    dose_scale=const(10000),
    accepted_doses=array(INTEGER),
    combinations=const(False),
    qualification_sha256=nullable(DIGEST),
)
_DEVICE_LIMITS: Final = (
    *("execution_slots", "wrapped_prompt_bytes", "sequence_tokens", "request_entries"),
    *("output_bytes", "service_channels", "output_tokens", "kv_pages_per_request"),
    *("active_requests", "media_objects", "private_media_objects", "image_pixels"),
    *("image_dimension", "image_patches", "image_feature_rows"),
    *("audio_source_frames", "audio_feature_rows", "device_request_seconds"),
    *("device_upload_seconds", "principal_entries", "media_references"),
)
_FEATURES: Final = (
    *("chat_completions", "streaming", "private_media", "https_import", "telemetry"),
    *("control_selection", "continuing_ccir", "persistent_requests", "embeddings"),
    *("responses", "tools", "expression", "presence"),
)
_NAMES: Final = [field.name for field in attrs.fields(Limits)]
_CAPABILITIES: Final = record(
    schema=const("aotx.capabilities.v1"),
    runtime_epoch=DECIMAL,
    lineage=NULL,
    mode=const("inference"),
    models=array(
        record(
            id=STRING,
            role=NATURAL,
            sha256=DIGEST,
            controls=array(ref("Control")),
            automatic_memory=const(False),
            input=array(enum("text", "image", "audio")),
            published_at=NATURAL,
        )
    ),
    limits=record(
        private_media_bytes=DECIMAL,
        **dict.fromkeys((*_DEVICE_LIMITS, *_NAMES), NATURAL),
    ),
    features=record(**dict.fromkeys(_FEATURES, BOOLEAN)),
    retention=record(
        requests=STRING, restart=STRING, media=STRING, shared_operations=NULL
    ),
    shared_api=NULL,
    media_types=array(STRING),
)
_POLICY_NUMBERS: Final = (
    *("epoch", "abi", "mode", "pending", "active_rows", "status", "control_revision"),
    *("source_frontier", "completed", "interrupted", "refused", "decision"),
    *("saved_generation", "maximum_ns", "last_ns", "written_bytes", "result_bytes"),
)

#: What answers hold.
ANSWERS: Final[dict[str, Schema]] = {
    "Error": record(
        error=record(
            message=STRING,
            type=enum(
                "authentication_error",
                "permission_error",
                "rate_limit_error",
                "server_error",
                "invalid_request_error",
            ),
            param=nullable(STRING),
            code=enum(*(code.value for code in ProblemCode)),
        )
    ),
    "Health": record(status=const("ok")),
    "Readiness": record(status=const("ready")),
    "Object": {"type": "object"},
    "Model": _MODEL,
    "Models": record(object=const("list"), data=array(ref("Model"))),
    "Usage": _USAGE,
    "ChatCompletion": record(
        id=STRING,
        object=const("chat.completion"),
        created=NATURAL,
        model=STRING,
        choices=array(
            record(
                index=const(0),
                message=record(role=const("assistant"), content=STRING, refusal=NULL),
                finish_reason=enum("stop", "length"),
                logprobs=NULL,
            ),
            minItems=1,
            maxItems=1,
        ),
        usage=ref("Usage"),
    ),
    "Control": _CONTROL,
    "Capabilities": _CAPABILITIES,
    "Admission": record(
        schema=const("aotx.admission.v1"),
        id=REQUEST_ID,
        runtime_epoch=DECIMAL,
        state=const("accepted"),
        persistence=const("ephemeral"),
        media=array(MEDIA_ID),
    ),
    "Request": record(
        **_STATUS,
        output=record(
            encoding=const("base64"),
            bytes=BASE64,
            cursor=DECIMAL,
            next_cursor=DECIMAL,
            total_bytes=DECIMAL,
        ),
    ),
    "Media": record(
        id=MEDIA_ID,
        sha256=DIGEST,
        bytes=DECIMAL,
        phase=NATURAL,
        status=NATURAL,
        format=NATURAL,
        samples=NATURAL,
        rows=NATURAL,
    ),
    "MediaList": record(
        schema=const("aotx.media-list.v1"),
        runtime_epoch=DECIMAL,
        data=array(ref("Media")),
        next_cursor=nullable(DECIMAL),
        consistency=const("current"),
    ),
    "Telemetry": record(
        schema=const("aotx.telemetry.v1"),
        runtime_epoch=DECIMAL,
        lineage=NULL,
        sample=record(
            service_allocation_bytes=DECIMAL,
            tick=DECIMAL,
            clock_nanoseconds=DECIMAL,
        ),
        affect=NULL,
        expression=NULL,
    ),
    "Policy": record(
        schema=const("aotx.policy.v1"),
        state=STRING,
        review_enabled=BOOLEAN,
        reason=STRING,
        **dict.fromkeys(_POLICY_NUMBERS, NATURAL),
    ),
}
