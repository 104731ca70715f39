"""
What users of such servers tripped over, by the numbers of its list: sections 3 (streams
and Unicode), 4 (parameters and JSON), 5 (HTTP on the wire), 7 (keys, logs, life cycle).

Most of them are told where the thing itself is tested:

| Number | Where |
|---|---|
| B29, B39, B43 | test_streams |
| B31 | test_streams, test_sse, test_sdk |
| B35 | test_sse |
| B37, B41 | test_completions |
| B45, B47, B49 | test_bodies |
| B51 | test_neutral |
| B53 | test_forms |
| B59 | test_checks, test_models, test_guards |
| B61 | test_connection, test_framing |
| B63 | test_bodies, test_guards, and here |
| B65 | test_checks, test_events, test_resource, and here |
| B67 | test_guards, test_connection |
| B69 | test_guards, test_framing |
| B73 | test_origins, and here |
| B75 | test_auth, and here |
| B85 | test_auth, test_problems |
| B77 | test_connection, test_resource, and here |
| B87, B89 | test_problems, test_sdk |
| B91 | test_health |
| B93 | test_journal |
| B55, B57, B71 | here |

Those that do not apply: B33, because there is no upstream whose comments could be sent
on; of B39 the upstream's half answers, of B41 stop strings, which are refused
(`http.md` §5); of B57 nothing is dropped: what is unknown is refused.
"""

from __future__ import annotations

import re
import socket
import tempfile
from pathlib import Path
from typing import Any

import openai
import pytest
from twisted.internet.threads import deferToThread

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import DeviceScript
from tests.gateway.feeds import CHAT, REQUESTS, body, packet
from tests.gateway.serving import ORIGIN, TOKEN, Serving, parsed, sleep
from twisted_aotx.gateway.settings import Limits
from twisted_aotx.wire.numbers import Operation

HOST = b"Host: x\r\n"


def test_every_number_is_where_this_page_says() -> None:
    here = Path(__file__)
    rows = re.findall(r"^\| (B\d.*?) \| (.*?) \|$", __doc__ or "", re.MULTILINE)
    assert len(rows) > 15
    for numbers, places in rows:
        for place in re.findall(r"test_\w+", places):
            files = here.parent.glob(f"{place}*.py")
            text = "".join(file.read_text() for file in files)
            for number in re.findall(r"B\d\d", numbers):
                assert re.search(rf"\b{number}\b", text), (number, place)
        if "here" in places:
            told = here.read_text().replace(__doc__ or "", "")
            for number in re.findall(r"B\d\d", numbers):
                assert re.search(rf'"""\n.*\b{number}\b', told), number


@asynchronous
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": True, "top_logprobs": 20, "temperature": 0}, "body"),
        ({"logprobs": True}, "logprobs"),
        ({"n_discard": -1}, "body"),
        ({"n_keep": -5}, "body"),
        ({"slot_id": 0}, "body"),
        ({"grammar": "root ::= x"}, "body"),
        ({"lora": []}, "body"),
        ({"cache_prompt": True}, "body"),
    ],
)
async def test_what_an_engine_might_take_does_not_reach_it(
    gateway: Serving, fields: dict[str, Any], param: str
) -> None:
    """
    B55, B57: refused by name, nothing is submitted.
    """
    for path in (CHAT, REQUESTS):
        answer = await gateway.post(path, body(**fields))
        where = param if path == CHAT else "body"
        assert answer.problem == (400, "invalid_field", where)
    assert Operation.SUBMIT not in gateway.device.operations


@asynchronous
async def test_a_body_without_end_leaves_nothing(serve: Serve) -> None:
    """
    B63: chunks without a length; refused at the first byte over, no file is left.
    """
    gateway = await serve(limits=Limits(json_bytes=1 << 20))
    before = set(Path(tempfile.gettempdir()).iterdir())
    head = packet(CHAT, headers="Content-Type: application/json\r\n")
    head = head.removesuffix(b"\r\n") + b"Transfer-Encoding: chunked\r\n\r\n"
    raw = await gateway.connect()
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    raw.send(head)
    for _ in range(64):
        raw.send(chunk)
        await sleep(0.002)

    answer = parsed(await raw.closed)

    assert answer.problem == (413, "body_limit", None)
    assert set(gateway.gateway.budgets.held().values()) == {0}
    after = set(Path(tempfile.gettempdir()).iterdir())
    assert not [p for p in after - before if p.is_file()]


