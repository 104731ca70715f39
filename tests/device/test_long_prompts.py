"""
Prompts that render to more than a packet holds (`wire.md` §13: prompt bytes ≥ 1), in
plain Python: no set of capacities that is compiled for tests has room for them.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from typing import Any

import pytest

from tests.device.driver import Driver
from tests.device.making import (
    CHATML,
    grant,
    message,
    new_device,
    part,
    payload_of,
    played_engine,
)
from tests.device.test_visits import DIGEST, SOURCE, keep_sources
from tests.device.visits import from_plain_python
from twisted_aotx.limits import (
    LINK_BYTES,
    PAYLOAD_BYTES_MAX,
    PROMPT_BYTES_MAX,
    Capacities,
)
from twisted_aotx.wire.numbers import PartKind

#: What ChatML puts around one message of the user.
AROUND = len(
    "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
)
#: Bytes of text in a payload that fills its packet.
TEXT = PAYLOAD_BYTES_MAX - len(payload_of(message(1, b"")))
#: Messages, and references in each: as many as a packet holds, or nearly.
MESSAGES, REFERENCES = 64, 25


def references() -> bytes:
    """A payload of references to one source, in messages of the user."""
    each = struct.pack("<II", 1, REFERENCES) + part(DIGEST, PartKind.AUDIO) * REFERENCES
    return payload_of(*[each] * MESSAGES)


def admit(prompt_bytes: int, what: str) -> dict[str, Any]:
    """What a device with so many prompt bytes answers, and what its engine gets."""
    capacities = Capacities(
        slots=2,
        requests=2,
        channels=2,
        principals=1,
        prompt_bytes=prompt_bytes,
        output_bytes=16,
        media_objects=8,
        media_bytes=1 << 16,
    )
    engine = played_engine(
        capacity=1, sequence_tokens=8192, modalities=5, message_format=CHATML
    )
    device = new_device(capacities, [engine], "cpu")
    driver = Driver(device, capacities)
    row = grant(actions=3, requests=2, media=8, media_bytes=1 << 14)
    assert driver.install(row) == 200
    keep_sources(driver, device)
    text = payload_of(message(1, b"x" * TEXT))
    payload = {"text": text, "references": references()}[what]
    status = driver.submit(1, payload=payload)
    if status != 202:
        return {"status": status}
    driver.step()
    (order,) = driver.opens()
    return {
        "status": status,
        "bytes": len(order.rendered),
        "rendered": hashlib.sha256(order.rendered).hexdigest(),
        "payload": order.payload == payload,
        "sources": [source.data == SOURCE for source in order.sources].count(True),
    }


def chatml(*messages: bytes) -> bytes:
    """As ChatML renders messages of the user."""
    said = b"".join(b"<|im_start|>user\n%s<|im_end|>\n" % each for each in messages)
    return said + b"<|im_start|>assistant\n<think>\n\n</think>\n\n"


@pytest.mark.parametrize("room", [TEXT + AROUND - 1, TEXT + AROUND, PROMPT_BYTES_MAX])
def test_text_that_fills_its_packet(room: int) -> None:
    """It is served where prompts have the room, and refused with a byte less."""
    prompt = chatml(b"x" * TEXT)
    assert len(prompt) == TEXT + AROUND > PAYLOAD_BYTES_MAX

    found = from_plain_python(__name__, room, "text")

    if room < len(prompt):
        assert found == {"status": 413}
    else:
        assert found == {
            "status": 202,
            "bytes": len(prompt),
            "rendered": hashlib.sha256(prompt).hexdigest(),
            "payload": True,
            "sources": 0,
        }


def test_references_that_fill_their_packet() -> None:
    """Each renders to more than it takes, and the engine gets every source."""
    link = b"[audio:%s]" % DIGEST.hex().encode()
    assert len(link) == LINK_BYTES
    prompt = chatml(*[link * REFERENCES] * MESSAGES)
    assert PAYLOAD_BYTES_MAX - 1024 < len(references()) <= PAYLOAD_BYTES_MAX

    found = from_plain_python(__name__, PROMPT_BYTES_MAX, "references")

    assert found == {
        "status": 202,
        "bytes": len(prompt),
        "rendered": hashlib.sha256(prompt).hexdigest(),
        "payload": True,
        "sources": MESSAGES * REFERENCES,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(admit(int(sys.argv[1]), sys.argv[2])))
