"""
What can go wrong over HTTP: the codes, their statuses, and what errors become which.

Rules (`http.md` §2, D15, D19):

1. Every code has one status, but for those that carry the status of something else.
2. The status alone gives the `type` of the error object.
3. 429 and 503 carry `Retry-After`; any other 4xx but 408 carries
   `x-should-retry: false`: the same request would fail again. Not so a source that is
   leased or not yet ready (409): `may_pass`.
4. Message texts are fixed sentences: nothing that a caller sent comes back in them.

Layer 4, sans-IO. `resource` is the only place that writes an error body.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from twisted_aotx import errors
from twisted_aotx.errors import Problem


class ProblemCode(StrEnum):
    """
    `error.code` (`http.md` §2).
    """

    INVALID_FIELD = "invalid_field"
    BODY_LENGTH = "body_length"
    CONTROL_SELECTION = "control_selection"
    MEDIA_REFUSED = "media_refused"
    INVALID_API_KEY = "invalid_api_key"
    ORIGIN_FORBIDDEN = "origin_forbidden"
    INFERENCE_FORBIDDEN = "inference_forbidden"
    MEDIA_FORBIDDEN = "media_forbidden"
    URL_FORBIDDEN = "url_forbidden"
    SOURCE_ADDRESS = "source_address"
    POLICY_PERMISSION = "policy_permission"
    MODEL_NOT_FOUND = "model_not_found"
    ROUTE_NOT_FOUND = "route_not_found"
    METHOD = "method"
    BODY_TIMEOUT = "body_timeout"
    MEDIA_STATE = "media_state"
    BODY_LIMIT = "body_limit"
    MEDIA_LIMIT = "media_limit"
    SOURCE_LIMIT = "source_limit"
    CONTEXT_LIMIT = "context_limit"
    FRAME_LIMIT = "frame_limit"
    OUTPUT_LIMIT = "output_limit"
    CONTENT_TYPE = "content_type"
    CONTENT_ENCODING = "content_encoding"
    MEDIA_TYPE = "media_type"
    SOURCE_ENCODING = "source_encoding"
    EXPECTATION = "expectation"
    TRANSPORT_LIMIT = "transport_limit"
    FETCH_LIMIT = "fetch_limit"
    MEDIA_PRESSURE = "media_pressure"
    HEADER_LIMIT = "header_limit"
    INTERNAL_ERROR = "internal_error"
    SOURCE_DNS = "source_dns"
    SOURCE_STATUS = "source_status"
    SOURCE_LENGTH = "source_length"
    SOURCE_TRANSFER = "source_transfer"
    INVALID_DEVICE_RESPONSE = "invalid_device_response"
    DEVICE_CONNECTION = "device_connection"
    SERVICE_CLOSED = "service_closed"
    SOURCE_DIGEST = "source_digest"
    EVENT_LIMIT = "event_limit"
    NOT_READY = "not_ready"
    OPERATION_TIMEOUT = "operation_timeout"
    RESPONSE_TIMEOUT = "response_timeout"
    MEDIA_TIMEOUT = "media_timeout"
    DEVICE_REFUSED = "device_refused"
    REQUEST_FAILED = "request_failed"
    REQUEST_CANCELLED = "request_cancelled"


_C = ProblemCode

#: Codes that carry the status of the device or of the request; see `refusal`.
STATUS_OF_CAUSE: Final = frozenset(
    {_C.DEVICE_REFUSED, _C.REQUEST_FAILED, _C.REQUEST_CANCELLED}
)

#: Code to (status, sentence for people). `control_selection` is 400 for a selector of
#: the wrong size and 503 for a device without selection; its users say which.
PROBLEMS: Final[dict[ProblemCode, tuple[int, str]]] = {
    _C.INVALID_FIELD: (400, "A part of the request is not acceptable."),
    _C.BODY_LENGTH: (400, "The body is not as long as Content-Length says."),
    _C.CONTROL_SELECTION: (503, "The device offers no control selection."),
    _C.MEDIA_REFUSED: (400, "The media source was refused."),
    _C.INVALID_API_KEY: (401, "A valid bearer token is needed."),
    _C.ORIGIN_FORBIDDEN: (403, "This origin is not allowed."),
    _C.INFERENCE_FORBIDDEN: (403, "The action infer is not granted."),
    _C.MEDIA_FORBIDDEN: (403, "The action upload is not granted."),
    _C.URL_FORBIDDEN: (403, "The action fetch is not granted."),
    _C.SOURCE_ADDRESS: (403, "The address of the source is not allowed."),
    _C.POLICY_PERMISSION: (403, "The policy is not open to this principal."),
    _C.MODEL_NOT_FOUND: (404, "There is no such model for this principal."),
    _C.ROUTE_NOT_FOUND: (404, "There is no such path."),
    _C.METHOD: (405, "The path does not take this method."),
    _C.BODY_TIMEOUT: (408, "The body did not arrive in time."),
    _C.MEDIA_STATE: (409, "The media source cannot be used as this."),
    _C.BODY_LIMIT: (413, "The body is too large."),
    _C.MEDIA_LIMIT: (413, "The media source is empty or too large."),
    _C.SOURCE_LIMIT: (413, "The imported source is too large."),
    _C.CONTEXT_LIMIT: (413, "The messages are too long for the device."),
    _C.FRAME_LIMIT: (413, "The messages do not fit one device frame."),
    _C.OUTPUT_LIMIT: (413, "The output is longer than the device declares."),
    _C.CONTENT_TYPE: (415, "The content type is not supported here."),
    _C.CONTENT_ENCODING: (415, "Encoded bodies are not accepted."),
    _C.MEDIA_TYPE: (415, "The media type is not supported."),
    _C.SOURCE_ENCODING: (415, "The imported source is encoded."),
    _C.EXPECTATION: (417, "Only the expectation 100-continue can be met."),
    _C.TRANSPORT_LIMIT: (429, "The gateway is at its limit."),
    _C.FETCH_LIMIT: (429, "Another import of this principal is running."),
    _C.MEDIA_PRESSURE: (429, "The device has no room for the source now."),
    _C.HEADER_LIMIT: (431, "The header is too large."),
    _C.INTERNAL_ERROR: (500, "The gateway failed."),
    _C.SOURCE_DNS: (502, "The host of the source was not found."),
    _C.SOURCE_STATUS: (502, "The source did not answer with status 200."),
    _C.SOURCE_LENGTH: (502, "The source is not as long as declared."),
    _C.SOURCE_TRANSFER: (502, "The source could not be transferred."),
    _C.INVALID_DEVICE_RESPONSE: (503, "The device gave an invalid response."),
    _C.DEVICE_CONNECTION: (503, "The device cannot be reached."),
    _C.SERVICE_CLOSED: (503, "The gateway is shutting down."),
    _C.SOURCE_DIGEST: (503, "The device holds other bytes than were sent."),
    _C.EVENT_LIMIT: (503, "An event does not fit the configured size."),
    _C.NOT_READY: (503, "The device does not answer."),
    _C.OPERATION_TIMEOUT: (504, "The operation took too long."),
    _C.RESPONSE_TIMEOUT: (504, "The response took too long."),
    _C.MEDIA_TIMEOUT: (504, "The media source took too long."),
    _C.DEVICE_REFUSED: (503, "The device refused the operation."),
    _C.REQUEST_FAILED: (503, "The request failed."),
    _C.REQUEST_CANCELLED: (503, "The request was cancelled."),
}

_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}


def refusal(
    code: ProblemCode,
    param: str | None = None,
    message: str = "",
    *,
    status: int | None = None,
    headers: tuple[tuple[str, str], ...] = (),
    may_pass: bool = False,
) -> Problem:
    """
    The problem of *code*, to be raised.

    Args:
        param: The field, where `http.md` names one.
        message: Replaces the table's sentence; never holds what a caller sent.
        status: 400..599, needed for codes of `STATUS_OF_CAUSE`, else the table's.
        headers: Added to the answer.
        may_pass: Rule 3.
    """
    usual, sentence = PROBLEMS[code]
    assert status is not None or code not in STATUS_OF_CAUSE, code
    return Problem(
        status or usual, code.value, param, message or sentence, headers, may_pass
    )


def invalid_field(param: str, message: str = "") -> Problem:
    """
    400 `invalid_field`: the commonest refusal.
    """
    return refusal(ProblemCode.INVALID_FIELD, param, message)


def of_exception(error: BaseException) -> Problem | None:
    """
    The problem that *error* is, or None when it is a fault of ours.
    """
    match error:
        case Problem():
            return error
        case errors.DeviceRefused(status=status):
            # The device's numbers are HTTP's [http.md "DEV s"]; a status outside is
            # checked by the client, so this is the last fence, not a rule.
            known = status if 400 <= status <= 599 else 503
            return refusal(ProblemCode.DEVICE_REFUSED, status=known)
        case errors.PoolFull():
            return refusal(ProblemCode.TRANSPORT_LIMIT)
        case errors.ServiceClosed():
            return refusal(ProblemCode.SERVICE_CLOSED)
        case errors.ExchangeFailed():
            return refusal(ProblemCode.DEVICE_CONNECTION)
        case errors.InvalidReply() | errors.RemoteWireError():
            return refusal(ProblemCode.INVALID_DEVICE_RESPONSE)
    return None


def error_type(status: int) -> str:
    """
    `error.type` of an HTTP status of 400 or more.
    """
    if status >= 500:
        return "server_error"
    return _TYPES.get(status, "invalid_request_error")


def error_object(problem: Problem) -> dict[str, object]:
    """
    The body of *problem*, also the data of an `error` event.
    """
    return {
        "error": {
            "message": problem.message,
            "type": error_type(problem.status),
            "param": problem.param,
            "code": problem.code,
        }
    }


def error_headers(problem: Problem) -> list[tuple[str, str]]:
    """
    The headers that *problem* adds to its answer [D19]; its own win.
    """
    headers = dict(problem.headers)
    status = problem.status
    if status in (429, 503):
        headers.setdefault("Retry-After", "1")
    elif status < 500 and status != 408 and not problem.may_pass:
        headers.setdefault("x-should-retry", "false")
    if status == 401:
        headers.setdefault("WWW-Authenticate", "Bearer")
    return list(headers.items())
