"""
Media over HTTP against a real service: uploads, messages with pictures and sound,
leases, removals (`http.md` §5, §8).
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import struct
import time
import urllib.error
import urllib.request
import wave
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from openai import BadRequestError, OpenAI
from PIL import Image

from tests.endtoend.conftest import GATEWAY_READY, Service, set_engine
from tests.endtoend.test_pages import needs_curl, shell
from tests.processes import COMPILE_PATIENCE, PATIENCE, make_state, twistd
from tests.test_docs import DOCS, blocks_of

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MEDIA = "/aotx/v1/media"
REQUESTS = "/aotx/v1/requests"
#: Tokens per second: slow enough to remove a source while a request runs.
RATE = 50


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Both parts, with an engine that takes its time."""
    folder = tmp_path_factory.mktemp("media")
    state = make_state(folder)
    set_engine(state, rate=RATE, modalities=["image", "audio"])
    with twistd(folder, "aotx", "--state", state) as process:
        process.wait_for(GATEWAY_READY, COMPILE_PATIENCE)
        yield Service(process, state)


def jpeg(red: int = 200) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (64, 64), (red, 100, 50)).save(out, "JPEG")
    return out.getvalue()


def wav(frames: int = 16000, volume: int = 9000) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as tone:
        tone.setparams((1, 2, 16000, 0, "NONE", ""))
        values = (int(volume * math.sin(i / 6)) for i in range(frames))
        tone.writeframes(b"".join(struct.pack("<h", value) for value in values))
    return out.getvalue()


@attrs.frozen
class Answer:
    status: int
    body: Any
    headers: dict[str, str]


def call(
    service: Service,
    method: str,
    path: str,
    data: bytes | None = None,
    content_type: str = "application/json",
) -> Answer:
    headers = {**service.headers, "Content-Type": content_type}
    request = urllib.request.Request(
        service.url + path, data, headers if data is not None else service.headers
    )
    request.method = method
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            status, text, found = answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        status, text, found = error.code, error.read(), error.headers
    named = {name.lower(): value for name, value in found.items()}
    return Answer(status, json.loads(text) if text else None, named)


def upload(service: Service, data: bytes, content_type: str = "image/jpeg") -> Answer:
    return call(service, "POST", MEDIA, data, content_type)


def remove(service: Service, handle: str) -> Answer:
    return call(service, "DELETE", f"{MEDIA}/{handle}")


def listed(service: Service) -> dict[str, Any]:
    return {row["id"]: row for row in call(service, "GET", MEDIA).body["data"]}


