"""
Packets sent ahead of their replies on one connection, which answers them in order
(`wire.md` §1).

Sans-IO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from twisted_aotx.limits import HEADER_BYTES
from twisted_aotx.wire.packet import RequestHeader, join


def packets_of(header: RequestHeader, payloads: Iterable[bytes]) -> Iterator[bytes]:
    """
    A packet for each of *payloads*, with *header* and its length.
    """
    head, size = b"", -1
    for payload in payloads:
        if len(payload) != size:
            size = len(payload)
            head = join(header, payload)[:HEADER_BYTES]
        yield head + payload


class Changes:
    """
    Hands on each packet that differs from the one before it.
    """

    def __init__(self, take: Callable[[bytes], object]) -> None:
        self._take = take
        self._before = b""

    def __call__(self, packet: bytes) -> None:
        """
        One more packet. What was not taken, because *take* raised, is forgotten.
        """
        if packet != self._before:
            self._take(packet)
            self._before = packet


class Streaming:
    """
    One run of packets.

    Args:
        done: fires when every packet was answered; fails with what *packets* or
            *accept* raise, and nothing is sent after that.
        send: takes one packet.
        accept: takes one reply.
        ahead: packets without a reply at most, 1 or more.
    """

    def __init__(
        self,
        done: Deferred[None],
        send: Callable[[bytes], None],
        packets: Iterator[bytes],
        accept: Callable[[bytes], object],
        ahead: int,
    ) -> None:
        self._done = done
        self._send = send
        self._packets = packets
        self._accept = accept
        self._ahead = ahead
        self._unanswered = 0

    def fill(self) -> None:
        """
        Send as much as may be sent.
        """
        try:
            while self._unanswered < self._ahead:
                packet = next(self._packets, None)
                if packet is None:
                    break
                self._unanswered += 1
                self._send(packet)
        except Exception:
            self._done.errback(Failure())
            return
        if not self._unanswered:
            self._done.callback(None)

    def received(self, packet: bytes) -> None:
        """
        The reply to the oldest packet without one.
        """
        self._unanswered -= 1
        try:
            self._accept(packet)
        except Exception:
            self._done.errback(Failure())
            return
        self.fill()

    def failed(self, reason: Exception) -> None:
        """
        No more replies come.
        """
        self._done.errback(reason)
