"""
What is planted, and what is made of it: requests, sources, answers of an engine.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any, Final

import attrs

from tests.access.front import Front, Told, account
from tests.access.hunter import Catch, Hunter, look_at_objects, planted
from tests.media_made import make_jpeg
from twisted_aotx.gateway.problems import ProblemCode
from twisted_aotx.gateway.settings import Principal

TOKEN: Final = planted("token", 60)
#: One that nobody has.
UNKNOWN_TOKEN: Final = planted("unknown token", 60)
PROMPT: Final = planted("prompt")
OUTPUT: Final = planted("output")
MEDIA: Final = planted("media", 1200)
#: Whatever else a caller may send: in paths, queries, headers, keys, values.
SENT: Final = planted("sent")
URL: Final = planted("url", 60)

SECRETS: Final[dict[str, str | bytes]] = {
    "token": TOKEN,
    "digest of token": hashlib.sha256(TOKEN.encode()).digest(),
    "unknown token": UNKNOWN_TOKEN,
    "digest of unknown token": hashlib.sha256(UNKNOWN_TOKEN.encode()).digest(),
    "prompt": PROMPT,
    "output": OUTPUT,
    "media": MEDIA,
    "sent": SENT,
    "url": URL,
}
#: What an answer that is no error may hold: what was asked for.
ANSWERED: Final = frozenset({"output"})
#: Steps between two looks at objects.
PAUSE: Final = 10
#: Error codes of imports that reach a host; they need real sockets.
IMPORTS: Final = frozenset(
    {
        ProblemCode.FETCH_LIMIT,
        ProblemCode.SOURCE_DNS,
        ProblemCode.SOURCE_STATUS,
        ProblemCode.SOURCE_ENCODING,
        ProblemCode.SOURCE_LIMIT,
        ProblemCode.SOURCE_LENGTH,
        ProblemCode.SOURCE_TRANSFER,
    }
)


def owner(number: int = 1, actions: int = 255) -> Principal:
    """Principal *number*, whose token is `TOKEN`."""
    digest = hashlib.sha256(TOKEN.encode()).digest()
    return attrs.evolve(account(number, actions), token_sha256=(digest,))


def chat(content: Any = PROMPT, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": content}], **fields}


def planted_wav(data: bytes = MEDIA.encode()) -> bytes:
    """A sound whose samples are *data*."""
    data = data[: len(data) & ~1]
    form = struct.pack("<HHIIHH", 1, 1, 16000, 32000, 2, 16)
    chunks = b"fmt " + struct.pack("<I", 16) + form
    chunks += b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def planted_jpeg(data: bytes = MEDIA.encode()) -> bytes:
    """A picture with *data* as its comment."""
    picture = make_jpeg()
    return (
        picture[:2]
        + b"\xff\xfe"
        + struct.pack(">H", len(data) + 2)
        + data
        + picture[2:]
    )


class Hunt:
    """
    Asks, and looks at everything that is answered, made and told meanwhile.
    """

    def __init__(self, front: Front) -> None:
        self.front = front
        self.catch = Catch(Hunter(SECRETS))
        #: Codes of errors so far.
        self.codes: set[str] = set()
        self._steps = 0

    def look(self) -> None:
        """Look at every object."""
        look_at_objects(self.catch)

    def stepped(self) -> None:
        """The same, but in each of `PAUSE` steps only."""
        self._steps += 1
        if self._steps % PAUSE == 0:
            self.look()

    def answered(self, told: Told | bytes, where: str) -> None:
        """Look at an answer."""
        packet = told if isinstance(told, bytes) else told.packet
        is_fine = packet.startswith((b"HTTP/1.1 20", b"HTTP/1.0 20"))
        text = packet.decode("latin-1")
        self.catch.look("answer", where, text, allowed=ANSWERED if is_fine else ())
        if b'"error":' in packet:
            for piece in packet.split(b'"code":"')[1:]:
                self.codes.add(piece.partition(b'"')[0].decode())

    def ask(
        self, method: str, path: str, token: str | None = TOKEN, **more: Any
    ) -> Told:
        told = self.front.ask(method, path, token, **more)
        self.answered(told, f"{method} {path}")
        return told

    def send(self, data: bytes) -> Told:
        """The same of bytes."""
        told = self.front.send(data)
        self.answered(told, repr(data[:40]))
        return told