def problem(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.body["error"]["code"]


@pytest.mark.parametrize(
    ("data", "content_type", "format", "samples", "rows"),
    [
        (jpeg(), "image/jpeg", 1, 0, 64),
        (wav(), "audio/wav", 3, 16000, 25),
        (wav(321), "audio/x-wav", 3, 321, 1),
    ],
)
def test_a_source_from_upload_to_removal(
    served: Service,
    data: bytes,
    content_type: str,
    format: int,
    samples: int,
    rows: int,
) -> None:
    """
    cases K 157: uploaded, listed, shown, removed, gone.
    """
    answer = upload(served, data, content_type)

    assert answer.status == 201, answer.body
    handle = answer.body["id"]
    assert answer.body == {
        "id": handle,
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": str(len(data)),
        "phase": 6,
        "status": 0,
        "format": format,
        "samples": samples,
        "rows": rows,
    }
    assert listed(served)[handle] == answer.body
    assert call(served, "GET", f"{MEDIA}/{handle}").body == answer.body
    assert remove(served, handle).status == 204
    assert handle not in listed(served)


@pytest.mark.parametrize(
    ("data", "content_type", "refusal"),
    [
        (jpeg()[:-1], "image/jpeg", (400, "media_refused")),
        (jpeg() + b"\0", "image/jpeg", (400, "media_refused")),
        (wav(), "image/jpeg", (400, "media_refused")),
        (jpeg(), "audio/wav", (400, "media_refused")),
        (wav(volume=0), "audio/wav", (400, "media_refused")),
        (wav(320), "audio/wav", (413, "media_limit")),
        (wav(480_001), "audio/wav", (413, "media_limit")),
        (b"", "image/jpeg", (413, "media_limit")),
        (jpeg(), "image/png", (415, "media_type")),
    ],
)
def test_sources_that_are_refused_leave_nothing(
    served: Service, data: bytes, content_type: str, refusal: tuple[int, str]
) -> None:
    """
    cases K 157, 158; G 119.
    """
    before = listed(served)

    assert problem(upload(served, data, content_type)) == refusal
    assert listed(served) == before


def client_of(service: Service) -> OpenAI:
    return OpenAI(base_url=f"{service.url}/v1", api_key=service.token, max_retries=0)


def picture(data: bytes) -> dict[str, Any]:
    coded = base64.b64encode(data).decode()
    return {
        "type": "image_url",
        "image_url": {"url": f"data:image/jpeg;base64,{coded}"},
    }


def sound(data: bytes) -> dict[str, Any]:
    coded = base64.b64encode(data).decode()
    return {"type": "input_audio", "input_audio": {"data": coded, "format": "wav"}}


def chat(service: Service, *parts: dict[str, Any]) -> tuple[str, list[str]]:
    """
    The text of a greedy completion about *parts*, and the handles of its sources.
    """
    content: Any = [{"type": "text", "text": "What is it?"}, *parts]
    answer = client_of(service).chat.completions.with_raw_response.create(
        model="reference",
        messages=[{"role": "user", "content": content}],
        temperature=0,
        max_tokens=20,
    )
    text = answer.parse().choices[0].message.content
    handles = answer.headers.get("X-AOTX-Media-Ids", "")
    assert text is not None
    return text, handles.split(",") if handles else []


def test_the_openai_sdk_sends_pictures_and_sound(served: Service) -> None:
    """
    The handles stand in the header; the sources are the caller's until removed.
    """
    text, handles = chat(served, picture(jpeg()), sound(wav()))

    rows = listed(served)
    assert [rows[handle]["format"] for handle in handles] == [1, 3]
    assert rows[handles[0]]["sha256"] == hashlib.sha256(jpeg()).hexdigest()
    again, more = chat(served, picture(jpeg()), sound(wav()))
    assert again == text
    assert not set(more) & set(handles)
    for handle in (*handles, *more):
        assert remove(served, handle).status == 204
    assert listed(served) == {}


def test_what_is_in_a_picture_changes_the_answer(served: Service) -> None:
    texts = {}
    for red in (1, 200):
        texts[red], handles = chat(served, picture(jpeg(red)))
        assert [remove(served, handle).status for handle in handles] == [204]

    assert texts[1] != texts[200]
    assert texts[1] != chat(served)[0]


def test_a_picture_that_is_refused_is_the_sdk_s_error(served: Service) -> None:
    with pytest.raises(BadRequestError) as caught:
        chat(served, picture(jpeg()[:-1]))

    assert caught.value.code == "media_refused"
    assert listed(served) == {}


def test_a_leased_source_stays_until_its_request_ends(served: Service) -> None:
    """
    http.md §8: 409 while leased, which may pass; then 204, and the request is whole.
    """
    handle = upload(served, jpeg()).body["id"]
    part = {"type": "media", "media_id": handle, "modality": "image"}
    body = {
        "model": "reference",
        "messages": [{"role": "user", "content": [part, part]}],
        "max_tokens": 2 * RATE,
    }
    admitted = call(served, "POST", REQUESTS, json.dumps(body).encode())
    assert admitted.status == 202, admitted.body
    assert admitted.body["media"] == [handle]
    assert admitted.headers["x-aotx-media-ids"] == handle

    leased = remove(served, handle)

    assert problem(leased) == (409, "device_refused")
    assert "x-should-retry" not in leased.headers
    path = f"{REQUESTS}/{admitted.body['id']}"
    deadline = time.monotonic() + PATIENCE
    while call(served, "GET", path).body["state"] != "completed":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert remove(served, handle).status == 204
    assert handle not in listed(served)
    # device.md §12: a descriptor that was cancelled stays so until it is used again.
    assert remove(served, handle).status == 204
    assert call(served, "GET", f"{MEDIA}/{handle}").body["phase"] == 7


def test_media_parts_are_held_to_their_family_and_owner(served: Service) -> None:
    """
    cases J 154.
    """
    handle = upload(served, jpeg()).body["id"]
    other = "media-" + "ab" * 16
    for media_id, modality, expected in (
        (handle, "audio", (409, "media_state")),
        (other, "image", (404, "device_refused")),
    ):
        part = {"type": "media", "media_id": media_id, "modality": modality}
        body = {
            "model": "reference",
            "messages": [{"role": "user", "content": [part]}],
        }
        answer = call(served, "POST", REQUESTS, json.dumps(body).encode())
        assert problem(answer) == expected

    assert remove(served, handle).status == 204


@needs_curl
def test_the_examples_of_media_md_answer(served: Service) -> None:
    before = listed(served)

    output = shell(served, "\n".join(blocks_of(DOCS / "media.md", "sh")))

    assert '"schema":"aotx.media-list.v1"' in output
    assert '"phase":6' in output
    assert listed(served) == before


def test_capabilities_tell_what_a_model_takes(served: Service) -> None:
    body = call(served, "GET", "/aotx/v1/capabilities").body

    (model,) = body["models"]
    assert model["input"] == ["text", "image", "audio"]
    assert body["features"]["private_media"]
    assert body["features"]["https_import"]
    assert body["limits"]["media_objects"] == 128
    assert body["limits"]["private_media_bytes"] == "67108864"
