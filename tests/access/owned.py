"""
What one principal has, in every state that it can be in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tests.access.front import REVISION
from tests.access.served import Served
from tests.client.bench import Call
from tests.device.capacities import SMALL
from tests.device.making import DONE, EMIT, EPOCH, FAILED, OPENED
from tests.media_made import make_jpeg, make_wav
from twisted_aotx.client import Caller
from twisted_aotx.client.media import media_frame
from twisted_aotx.wire.handles import media_handle
from twisted_aotx.wire.media import BeginData, MediaFrame
from twisted_aotx.wire.numbers import MediaFormat, MessageRole, Role
from twisted_aotx.wire.requests import DigestPart, Message, Submission, TextPart

OWNER, STRANGER = 1, 2
OUTPUT: Final = b"the owner's output"
WAV: Final = make_wav(400)
JPEG: Final = make_jpeg()
#: Steps within which every exchange of these tests has its reply.
STEPS: Final = 20


def caller(number: int) -> Caller:
    return Caller(number.to_bytes(16, "big"), REVISION)


def run(served: Served, coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What an exchange with the device comes to."""
    call = Call(coroutine)
    for _ in range(STEPS):
        if call.is_done:
            break
        served.step()
    assert call.is_done
    if call.failure is not None:
        raise call.failure
    return call.result


def fresh(served: Served) -> bytes:
    return served.gateway.fresh_id()


# --- requests -------------------------------------------------------------------------


def submit(served: Served, *parts: TextPart | DigestPart) -> bytes:
    """A request of the owner's."""
    said = Message(MessageRole.USER, parts or (TextPart(b"the owner's prompt"),))
    submission = Submission(
        role=Role.LANGUAGE, limit=8, temperature=0.0, top_p=1.0, messages=(said,)
    )
    request_id = fresh(served)
    run(served, served.client.submit(caller(OWNER), EPOCH, request_id, submission))
    return request_id


def queued(served: Served) -> bytes:
    for _ in range(SMALL.slots):
        submit(served)
    return submit(served)


def preparing(served: Served) -> bytes:
    return submit(served)


def running(served: Served) -> bytes:
    made = submit(served)
    order = served.leases[-1]
    served.engine.report(order, OPENED, 5)
    served.engine.report(order, EMIT, 3, OUTPUT)
    served.step()
    return made


def ended(kind: int, value: int) -> Callable[[Served], bytes]:
    def bring(served: Served) -> bytes:
        made = running(served)
        served.engine.end(served.leases[-1], kind, value)
        served.step()
        return made

    return bring


def cancelled(served: Served) -> bytes:
    made = running(served)
    run(served, served.client.cancel(caller(OWNER), EPOCH, made))
    return made


def cancelled_at_once(served: Served) -> bytes:
    made = queued(served)
    run(served, served.client.cancel(caller(OWNER), EPOCH, made))
    return made


def displaced(served: Served) -> bytes:
    """Gone: newer ones have taken its place."""
    made = ended(DONE, 1)(served)
    served.plays = ()
    for _ in range(SMALL.requests):
        submit(served)
        served.step()
    served.plays = None
    return made


#: State to what brings a fresh request there; the engine must not play by itself.
REQUESTS: Final[dict[str, Callable[[Served], bytes]]] = {
    "queued": queued,
    "preparing": preparing,
    "running": running,
    "completed": ended(DONE, 1),
    "at its limit": ended(DONE, 2),
    "failed": ended(FAILED, 503),
    "cancelled": cancelled,
    "cancelled at once": cancelled_at_once,
    "displaced": displaced,
}


def request_handle(request_id: bytes, epoch: int = EPOCH) -> str:
    return f"req-{epoch:016x}-{request_id.hex()}"


# --- sources --------------------------------------------------------------------------


def send(served: Served, *frames: MediaFrame, number: int = OWNER) -> None:
    for frame in frames:
        run(served, media_frame(served.client, caller(number), frame))


def begun(served: Served, data: bytes, sha256: bytes | None = None) -> bytes:
    kind = MediaFormat.WAV if data[:4] == b"RIFF" else MediaFormat.JPEG
    digest = sha256 or hashlib.sha256(data).digest()
    transfer = fresh(served)
    send(served, MediaFrame.begin(transfer, len(data), BeginData(kind, digest)))
    send(served, MediaFrame.chunk(transfer, len(data), 0, data))
    return transfer


def uploaded(served: Served, data: bytes, sha256: bytes | None = None) -> bytes:
    transfer = begun(served, data, sha256)
    send(served, MediaFrame.end(transfer, len(data)))
    served.step(STEPS)
    return transfer


def receiving(served: Served) -> bytes:
    return begun(served, WAV)


def decoding(served: Served) -> bytes:
    served.decodes = False
    return uploaded(served, JPEG)


def encoding(served: Served) -> bytes:
    served.saves = None
    return uploaded(served, WAV)


def ready(served: Served) -> bytes:
    return uploaded(served, WAV)


def leased(served: Served) -> bytes:
    made = uploaded(served, WAV)
    submit(served, DigestPart(2, hashlib.sha256(WAV).digest()))
    return made


def leaving(served: Served) -> bytes:
    """Its removal waits for the store."""
    made = uploaded(served, WAV)
    served.saves = None
    Call(media_frame(served.client, caller(OWNER), MediaFrame.cancel(made)))
    served.step()
    return made


def refused(served: Served) -> bytes:
    return uploaded(served, WAV, bytes([1] * 32))


def removed(served: Served) -> bytes:
    made = uploaded(served, WAV)
    send(served, MediaFrame.cancel(made))
    return made


#: State to what brings a fresh source there.
SOURCES: Final[dict[str, Callable[[Served], bytes]]] = {
    "receiving": receiving,
    "decoding": decoding,
    "encoding": encoding,
    "ready": ready,
    "leased": leased,
    "leaving": leaving,
    "refused": refused,
    "removed": removed,
}


def source_handle(transfer_id: bytes) -> str:
    return media_handle(transfer_id)
