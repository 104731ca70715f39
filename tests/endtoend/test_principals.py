"""
Many callers at once on one real service: each gets its own, and nothing of another's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import pytest

from tests.endtoend.calls import Answer, call
from tests.endtoend.conftest import GATEWAY_READY, Service
from tests.processes import COMPILE_PATIENCE, edit, make_state, twistd
from twisted_aotx.config.files import replace_file
from twisted_aotx.config.gateway import load_gateway
from twisted_aotx.config.grants import grant_table
from twisted_aotx.config.initial import new_token

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

COUNT = 64


@attrs.frozen
class Caller:
    """
    One principal's way into a service.
    """

    number: int
    url: str
    token: str = attrs.field(repr=False)

    def ask(self, path: str, body: Any = None) -> Answer:
        headers = {"Authorization": f"Bearer {self.token}"}
        return call(self.url + path, headers, body)

    def chat(self) -> Answer:
        """A completion whose prompt only this caller has."""
        return self.ask("/v1/chat/completions", self.body(stream=False))

    def body(self, **more: Any) -> dict[str, Any]:
        text = f"I am number {self.number * 7919}. Who am I?"
        return {
            "model": "reference",
            "messages": [{"role": "user", "content": text}],
            "max_tokens": 20 + self.number,
            "temperature": 0,
            **more,
        }


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Caller]]:
    folder = tmp_path_factory.mktemp("principals")
    state = make_state(folder)
    made = [new_token() for _ in range(COUNT)]
    principals = [
        {
            "id": f"{number + 2:032x}",
            "token_sha256": [digest],
            "models": ["reference"],
            "actions": ["infer"],
        }
        for number, (_, digest) in enumerate(made)
    ]
    edit(state / "gateway.json", principals=principals)
    settings = load_gateway(state / "gateway.json").settings
    replace_file(state / "grants", grant_table(settings).pack())
    with twistd(folder, "aotx", "--state", state) as process:
        process.wait_for(GATEWAY_READY, COMPILE_PATIENCE)
        url = Service(process, state).url
        yield [Caller(number, url, token) for number, (token, _) in enumerate(made)]
        log = process.text()
        assert not [token for token, _ in made if token in log]
        assert "I am number" not in log


def test_64_principals_in_parallel_get_each_its_own(callers: list[Caller]) -> None:
    # cases I 145
    alone = [caller.chat() for caller in callers]

    with ThreadPoolExecutor(COUNT) as pool:
        together = list(pool.map(Caller.chat, callers))

    assert {answer.status for answer in together} == {200}
    ids = {answer.body["id"] for answer in alone + together}
    assert len(ids) == 2 * COUNT
    for one, other in zip(alone, together, strict=True):
        assert other.body["choices"] == one.body["choices"]
        assert other.body["usage"] == one.body["usage"]
    texts = {answer.body["choices"][0]["message"]["content"] for answer in together}
    assert len(texts) > COUNT // 2


def test_a_foreign_handle_is_an_unknown_one(callers: list[Caller]) -> None:
    # D22, cases D 67
    owner, stranger = callers[:2]
    handle = owner.ask("/aotx/v1/requests", owner.body()).body["id"]
    unknown = handle[:-1] + ("0" if handle[-1] != "0" else "1")

    for path in ("", "?cursor=99999", "/events", "/cancel"):
        body: Any = {} if path == "/cancel" else None
        foreign = stranger.ask(f"/aotx/v1/requests/{handle}{path}", body)
        nothing = stranger.ask(f"/aotx/v1/requests/{unknown}{path}", body)

        assert foreign.status == nothing.status == 404
        assert json.dumps(foreign.body) == json.dumps(nothing.body)
    status = owner.ask(f"/aotx/v1/requests/{handle}")
    assert (status.status, status.body["cancel_requested"]) == (200, False)


def test_quotas_are_each_callers_own(callers: list[Caller]) -> None:
    # The default of two active requests (docs/config.md), and 256 tokens.
    caller = callers[5]
    refused = caller.ask("/v1/chat/completions", caller.body(max_tokens=257))

    assert (refused.status, refused.body["error"]["type"]) == (
        400,
        "invalid_request_error",
    )
    assert caller.ask("/aotx/v1/telemetry").status == 403
    assert callers[6].chat().status == 200
