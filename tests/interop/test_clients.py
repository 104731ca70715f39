"""
curl, wget, httpie, ab and a raw socket: the examples of docs/http.md, each with the
answer that it should get (D14, D15, D16, D23, B77).
"""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
from twisted.internet.threads import deferToThread

from tests.asynchronous import asynchronous
from tests.gateway.device_script import Running
from tests.gateway.feeds import CHAT, REQUESTS, body
from tests.gateway.serving import TOKEN, Serving
from tests.interop.programs import need, run

AUTH = f"Authorization: Bearer {TOKEN}"
OK = '{"status":"ok"}'


def hello(request: Running) -> None:
    request.complete(b"hello")


def examples(program: str) -> list[str]:
    """
    The commands of docs/http.md that begin with *program*.
    """
    page = Path(__file__).parents[2] / "docs" / "http.md"
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    commands = [
        line
        for block in blocks
        for line in block.replace("\\\n", " ").replace('",\n', '", ').splitlines()
    ]
    return [line for line in commands if line.startswith(program + " ")]


async def shell(gateway: Serving, command: str) -> tuple[int, str]:
    """
    Run an example as the page says, with `$B` and `$T` set.
    """
    command = command.replace("reference", "m").replace("8081", str(gateway.port))
    script = f"B={gateway.url} T={TOKEN}\n{command}"
    done = await run("bash", "-c", script)
    return done.code, done.out + done.err


@asynchronous
@pytest.mark.parametrize("program", ["wget", "http", "ab", "printf"])
async def test_the_page_s_examples(gateway: Serving, program: str) -> None:
    """
    Each exits with 0 and shows what the page says it shows.
    """
    need("nc" if program == "printf" else program)
    gateway.device.on_submit = hello
    commands = examples(program)
    assert commands

    for command in commands:
        code, out = await shell(gateway, command)
        assert code == 0, out
        wanted = "Failed requests:        0" if program == "ab" else '"'
        assert wanted in out, out


@asynchronous
async def test_curl(gateway: Serving) -> None:
    """
    Whole, streamed, chunked, HEAD, early refusals, HTTP/1.0, keep-alive.
    """
    need("curl")
    gateway.device.on_submit = hello
    json_type = "Content-Type: application/json"
    chat = ("-sS", gateway.url + CHAT, "-H", AUTH, "-H", json_type)
    whole = await run("curl", *chat, "-d", json.dumps(body()))
    assert json.loads(whole.out)["choices"][0]["message"]["content"] == "hello"
    streamed = await run("curl", "-N", *chat, "-d", json.dumps(body(stream=True)))
    assert streamed.out.endswith("data: [DONE]\n\n")
    old = await run("curl", "-0", *chat, "-d", json.dumps(body(stream=True)))
    assert old.out.endswith("data: [DONE]\n\n")
    chunked = ("-H", "Transfer-Encoding: chunked", "-d", "@-")
    sent = json.dumps(body("x" * 3000))
    assert '"hello"' in (await run("curl", *chat, *chunked, sent=sent)).out
    # 9 MiB: refused before it is sent, told before the connection ends.
    large = ("-d", "@-", "-w", "%{http_code}", "-H", "Expect: 100-continue")
    refused = await run("curl", *chat, *large, sent="x" * (9 << 20))
    assert '"body_limit"' in refused.out
    assert refused.out.endswith("413")
    head = await run("curl", "-sSI", gateway.url + "/v1/models", "-H", AUTH)
    assert head.out.startswith("HTTP/1.1 200 OK")
    twice = gateway.url + "/healthz"
    kept = await run("curl", "-sS", "-w", "%{num_connects} ", twice, twice)
    assert kept.out == f"{OK}1 {OK}0 "


@asynchronous
async def test_curl_resumes_events(gateway: Serving) -> None:
    need("curl")
    gateway.device.on_submit = hello
    made = (await gateway.post(REQUESTS, body())).json["id"]
    url = f"{gateway.url}{REQUESTS}/{made}/events"
    last = f"Last-Event-ID: {made}:2"

    done = await run("curl", "-sSN", url, "-H", AUTH, "-H", last)

    assert done.code == 0
    assert '"offset":"2"' in done.out
    assert done.out.count("event: status") >= 1


@asynchronous
async def test_wget(gateway: Serving) -> None:
    """
    It shows a refusal with its code, and takes an answer to HEAD.
    """
    need("wget")
    get = ("wget", "-qO-", f"--header={AUTH}")
    done = await run(*get, gateway.url + "/v1/models")
    assert json.loads(done.out)["object"] == "list"
    spider = await run("wget", "--spider", "-S", gateway.url + "/healthz")
    assert spider.code == 0
    assert "HTTP/1.1 200 OK" in spider.err
    missing = await run(*get, "-S", gateway.url + "/nowhere")
    assert missing.code == 8
    assert "404 Not Found" in missing.err


@asynchronous
async def test_ab_by_http_1_0(gateway: Serving) -> None:
    """
    B77: a hundred requests, ten at once, with and without its keep-alive.
    """
    need("ab")
    for extra in ((), ("-k",)):
        done = await run(
            "ab", "-n", "100", "-c", "10", *extra, gateway.url + "/healthz"
        )
        assert done.code == 0, done.err
        assert re.search(r"Complete requests:\s+100\n", done.out)
        assert re.search(r"Failed requests:\s+0\n", done.out)
        assert "Non-2xx" not in done.out


@asynchronous
async def test_a_raw_socket(gateway: Serving) -> None:
    """
    A byte at a time.
    """

    def work() -> bytes:
        with socket.create_connection(("127.0.0.1", gateway.port), 5) as client:
            for (
                byte
            ) in b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":
                client.send(bytes([byte]))
            received = b""
            while part := client.recv(4096):
                received += part
        return received

    received = await deferToThread(work)

    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert received.endswith(OK.encode())


def test_the_page_shows_every_client() -> None:
    for program in ("curl", "wget", "http", "ab", "printf"):
        assert examples(program), program
