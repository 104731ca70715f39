"""
HTTP as a client under fire speaks it: a kept connection, and streams that may break.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import attrs

from tests.endtoend.streams import EventStream

#: Seconds without a byte after which an answer is one that never comes: an exchange
#: with the device may take 15, a process may be stopped for some, and the machine may
#: have much else to do.
SILENCE_SECONDS: Final = 120.0


class Gone(Exception):
    """
    The connection ended, or could not be made: no answer, or not the whole of it.
    """


class Silent(Exception):
    """
    Nothing came for SILENCE_SECONDS.
    """


@attrs.frozen
class Answer:
    """
    A whole answer, and when it was asked for and there.
    """

    status: int
    body: Any = attrs.field(repr=False)
    headers: Mapping[str, str] = attrs.field(repr=False)
    asked: float
    answered: float

    @property
    def code(self) -> str:
        """Of the error, or empty."""
        if self.status < 400:
            return ""
        code: str = self.body["error"]["code"]
        return code


@attrs.define
class Line:
    """
    A connection to the gateway at *url*, made when it is needed and kept.
    """

    url: str
    token: str = attrs.field(repr=False)
    _connection: http.client.HTTPConnection | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def call(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> Answer:
        """
        Ask, and read the answer to its end; a dict is sent as JSON.

        Raises:
            Gone, Silent: there was none.
        """
        answer, asked = self.open(method, path, body, kind)
        try:
            text = answer.read()
        except TimeoutError:
            raise Silent(f"{method} {path}") from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Gone from error
        found = {name.lower(): value for name, value in answer.getheaders()}
        if found.get("connection", "").lower() == "close":
            self.close()
        read = json.loads(text) if text else None
        return Answer(answer.status, read, found, asked, time.monotonic())

    def open(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[http.client.HTTPResponse, float]:
        """
        Ask; the answer up to its body, and when it was asked for.

        Raises:
            Gone, Silent: there was none.
        """
        if self._connection is None:
            place = urlsplit(self.url)
            assert place.hostname
            self._connection = http.client.HTTPConnection(
                place.hostname, place.port, timeout=SILENCE_SECONDS
            )
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        extra = {} if data is None else {"Content-Type": kind}
        asked = time.monotonic()
        try:
            self._connection.request(method, path, data, {**self.headers, **extra})
            return self._connection.getresponse(), asked
        except TimeoutError:
            self.close()
            raise Silent(f"{method} {path}") from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Gone from error

    def close(self) -> None:
        """Leave it; the next call makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def stream(
        self, path: str, last_id: str | None = None, window: int | None = None
    ) -> EventStream:
        """
        GET an event stream, on a connection of its own.

        Args:
            window: Bytes of the receive buffer, for a slow reader.

        Raises:
            Gone, Silent: there was no answer.
        """
        extra = {} if last_id is None else {"Last-Event-ID": last_id}
        try:
            return EventStream.open(
                self.url + path, {**self.headers, **extra}, window, SILENCE_SECONDS
            )
        except TimeoutError:
            raise Silent(f"GET {path}") from None
        except OSError as error:
            raise Gone from error


def reset(sock: socket.socket) -> None:
    """Close with a reset, as a client does that is killed with bytes unread."""
    linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    sock.close()
