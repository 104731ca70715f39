"""
Clients of several principals that upload, delete and break off, and what each of them
was told; the gateway is killed under them.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from tests.media_made import make_jpeg, make_wav, pad_jpeg
from tests.processes import PATIENCE, address
from twisted_aotx.config.initial import new_token

MEDIA = "/aotx/v1/media"
JPEG, WAV = "image/jpeg", "audio/wav"
#: Smallest valid sources; what is smaller is junk.
_PICTURE = make_jpeg()
_WAV_HEAD, _FRAMES_MIN = 44, 321
#: Seconds between two looks at what is to come.
_PAUSE = 0.02
#: Seconds for which a principal without room waits for it.
_NO_ROOM_PAUSE = 0.1


@attrs.frozen
class Body:
    """
    What is uploaded; no two are alike.
    """

    kind: str
    data: bytes = attrs.field(repr=False)
    is_valid: bool

    @classmethod
    def make(cls, number: int, size: int, kind: str) -> Body:
        """JPEG, WAV, or junk under one of their names, of *size* bytes, or nearly."""
        if kind == JPEG and size >= len(_PICTURE) + 20:
            return cls(JPEG, pad_jpeg(_PICTURE, size, number), is_valid=True)
        frames = (size - _WAV_HEAD) // 2
        # At most 30 s.
        frames = min(frames, 480_000)
        if kind == WAV and frames >= _FRAMES_MIN:
            return cls(WAV, make_wav(frames, seed=number), is_valid=True)
        chance = random.Random(number)
        return cls(chance.choice((JPEG, WAV)), chance.randbytes(size), is_valid=False)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@attrs.define
class Principal:
    """
    Its token, and what it knows of its sources.
    """

    number: int
    token: str = attrs.field(repr=False)
    digest: str
    #: Handle → (SHA-256, bytes) of what was acknowledged and not asked to be deleted.
    ready: dict[str, tuple[str, int]] = attrs.field(factory=dict)
    deleted: set[str] = attrs.field(factory=set)
    #: Handles whose deletion was not answered, with SHA-256 and bytes.
    unsure: dict[str, tuple[str, int]] = attrs.field(factory=dict)
    #: SHA-256 → bytes of valid bodies that were sent whole and not answered.
    unanswered: dict[str, int] = attrs.field(factory=dict)
    #: SHA-256 of those whose answer somebody waits for.
    awaited: set[str] = attrs.field(factory=set)

    @classmethod
    def make(cls, number: int) -> Principal:
        return cls(number, *new_token())

    def entry(self, *, media: int, media_bytes: int) -> dict[str, Any]:
        """Its place in gateway.json."""
        return {
            "id": f"{self.number:032x}",
            "token_sha256": [self.digest],
            "models": ["reference"],
            "actions": ["infer", "upload"],
            "media": media,
            "media_bytes": media_bytes,
        }

    def judge(self, listed: dict[str, dict[str, Any]]) -> None:
        """Hold what the device lists to what it has acknowledged."""
        found = {
            handle: (row["sha256"], int(row["bytes"])) for handle, row in listed.items()
        }
        assert all(row["phase"] == 6 for row in listed.values()), listed
        assert not found.keys() & self.deleted
        assert self.ready.items() <= found.items()
        for handle in found.keys() - self.ready.keys():
            sha256, size = found[handle]
            in_flight = self.unanswered.get(sha256) == size
            assert in_flight or self.unsure.get(handle) == (sha256, size), handle


class Broken(Exception):
    """
    The connection ended without an answer.
    """


@attrs.frozen
class Media:
    """
    The media routes of one gateway, for one principal; a connection per call.
    """

    config: Path
    token: str = attrs.field(repr=False)

    def call(
        self, method: str, path: str = "", body: bytes | None = None, kind: str = ""
    ) -> tuple[int, Any]:
        """
        Status and body of the answer.

        Raises:
            Broken: there was none.
        """
        connection = http.client.HTTPConnection(
            urlsplit(address(self.config)).netloc, timeout=PATIENCE
        )
        headers = {"Authorization": f"Bearer {self.token}"}
        if kind:
            headers["Content-Type"] = kind
        try:
            connection.request(method, MEDIA + path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
        except (ConnectionError, http.client.HTTPException) as error:
            raise Broken from error
        finally:
            connection.close()
        return answer.status, json.loads(text) if text else None

    def upload(self, body: Body) -> tuple[int, Any]:
        return self.call("POST", "", body.data, body.kind)

    def delete(self, handle: str) -> tuple[int, Any]:
        return self.call("DELETE", f"/{handle}")

    def listed(self) -> dict[str, dict[str, Any]]:
        """Every source, by its handle."""
        found, cursor = {}, "0"
        while cursor:
            status, page = self.call("GET", f"?cursor={cursor}")
            assert status == 200, page
            found.update({row["id"]: row for row in page["data"]})
            cursor = page["next_cursor"]
        return found

    def ready(self) -> dict[str, tuple[str, int]]:
        """Handle → SHA-256 and bytes of every source that is ready."""
        return {
            handle: (row["sha256"], int(row["bytes"]))
            for handle, row in self.listed().items()
            if row["phase"] == 6
        }

    def break_off(self, body: Body, sent: int, *, reset: bool) -> None:
        """Send the first *sent* bytes of a body, and go."""
        place = urlsplit(address(self.config))
        assert place.port
        head = (
            f"POST {MEDIA} HTTP/1.1\r\nHost: {place.netloc}\r\n"
            f"Authorization: Bearer {self.token}\r\nContent-Type: {body.kind}\r\n"
            f"Content-Length: {len(body.data)}\r\n\r\n"
        )
        try:
            with socket.create_connection(("127.0.0.1", place.port), PATIENCE) as gone:
                if reset:
                    linger = struct.pack("ii", 1, 0)
                    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                gone.sendall(head.encode() + body.data[:sent])
        except ConnectionError as error:
            raise Broken from error


@attrs.define
class Storm:
    """
    Uploads of all principals, several of each at once.

    Attributes:
        wanted: uploads in all.
        bytes_max: of a body.
        upload_seconds: the device's; what takes longer may be refused for it.
    """

    config: Path
    principals: list[Principal]
    wanted: int
    bytes_max: int
    upload_seconds: float
    #: What was tried → how often it came to what.
    seen: Counter[tuple[str, object]] = attrs.field(factory=Counter)
    begun: int = 0
    #: Set while there is a gateway.
    is_up: threading.Event = attrs.field(factory=threading.Event)
    failure: BaseException | None = None
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    @contextmanager
    def running(self, threads_each: int) -> Iterator[None]:
        """Runs meanwhile; at the end everything was tried, and nothing was wrong."""
        threads = [
            threading.Thread(target=self._run, args=(principal, n), daemon=True)
            for principal in self.principals
            for n in range(threads_each)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        except BaseException:
            self.failure = self.failure or AssertionError("stopped")
            raise
        for thread in threads:
            thread.join()
        if self.failure:
            raise self.failure

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait for it; fails with whatever failed meanwhile."""
        deadline = time.monotonic() + 4 * PATIENCE
        while not reached():
            if self.failure:
                raise self.failure
            assert time.monotonic() < deadline, self.seen
            time.sleep(_PAUSE)

    def _run(self, principal: Principal, n: int) -> None:
        chance = random.Random(1000 * principal.number + n)
        try:
            while self.failure is None:
                assert self.is_up.wait(PATIENCE)
                with self._lock:
                    if self.begun == self.wanted:
                        return
                    self.begun += 1
                    number = self.begun
                try:
                    self._one(principal, number, chance)
                except Broken:
                    self._saw("gateway", "gone")
                    time.sleep(_PAUSE)
        except BaseException as error:
            self.failure = error

    def _one(self, principal: Principal, number: int, chance: random.Random) -> None:
        kind = chance.choice((JPEG, JPEG, WAV, WAV, "junk"))
        body = Body.make(number, chance.randint(1, self.bytes_max), kind)
        media = Media(self.config, principal.token)
        what = chance.choices(("whole", "cut", "leave"), (8, 1, 1))[0]
        if what == "cut":
            sent = chance.randrange(len(body.data))
            media.break_off(body, sent, reset=chance.random() < 0.5)
            self._saw(what, "gone")
        elif what == "leave":
            self._sent(principal, body)
            media.break_off(body, len(body.data), reset=False)
            self._saw(what, "gone")
        elif self._awaited(principal, media, body) == 429:
            # Also what was left unanswered.
            self._delete(principal, media, chance, media.ready())
            time.sleep(_NO_ROOM_PAUSE)
        if chance.random() < 0.6:
            self._delete(principal, media, chance, dict(principal.ready))

    def _awaited(self, principal: Principal, media: Media, body: Body) -> int:
        principal.awaited.add(body.sha256)
        try:
            return self._upload(principal, media, body)
        finally:
            principal.awaited.discard(body.sha256)

    def _upload(self, principal: Principal, media: Media, body: Body) -> int:
        self._sent(principal, body)
        asked = time.monotonic()
        status, answer = media.upload(body)
        seconds = time.monotonic() - asked
        principal.unanswered.pop(body.sha256, None)
        if status == 201:
            assert body.is_valid
            told = answer["sha256"], int(answer["bytes"])
            assert told == (body.sha256, len(body.data))
            assert (answer["phase"], answer["status"]) == (6, 0)
            principal.ready[answer["id"]] = told
            self._saw("whole", 201)
            return status
        code = answer["error"]["code"]
        if (status, code) == (400, "media_refused"):
            assert not body.is_valid or seconds >= self.upload_seconds, answer
        else:
            # Object or byte cap; no span of that size in the pool.
            assert status == 429, answer
            assert code in ("device_refused", "media_pressure"), answer
        self._saw("whole", code)
        return status

    def _sent(self, principal: Principal, body: Body) -> None:
        if body.is_valid:
            principal.unanswered[body.sha256] = len(body.data)

    def _delete(
        self,
        principal: Principal,
        media: Media,
        chance: random.Random,
        known: dict[str, tuple[str, int]],
    ) -> None:
        """One of the sources of *known* that nobody awaits, or deletes already."""
        with self._lock:
            gone = principal.deleted | principal.unsure.keys()
            left = [
                handle
                for handle, (sha256, _) in known.items()
                if handle not in gone and sha256 not in principal.awaited
            ]
            if not left:
                return
            handle = chance.choice(left)
            principal.unsure[handle] = known[handle]
            principal.ready.pop(handle, None)
        status, answer = media.delete(handle)
        assert status == 204, answer
        del principal.unsure[handle]
        principal.deleted.add(handle)
        self._saw("delete", status)

    def _saw(self, what: str, came: object) -> None:
        with self._lock:
            self.seen[what, came] += 1


def delete_all(media: Media, keep: int = 0) -> None:
    """Every source but the *keep* smallest."""
    rows = sorted(media.listed().values(), key=lambda row: int(row["bytes"]))
    for row in rows[keep:]:
        status, answer = media.delete(row["id"])
        assert status == 204, answer


def wait_until(reached: Callable[[], bool], what: str) -> None:
    """Until *reached*."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(_PAUSE)
