"""
Clients without manners: half a header, half a body, deaf ears, half-closed sockets.

None of them may cost anybody else anything, and the gateway ends each of them within
its own deadlines (`http.md` §1); what it says before, if anything, is fixed.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import attrs

from tests.torture.clients import Client
from tests.torture.following import REQUESTS
from tests.torture.histories import Reading
from tests.torture.talk import SILENCE_SECONDS, Gone, Silent, reset

#: GETs that a deaf client sends: their answers are more than sockets hold.
DEAF_GETS: Final = 1200
#: Seconds beyond a deadline until which a connection must be closed: stops included.
LATE_SECONDS: Final = 30.0
#: Of the gateway's limits, the longest of those that end a rude client.
DEADLINE_SECONDS: Final = 4.0


@attrs.define
class Rude(Client):
    """
    One rudeness after the other, and now and then an honest request.
    """

    packet_socket: str = ""
    #: Of the gateway at a URL; 0 while there is none.
    pid_of: Callable[[str], int] = attrs.field(default=lambda url: 0)

    def one(self) -> None:
        """Any of them."""
        acts = (
            self.half_a_header,
            self.half_a_body,
            self.deaf,
            self.half_closed,
            self.half_a_packet,
        )
        try:
            self.chance.choice(acts)()
        except OSError:
            # Nobody was there, or no more.
            self.book.saw("answers broken off")
        self.pause(0.2, 1.0)

    def _connected(self) -> socket.socket:
        place = urlsplit(self.line().url)
        address = (place.hostname, place.port)
        return socket.create_connection(address, SILENCE_SECONDS)

    def _head(self, *more: str) -> bytes:
        lines = ["Host: gateway", f"Authorization: Bearer {self.token}", *more]
        return "\r\n".join(lines).encode()

    def half_a_header(self) -> None:
        """Closed without a byte."""
        with self._connected() as sock:
            head = b"GET /v1/models HTTP/1.1\r\n" + self._head()
            sock.sendall(head[: self.chance.randrange(1, len(head))])
            said = self._until_closed(sock)
        if said:
            self.book.fault(f"half a header was answered: {said[:60]!r}")
        self.book.saw("half headers closed")

    def half_a_body(self) -> None:
        """408, 429, or the 503 of a gateway that is ending; and closed."""
        with self._connected() as sock:
            head = b"POST %s HTTP/1.1\r\n" % REQUESTS.encode()
            length = self.chance.randint(100, 5000)
            more = ("Content-Type: application/json", f"Content-Length: {length}")
            sock.sendall(head + self._head(*more) + b"\r\n\r\n{")
            said = self._until_closed(sock)
        told = said[9:12]
        is_ending = told == b"503" and b'"service_closed"' in said
        if said and told not in (b"408", b"429") and not is_ending:
            self.book.fault(f"half a body was answered: {said[:60]!r}")
        self.book.saw("half bodies closed")

    def _until_closed(self, sock: socket.socket) -> bytes:
        """What comes before the end; a fault if none comes."""
        sock.settimeout(DEADLINE_SECONDS + LATE_SECONDS)
        said = b""
        try:
            while data := sock.recv(4096):
                said += data
        except TimeoutError:
            self.book.fault(f"client {self.number}: half of it is still waited for")
        except ConnectionResetError:
            pass
        return said

    def deaf(self) -> None:
        """
        Asks much, reads nothing: is cut off. Not if its gateway dies: the system goes
        on for a process that is gone, for as long as it likes.
        """
        url = self.line().url
        pid = self.pid_of(url)
        place = urlsplit(url)
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            sock.settimeout(SILENCE_SECONDS)
            sock.connect((place.hostname, place.port))
            sock.setblocking(False)
            ask = b"GET /openapi.json HTTP/1.1\r\n" + self._head() + b"\r\n\r\n"
            rest = memoryview(ask * DEAF_GETS)
            poll = select.poll()
            poll.register(sock, select.POLLOUT)
            deadline = time.monotonic() + DEADLINE_SECONDS + LATE_SECONDS
            while time.monotonic() < deadline:
                events = poll.poll(200)
                if events and events[0][1] & (select.POLLERR | select.POLLHUP):
                    self.book.saw("deaf clients cut off")
                    return
                if events and rest:
                    try:
                        rest = rest[sock.send(rest) :]
                    except BlockingIOError:
                        continue
                if not rest:
                    poll.modify(sock, 0)
        if self.pid_of(url) == pid:
            self.book.fault(f"client {self.number}: deaf, and still served")

    def half_closed(self) -> None:
        """Asks, ends its side, and reads: the whole answer, or a clean end."""
        history = self.submit(self.task())
        if history is None:
            return
        reading = Reading("stream", time.monotonic())
        try:
            stream = self.line().stream(f"{REQUESTS}/{history.handle}/events")
        except (Gone, Silent):
            self.follow(history)
            return
        stream.sock.shutdown(socket.SHUT_WR)
        try:
            self.events(reading, stream, may_break=True)
        finally:
            reset(stream.sock)
        if reading.status == 200:
            history.readings.append(reading)
            self.book.saw("half-closed streams read")
        self.follow(history)

    def half_a_packet(self) -> None:
        """To the runtime's own socket: closed without a reply."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.settimeout(SILENCE_SECONDS)
            sock.connect(self.packet_socket)
            sock.send(self.chance.randbytes(self.chance.randint(1, 127)))
            try:
                said = sock.recv(4096)
            except ConnectionResetError:
                said = b""
        if said:
            self.book.fault(f"half a packet was answered with {len(said)} bytes")
        self.book.saw("half packets closed")
