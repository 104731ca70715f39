"""
What the pages tell a stranger to type, typed, against a real service.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from openai import BadRequestError, OpenAI, RateLimitError
from openai.types.chat import ChatCompletionMessageParam

from tests.endtoend.conftest import GATEWAY_READY, Service
from tests.processes import (
    COMPILE_PATIENCE,
    address,
    edit,
    environment,
    free_port,
    make_state,
    twistd,
)
from tests.sources import ROOT
from tests.test_docs import DOCS, blocks_of
from twisted_aotx.config.initial import new_token

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ADDRESS = "http://127.0.0.1:8081"
#: Fails where curl gets an error, and where a piped command fails.
SHELL = 'set -euo pipefail; curl() { command curl -sS --fail-with-body "$@"; }\n'

MESSAGES: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "Tell me a story."}
]

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")


def typed(service: Service, text: str) -> str:
    """A page's *text* for this service: its address, and the model that it has."""
    host_port = service.url.removeprefix("http://").replace(":", " ")
    return (
        text.replace(ADDRESS, service.url)
        .replace("127.0.0.1 8081", host_port)
        .replace("smollm2", "reference")
    )


def shell(service: Service, script: str) -> str:
    """Run a page's *script* beside the state directory; what it printed."""
    done = subprocess.run(
        ["bash", "-c", SHELL + typed(service, script)],
        cwd=service.state.parent,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def one_block(page: Path, language: str, containing: str) -> str:
    (block,) = [each for each in blocks_of(page, language) if containing in each]
    return block


@needs_curl
def test_the_curl_of_the_readme_answers(service: Service) -> None:
    answer = json.loads(shell(service, one_block(ROOT / "README.md", "sh", "curl")))

    assert answer["choices"][0]["message"]["content"]
    assert answer["usage"]["completion_tokens"] == 64


def test_the_sdk_example_of_the_readme_runs(service: Service) -> None:
    code = one_block(ROOT / "README.md", "python", "OpenAI")
    done = subprocess.run(
        [sys.executable, "-c", typed(service, code)],
        cwd=service.state.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.splitlines()
    assert first == "['reference']"
    assert re.fullmatch(r"\d+ tokens", last)


@needs_curl
def test_every_example_of_http_md_answers(service: Service) -> None:
    blocks = blocks_of(DOCS / "http.md", "sh")

    output = shell(service, "\n".join(blocks))

    assert '"object":"chat.completion"' in output
    assert "data: [DONE]" in output
    assert "event: status" in output
    assert '"schema":"aotx.telemetry.v1"' in output


def client_of(service: Service, token: str) -> OpenAI:
    return OpenAI(base_url=f"{service.url}/v1", api_key=token, max_retries=0)


def test_the_openai_sdk_lists_chats_and_streams(service: Service) -> None:
    client = client_of(service, service.token)
    assert [model.id for model in client.models.list()] == ["reference"]
    whole = client.chat.completions.create(
        model="reference",
        messages=MESSAGES,
        max_tokens=50,
        temperature=0,
    )
    chunks = list(
        client.chat.completions.create(
            model="reference",
            messages=MESSAGES,
            max_tokens=50,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )

    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    assert whole.choices[0].finish_reason == "length"


def test_a_second_principal_as_operations_md_tells(tmp_path: Path) -> None:
    """Steps 1 to 6 of the page, with its commands and its entry."""
    page = DOCS / "operations.md"
    state = make_state(tmp_path)
    edit(
        state / "runtime.json", models={"language": {"engine": "reference", "rate": 20}}
    )

    def aotx(containing: str) -> str:
        words = one_block(page, "sh", containing).split()
        assert words[0] == "aotx"
        code = "from twisted_aotx.cli import run; run(prog_name='aotx')"
        return subprocess.run(
            [sys.executable, "-c", code, *words[1:]],
            cwd=tmp_path,
            env=environment(),
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    with twistd(tmp_path, "aotx", "--state", state) as process:
        process.wait_for(GATEWAY_READY, COMPILE_PATIENCE)
        service = Service(process, state)
        token, digest = aotx("aotx token").split()
        entry = one_block(page, "json", "token_sha256")
        principal = json.loads(entry.replace("THE SECOND LINE OF aotx token", digest))
        principal["models"] = ["reference"]
        gateway = json.loads((state / "gateway.json").read_text())
        edit(
            state / "gateway.json",
            principals=[*gateway["principals"], principal],
            revision=str(int(gateway["revision"]) + 1),
        )
        assert "good" in aotx("aotx check --config var")
        assert "revision 2 is in force, 2 principal(s)" in aotx("aotx grants --reload")

        second, first = client_of(service, token), client_of(service, service.token)
        assert [model.id for model in second.models.list()] == ["reference"]

        def stream(client: OpenAI, tokens: int) -> object:
            return client.chat.completions.create(
                model="reference",
                messages=MESSAGES,
                max_tokens=tokens,
                stream=True,
            )

        with pytest.raises(BadRequestError):
            stream(second, 1001)
        streams = [stream(second, 500), stream(second, 500)]
        with pytest.raises(RateLimitError):
            stream(second, 500)
        # The other principal has quotas of its own.
        streams.append(stream(first, 5))
        del streams


def test_the_second_gateway_of_operations_md(service: Service) -> None:
    page = DOCS / "operations.md"
    script = one_block(page, "sh", "gateway-2.json")
    port = free_port()
    own = service.url.rpartition(":")[2]
    lines = [line for line in script.splitlines() if not line.startswith("twistd")]
    assert len(lines) == 2
    shell(service, "\n".join(lines).replace("8081", own).replace("8082", str(port)))

    second = service.state / "gateway-2.json"
    with twistd(service.state.parent, "aotx-gateway", "--gateway", second) as process:
        process.wait_for(GATEWAY_READY)
        assert address(second).endswith(f":{port}")
        process.signal(signal.SIGTERM)
        assert process.code() == 0


def test_the_operators_way_to_stop(tmp_path: Path) -> None:
    script = one_block(DOCS / "operations.md", "sh", 'kill "$')
    state = make_state(tmp_path)
    with twistd(tmp_path, "aotx", "--state", state) as process:
        process.wait_for(GATEWAY_READY, COMPILE_PATIENCE)
        subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True, env=os.environ)

        assert process.code() == 0


def test_the_operators_way_to_rotate_a_token(tmp_path: Path) -> None:
    script = one_block(DOCS / "operations.md", "sh", "kill -HUP")
    state = make_state(tmp_path)
    (principal,) = json.loads((state / "gateway.json").read_text())["principals"]
    token, digest = new_token()
    with twistd(tmp_path, "aotx", "--state", state) as process:
        process.wait_for(GATEWAY_READY, COMPILE_PATIENCE)
        service = Service(process, state)
        principal["token_sha256"].append(digest)
        edit(state / "gateway.json", principals=[principal])

        subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True, env=os.environ)

        process.wait_for("reloaded: revision 1")
        for good in (service.token, token):
            models = client_of(service, good).models.list()
            assert [model.id for model in models] == ["reference"]
