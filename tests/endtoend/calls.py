"""
HTTP calls of tests, each on a connection of its own.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import attrs

from tests.processes import PATIENCE


@attrs.frozen
class Answer:
    """
    Status, JSON body, headers by lower-case name.
    """

    status: int
    body: Any
    headers: dict[str, str]


def call(url: str, headers: dict[str, str], body: Any = None) -> Answer:
    """GET *url*, or POST it with the JSON *body*."""
    data = None if body is None else json.dumps(body).encode()
    extra = {} if data is None else {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, {**headers, **extra})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            status, text, found = answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        status, text, found = error.code, error.read(), error.headers
    named = {name.lower(): value for name, value in found.items()}
    return Answer(status, json.loads(text), named)
