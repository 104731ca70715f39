"""
`/openapi.json`: exactly what is served, and true of the answers (`http.md` §4, D21).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.asynchronous import asynchronous
from tests.gateway.device_script import EPOCH, INFORMATION
from tests.gateway.feeds import CHAT, REQUESTS, body
from tests.gateway.serving import Serving
from twisted_aotx.gateway.neutral import NEUTRAL
from twisted_aotx.gateway.openapi import document
from twisted_aotx.gateway.problems import PROBLEMS, ProblemCode
from twisted_aotx.gateway.routes import ROUTES
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import Operation

SPEC = Path(__file__).parents[2] / "docs" / "spec" / "http.md"
DOCUMENT = document(ROUTES)
SCHEMAS = DOCUMENT["components"]["schemas"]
HANDLE = "req-0000000000000007-" + "ab" * 16


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from nodes(each)
    elif isinstance(value, list):
        for each in value:
            yield from nodes(each)


def validator(name: str) -> jsonschema.Draft202012Validator:
    components = {"schemas": SCHEMAS}
    return jsonschema.Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": components}
    )


def check(value: Any, name: str) -> None:
    """
    *value* is what the component *name* says.
    """
    schema = {
        "$ref": f"#/components/schemas/{name}",
        "components": {"schemas": SCHEMAS},
    }
    jsonschema.Draft202012Validator(schema).validate(value)


def test_it_lists_exactly_the_routes_of_the_contract() -> None:
    """
    http.md §4: methods, paths, query keys, and which need no credential.
    """
    section = SPEC.read_text().partition("## 4. Routes")[2].partition("\n### ")[0]
    told: dict[tuple[str, str], tuple[list[str], bool]] = {}
    row = r"^\| ((?:GET|POST|DELETE|any).*?) \| (.*?) \| (.*?) \|"
    for routes, query, needs in re.findall(row, section, re.MULTILINE):
        for route in routes.split(", "):
            method, path = route.split(" ")
            methods = ["get", "post", "put", "patch", "delete"]
            for each in methods if method == "any" else [method.lower()]:
                keys = [key for key in query.split(", ") if key not in ("–", "any")]
                told[each, path.replace("…", "{rest}")] = (
                    keys,
                    needs == "no credential",
                )

    ours = {}
    for method, path, operation in operations():
        keys = [p["name"] for p in operation["parameters"] if p["in"] == "query"]
        ours[method, path] = (keys, operation["security"] == [])
    assert ours == told


def test_every_reference_leads_somewhere_and_everything_is_used() -> None:
    references = {node["$ref"] for node in nodes(DOCUMENT) if "$ref" in node}

    assert references == {f"#/components/schemas/{name}" for name in SCHEMAS}


def test_schemas_are_schemas() -> None:
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_operations_are_complete() -> None:
    ids = [operation["operationId"] for *_, operation in operations()]
    assert len(ids) == len(set(ids))
    for method, path, operation in operations():
        assert operation["summary"], path
        arguments = set(re.findall(r"\{(\w+)\}", path))
        named = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
        assert named == arguments
        answers = operation["responses"]
        assert {"400", "405", "417", "431", "500", "503", "default"} <= set(answers)
        assert ("401" in answers) is (operation["security"] != [])
        if path != "/aotx/v1/shared/{rest}":
            assert any(status.startswith("2") for status in answers)
        if method in ("get", "delete"):
            assert "requestBody" not in operation
        for status, answer in answers.items():
            retry = status in ("429", "503")
            assert ("Retry-After" in answer.get("headers", {})) is retry


def test_every_code_is_told_with_its_status() -> None:
    codes = SCHEMAS["Error"]["properties"]["error"]["properties"]["code"]["enum"]
    assert set(codes) == set(ProblemCode)
    chat = DOCUMENT["paths"][CHAT]["post"]["responses"]
    for code in ("body_timeout", "body_limit", "response_timeout", "header_limit"):
        status = str(PROBLEMS[ProblemCode(code)][0])
        assert f"`{code}`" in chat[status]["description"]


def test_every_field_that_is_taken_is_told() -> None:
    fields = SCHEMAS["CompletionBody"]["properties"]

    assert NEUTRAL.keys() <= fields.keys()


@asynchronous
async def test_it_is_served_to_every_credential(gateway: Serving) -> None:
    answer = await gateway.get("/openapi.json")

    assert answer.status == 200
    assert answer.json == DOCUMENT
    assert answer.json["openapi"].startswith("3.1.")
    assert (await gateway.get("/openapi.json", token=None)).status == 401
    assert gateway.device.operations == []


@asynchronous
async def test_answers_are_what_it_says(gateway: Serving) -> None:
    gateway.device.on_submit = lambda request: request.complete(b"hi")
    gateway.device.before = lambda request: (
        reply_to(request, 200, INFORMATION.pack(), epoch=EPOCH)
        if request.operation == Operation.METRICS
        else NotImplemented
    )
    for path, name in (
        ("/healthz", "Health"),
        ("/readyz", "Readiness"),
        ("/v1/models", "Models"),
        ("/v1/models/m", "Model"),
        ("/aotx/v1/capabilities", "Capabilities"),
        ("/aotx/v1/telemetry", "Telemetry"),
        ("/aotx/v1/policy", "Error"),
        ("/nowhere", "Error"),
    ):
        check((await gateway.get(path)).json, name)
    check((await gateway.post(CHAT, body())).json, "ChatCompletion")
    made = (await gateway.post(REQUESTS, body())).json
    check(made, "Admission")
    check((await gateway.get(f"{REQUESTS}/{made['id']}")).json, "Request")
    check((await gateway.post(f"{REQUESTS}/{made['id']}/cancel", {})).json, "Request")
    for schema in ("Health", "Models", "ChatCompletion", "Request"):
        with pytest.raises(jsonschema.ValidationError):
            check(made, schema)


@asynchronous
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"stream": False, "n": 1, "temperature": 0.5, "top_p": 1, "max_tokens": 5},
        {"stream": None, "n": None, "temperature": None, "stream_options": None},
        {"store": False, "modalities": ["text"], "seed": 3, "temperature": 0},
        {"stop": [], "tools": [], "logit_bias": {}, "logprobs": False},
        {"frequency_penalty": 0, "presence_penalty": 0, "tool_choice": "none"},
        {"response_format": {"type": "text"}, "parallel_tool_calls": True},
        {"service_tier": "auto", "user": "u", "metadata": {"a": "b"}},
        {"n": 2},
        {"top_p": 0},
        {"temperature": 3},
        {"surprise": 1},
        {"messages": []},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "system", "content": [{"type": "x", "text": "y"}]}]},
        {"tools": [1]},
    ],
)
async def test_bodies_are_taken_as_it_says(
    gateway: Serving, fields: dict[str, Any]
) -> None:
    """
    http.md §5: what the schema refuses is refused, what it takes is taken.
    """
    gateway.device.on_submit = lambda request: request.complete(b"hi")
    sent = body(**fields)
    fits = validator("CompletionBody").is_valid(sent)

    answer = await gateway.post(CHAT, sent)

    assert answer.status == (200 if fits else 400), answer.content
