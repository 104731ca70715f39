"""
Clients that upload, use, list and delete media sources, and know what must be there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import attrs

from tests.endtoend.storm import JPEG, MEDIA, WAV, Body
from tests.torture.clients import Client
from tests.torture.expected import ANSWERING, Task
from tests.torture.shelves import Shelf, Stored
from tests.torture.talk import Gone
from twisted_aotx.wire.numbers import MediaFormat

#: Caps of an uploader, beyond what it keeps.
OBJECTS: Final = 6
OBJECT_BYTES_MAX: Final = 60_000
#: Codes of 429 that a full shelf gets, or a device without room.
NO_ROOM: Final = ("device_refused", "media_pressure")
#: Unanswered removals that are repeated when there is no room.
AGAIN_MAX: Final = 3
#: `device.upload_seconds` of the runtime.
UPLOAD_SECONDS: Final = 20


@attrs.define
class Uploader(Client):
    """
    One hand of one principal, so that what it knows is in order.
    """

    shelf: Shelf = attrs.field(factory=Shelf)
    #: Tells whether an image may be refused because its decoder was killed.
    may_lose_image: Callable[[float, float], bool] = attrs.field(
        default=lambda asked, answered: False
    )
    _bodies: int = 0

    def one(self) -> None:
        """Upload, delete, or use what is there."""
        usable = [each for each in self.shelf.ready.values() if each.rows]
        what = self.chance.choice(("upload", "upload", "delete", "use"))
        if len(self.shelf.ready) >= OBJECTS or (what == "delete" and self.shelf.ready):
            self.delete(self.chance.choice(list(self.shelf.ready.values())))
        elif what == "use" and usable:
            self.use(self.chance.choice(usable))
        else:
            self.upload()

    def upload(self) -> None:
        """POST a body, some of them junk."""
        self._bodies += 1
        serial = self._bodies * 1000 + self.number
        kind = self.chance.choice((JPEG, WAV, WAV))
        size = self.chance.randint(100, OBJECT_BYTES_MAX)
        body = Body.make(serial, size, kind)
        if body.is_valid:
            with self.shelf.changing() as shelf:
                shelf.unanswered[body.sha256] = len(body.data)
        asked = time.monotonic()
        try:
            answer = self.line().call("POST", MEDIA, body.data, body.kind)
        except Gone:
            self.lost("an upload")
            return
        if answer.status == 503:
            # It may have been taken, and its cancel may not have come through.
            self.unless_again(answer, "an upload")
            return
        if answer.status == 201:
            told = answer.body
            wanted = (body.sha256, str(len(body.data)), 6, 0)
            got = (told["sha256"], told["bytes"], told["phase"], told["status"])
            if got != wanted or not body.is_valid:
                self.book.fault(f"an upload was answered {got}, not {wanted}")
            stored = Stored(
                told["id"], body.sha256, len(body.data), body.kind, told["rows"]
            )
            with self.shelf.changing() as shelf:
                shelf.ready[stored.handle] = stored
                shelf.unanswered.pop(body.sha256, None)
            self.book.saw("uploads acknowledged")
        elif answer.status == 400 and answer.code == "media_refused":
            # Held or stopped for long, its time was over.
            is_late = answer.answered - asked >= UPLOAD_SECONDS
            may_be_lost = body.kind == JPEG and self.may_lose_image(
                asked, answer.answered
            )
            if body.is_valid and not (is_late or may_be_lost):
                self.book.fault(f"a valid {body.kind} was refused")
            self.book.saw("images lost" if body.is_valid else "junk refused")
        elif answer.status == 404 and not self.is_calm(asked, answer.answered):
            # The runtime was replaced after BEGIN, which its next one knows nothing of.
            self.book.saw("uploads to a runtime that went")
        elif answer.status == 429 and answer.code in NO_ROOM:
            self.book.saw(f"told to wait, 429 {answer.code}")
            self.pause(0.1, 0.5)
        else:
            self.unless_again(answer, "an upload")
        with self.shelf.changing() as shelf:
            shelf.unanswered.pop(body.sha256, None)
        if answer.status == 429:
            self.adopt()
            self.delete_again()

    def delete(self, stored: Stored) -> None:
        """DELETE one, and know it, or be unsure."""
        with self.shelf.changing() as shelf:
            shelf.unsure[stored.handle] = shelf.ready.pop(stored.handle)
        try:
            answer = self.line().call("DELETE", f"{MEDIA}/{stored.handle}")
        except Gone:
            self.lost("a removal")
            return
        if answer.status == 503:
            self.unless_again(answer, "a removal")
            return
        with self.shelf.changing() as shelf:
            del shelf.unsure[stored.handle]
            if answer.status == 204:
                shelf.deleted.add(stored.handle)
            else:
                # Held, or leased by a request that goes on: it stays.
                shelf.ready[stored.handle] = stored
        if answer.status == 204:
            self.book.saw("removals acknowledged")
            return
        if answer.status == 409:
            self.book.saw("removals of what is in use refused")
        else:
            self.unless_again(answer, "a removal")

    def delete_again(self) -> None:
        """What an unanswered DELETE left takes room, too; once more does no harm."""
        for handle in list(self.shelf.unsure)[:AGAIN_MAX]:
            try:
                answer = self.line().call("DELETE", f"{MEDIA}/{handle}")
            except Gone:
                self.lost("a removal")
                return
            if answer.status not in (204, 404):
                continue
            with self.shelf.changing() as shelf:
                del shelf.unsure[handle]
                shelf.deleted.add(handle)
            self.book.saw("removals repeated")

    def use(self, stored: Stored) -> None:
        """A request about it; half of the time it is removed meanwhile, or not."""
        text = f"Uploader {self.number} asks what this is."
        history = self.submit(Task(ANSWERING, text, 120, (stored.as_source,)))
        if history is None:
            return
        self.book.saw("requests about media")
        if self.chance.random() < 0.5:
            self.delete(stored)
        self.follow(history)

    def adopt(self) -> None:
        """
        Look for sources whose upload was not answered: they take room, and are ours.
        """
        cursor: str | None = "0"
        while cursor is not None:
            try:
                answer = self.line().call("GET", f"{MEDIA}?cursor={cursor}")
            except Gone:
                self.lost("a list")
                return
            if answer.status != 200:
                self.unless_again(answer, "a list")
                return
            for row in answer.body["data"]:
                self._adopt(row)
            cursor = answer.body["next_cursor"]

    def _adopt(self, row: dict[str, Any]) -> None:
        sha256, size = row["sha256"], int(row["bytes"])
        with self.shelf.changing() as shelf:
            is_known = row["id"] in shelf.ready or row["id"] in shelf.unsure
            if row["phase"] != 6 or is_known or shelf.unanswered.get(sha256) != size:
                return
            kind = JPEG if row["format"] == MediaFormat.JPEG else WAV
            stored = Stored(row["id"], sha256, size, kind, row["rows"])
            shelf.ready[stored.handle] = stored
            del shelf.unanswered[sha256]
        self.book.saw("uploads without an answer found ready")

    def lost(self, what: str) -> None:
        now = time.monotonic()
        if self.is_calm(now, now):
            self.book.fault(f"client {self.number}: {what} was lost in calm weather")
        self.book.saw("answers broken off")
        self.pause(0.05, 0.2)