@asynchronous
async def test_a_thousand_heads_hold_no_stream(gateway: Serving) -> None:
    """
    B65: on events, on one connection; the same headers as GET has, no subscriber.
    """
    made = await gateway.post(REQUESTS, body())
    head = packet(f"{REQUESTS}/{made.json['id']}/events", method="HEAD")
    raw = await gateway.connect()
    raw.send(head * 1000)

    await raw.until(b"HTTP/1.1 200 OK", 1000, 30)

    assert raw.received.count(b"Content-Type: text/event-stream") == 1000
    assert b"data:" not in raw.received
    assert gateway.gateway.budgets.held()["work"] == 0
    reads = gateway.device.count(Operation.READ)
    await sleep(0.15)
    assert gateway.device.count(Operation.READ) == reads


@asynchronous
async def test_a_pool_does_not_race_our_idle_time(serve: Serve) -> None:
    """
    B71: a request that comes just before the end of idle time is answered, one after it
    finds the connection closed and opens another; neither fails.
    """
    gateway = await serve(idle_seconds=1)

    def work() -> list[int]:
        import time

        counts = []
        with openai.OpenAI(
            api_key=TOKEN, base_url=f"{gateway.url}/v1", max_retries=0
        ) as client:
            for pause in (0, 0.5, 0.9, 1.1):
                time.sleep(pause)
                counts.append(len(client.models.list().data))
        return counts

    assert await deferToThread(work) == [2, 2, 2, 2]


@asynchronous
async def test_a_page_reads_why_it_is_refused(gateway: Serving) -> None:
    """
    B73: CORS stands on a 401 and after a preflight without a token; `*` never.
    """
    preflight = await gateway.request(
        "OPTIONS",
        CHAT,
        token=None,
        headers={
            "Origin": ORIGIN,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,x-stainless-os",
        },
    )
    answer = await gateway.post(CHAT, body(), token=None, headers={"Origin": ORIGIN})
    foreign = await gateway.request(
        "OPTIONS",
        CHAT,
        token=None,
        headers={"Origin": "null", "Access-Control-Request-Method": "POST"},
    )

    assert preflight.status == 204
    assert answer.status == 401
    for each in (preflight, answer):
        assert each.header("access-control-allow-origin") == ORIGIN
    assert foreign.problem == (403, "origin_forbidden", None)
    assert foreign.header("access-control-allow-origin") is None


@asynchronous
async def test_every_spelling_of_a_credential(gateway: Serving) -> None:
    """
    B75, D27: the scheme in any case, one space, the token exact.
    """
    token = TOKEN.encode()
    for value, status in (
        (b"bearer " + token, 200),
        (b"BEARER " + token, 200),
        (b"Bearer " + token + b" \t", 200),
        (b"BEARER  " + token, 401),
        (b"Bearer\t" + token, 401),
        (b"Bearer " + token.upper(), 401),
        (b"Basic " + token, 401),
        (b"Bearer", 401),
        (b"", 401),
        (token, 401),
        (b"Bearer " + b"\xff" * 40, 401),
        (b"Bearer " + b"x" * 65_536, 431),
    ):
        sent = b"GET /v1/models HTTP/1.1\r\n" + HOST + b"Authorization: " + value
        answer = parsed(await gateway.raw(sent + b"\r\nConnection: close\r\n\r\n"))
        assert answer.status == status, value
        assert (answer.header("www-authenticate") == "Bearer") is (status == 401)


@asynchronous
async def test_old_clients_get_a_whole_stream(serve: Serve) -> None:
    """
    B77: a completion's events by HTTP/1.0: no chunks, and the end is the close.
    """
    device = DeviceScript()
    device.on_submit = lambda request: request.complete("grüße".encode())
    gateway = await serve(device)
    for extra in ("", "Connection: keep-alive\r\n"):
        sent = packet(CHAT, body(stream=True), headers=extra)
        answer = parsed(await gateway.raw(sent.replace(b"HTTP/1.1", b"HTTP/1.0", 1)))
        assert answer.status == 200
        assert answer.header("transfer-encoding") is None
        assert answer.content.startswith(b"data: {")
        assert answer.content.endswith(b"data: [DONE]\n\n")


@asynchronous
async def test_a_hundred_old_clients_in_a_row(gateway: Serving) -> None:
    """
    B77: as `ab` does it, each with a connection of its own that the server ends.
    """

    def work() -> set[bytes]:
        answers = set()
        for _ in range(100):
            with socket.create_connection(("127.0.0.1", gateway.port), 5) as client:
                client.sendall(b"GET /healthz HTTP/1.0\r\nAccept: */*\r\n\r\n")
                received = b""
                while part := client.recv(4096):
                    received += part
            answers.add(received.partition(b"\r\n\r\n")[2])
        return answers

    assert await deferToThread(work) == {b'{"status":"ok"}'}
