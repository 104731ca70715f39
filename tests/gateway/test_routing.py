"""
The route table and how a path is found in it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from twisted_aotx.gateway.routes import ROUTES
from twisted_aotx.gateway.routing import ANY_METHOD, Router, decoded_path

SPEC = Path(__file__).parents[2] / "docs" / "spec" / "http.md"
ROUTER = Router(ROUTES)
REQUEST = "/aotx/v1/requests/req-" + "0" * 16 + "-" + "f" * 32


def test_the_table_is_the_contract_s() -> None:
    """
    http.md §4, both ways: methods, paths and query keys.
    """
    section = SPEC.read_text().partition("## 4. Routes")[2].partition("\n### ")[0]
    spec = {}
    row = r"^\| ((?:GET|POST|DELETE|any).*?) \| (.*?) \|"
    for routes, query in re.findall(row, section, re.MULTILINE):
        for route in routes.split(", "):
            method, path = route.replace("any ", ANY_METHOD + " ").split(" ")
            spec[method, path] = query

    ours = {}
    for route in ROUTES:
        path = re.sub(r"\{id:\w+\}", "{id}", route.path).replace("{rest:path}", "…")
        query = "any" if route.query is None else ", ".join(route.query) or "–"
        ours[route.method, path] = query

    assert ours == spec


@pytest.mark.parametrize(
    ("path", "place", "args"),
    [
        ("/v1/models", "/v1/models", {}),
        ("/v1/models/a", "/v1/models/{id:path}", {"id": "a"}),
        ("/v1/models/a/b/", "/v1/models/{id:path}", {"id": "a/b/"}),
        ("/v1/models/a\n/b", "/v1/models/{id:path}", {"id": "a\n/b"}),
        (REQUEST, "/aotx/v1/requests/{id:request}", {"id": REQUEST[18:]}),
        ("/aotx/v1/shared/a/b", "/aotx/v1/shared/{rest:path}", {"rest": "a/b"}),
        ("/v1/models/", None, {}),
        ("/v1/models\n", None, {}),
        ("/V1/models", None, {}),
        ("v1/models", None, {}),
        (REQUEST + "\n", None, {}),
        (REQUEST.replace("f", "F"), None, {}),
        (REQUEST.replace("f" * 32, "٠" * 32), None, {}),
        ("", None, {}),
    ],
)
def test_finding(path: str, place: str | None, args: dict[str, str]) -> None:
    found = ROUTER.find(path)

    assert (None if found is None else found[1]) == (None if place is None else args)
    if found is not None:
        assert {route.path for route in found[0].routes.values()} == {place}


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/a%2Fb?c=%2F", "/a/b"),
        (b"/a%252Fb", "/a%2Fb"),
        (b"/a%3Fb", "/a?b"),
        (b"/%C3%A4", "/ä"),
        (b"/%ff", None),
        (b"/\xff", None),
        (b"/a%zz%", "/a%zz%"),
        (b"/a+b", "/a+b"),
        (b"http://x/y", "/y"),
        (b"http://x", "/"),
        (b"http://x?/y", "/"),
        (b"*", "*"),
        (b"?x", ""),
    ],
)
def test_decoding(target: bytes, path: str | None) -> None:
    """
    http.md §1: after one percent-decoding.
    """
    assert decoded_path(target) == path
