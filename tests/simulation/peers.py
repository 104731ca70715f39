"""
Sessions of packet clients: frames well formed and not, sent ahead, and left alone.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections import deque
from typing import Final

import attrs

from tests.simulation.frames import frame_fields, reply_fields
from tests.simulation.http_client import Gone, ready
from tests.simulation.native import question
from tests.simulation.people import Person
from tests.simulation.runtime import SOCKET_PATH
from tests.simulation.scene import Known, Scene
from twisted_aotx.seqpacket import PACKET_BYTES_MAX, PacketSocket
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import RequestHeader, join
from twisted_aotx.wire.requests import Message, Submission, TextPart, encode

#: Packets of one peer at most, and sent before the first was answered.
_PACKETS_MAX: Final = 8
_AHEAD_MAX: Final = 3
#: Connections of one client at most.
_RETURNS_MAX: Final = 6


class Peer:
    """
    One connection to the runtime.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._socket: PacketSocket = scene.process.system.makeSocket()
        self._file = self._socket
        #: What was sent and not answered: number of its event, and the packet.
        self.open: deque[tuple[int, bytes]] = deque()

    def connect(self) -> bool:
        """Whether somebody listens."""
        return self._socket.connect_ex(SOCKET_PATH.encode()) == 0

    def close(self) -> None:
        """Leave, whatever is under way."""
        self._socket.close()

    async def send(self, packet: bytes) -> None:
        """
        Raises:
            Gone: the runtime has closed.
        """
        while True:
            try:
                self._socket.send(packet, socket.MSG_NOSIGNAL)
            except OSError as problem:
                if problem.errno != errno.EAGAIN:
                    raise Gone from None
                await ready(self.scene.process, self._file, write=True)
            else:
                number = self.scene.world.record("sent", **frame_fields(packet))
                self.open.append((number, packet))
                return

    async def receive(self) -> bytes:
        """
        The next reply, noted.

        Raises:
            Gone: the runtime has closed.
        """
        buffer = bytearray(PACKET_BYTES_MAX)
        while True:
            await ready(self.scene.process, self._file)
            try:
                size = self._socket.recv_into(
                    memoryview(buffer), len(buffer), socket.MSG_TRUNC
                )
            except BlockingIOError:
                continue
            except OSError:
                raise Gone from None
            if not size:
                raise Gone
            packet = bytes(buffer[:size])
            number, _ = self.open.popleft() if self.open else (-1, b"")
            self.scene.world.record("received", sent=number, **reply_fields(packet))
            return packet


async def peer(scene: Scene) -> None:
    """
    A client of packets. Who left with packets under way is often back at once, perhaps
    as another: an answer that is still to come is not for this connection.
    """
    random = scene.world.random
    talk = _Talk(scene, scene.person())
    for _ in range(_RETURNS_MAX):
        if not await _connection(scene, talk):
            return
        await scene.process.sleep(random.choice((0.0, 0.0, 0.001)))
        if random.random() < 0.5:
            talk = _Talk(scene, scene.person(), talk.epoch)


async def _connection(scene: Scene, talk: _Talk) -> bool:
    """One connection to its end; whether its client comes back."""
    random = scene.world.random
    link = Peer(scene)
    if not link.connect():
        scene.world.history.count("outcome", "peer found nobody")
        link.close()
        return False
    returns = False
    try:
        for _ in range(random.randint(1, _PACKETS_MAX)):
            for _ in range(random.randint(1, _AHEAD_MAX)):
                await link.send(talk.packet())
            if random.random() < 0.2:
                scene.world.history.count("fault", "peer left")
                returns = random.random() < 0.7
                break
            while link.open:
                reply = await link.receive()
                talk.heard(reply)
            await scene.process.sleep(random.random() * random.choice((0.01, 1.0)))
    except Gone:
        scene.world.history.count("outcome", "peer was closed")
    link.close()
    return returns


@attrs.define
class _Talk:
    """
    What one peer says next.
    """

    scene: Scene
    person: Person
    epoch: int = 1
    mine: list[bytes] = attrs.field(factory=list)

    def packet(self) -> bytes:
        """Any packet of a client."""
        random = self.scene.world.random
        kind = random.choice(("info", "submit", "submit", "read", "read", "cancel"))
        if random.random() < 0.25:
            kind = random.choice(("list", "metrics", "policy", "odd", "foreign"))
        if kind == "submit":
            return self._submit()
        if kind == "odd":
            return self._odd()
        operation = {
            "info": Operation.INFO,
            "metrics": Operation.METRICS,
            "list": Operation.MEDIA_LIST,
            "policy": Operation.POLICY,
            "cancel": Operation.CANCEL,
        }.get(kind, Operation.READ)
        if operation not in (Operation.READ, Operation.CANCEL):
            return join(self._header(operation))
        id = random.choice(self.mine) if self.mine else random.randbytes(16)
        others = [each for each in self.scene.known if each.owner is not self.person]
        if kind == "foreign" and others:
            id = random.choice(others).id
        cursor = random.choice((0, 0, 0, 10, 100_000))
        return join(
            attrs.evolve(
                self._header(operation), epoch=self.epoch, id=id, cursor=cursor
            )
        )

    def heard(self, packet: bytes) -> None:
        """The epoch stands in every reply."""
        self.epoch = reply_fields(packet)["at_epoch"]

    def _header(self, operation: Operation) -> RequestHeader:
        return RequestHeader(
            operation, self.person.id, self.scene.revision if operation else 0
        )

    def _submit(self) -> bytes:
        random = self.scene.world.random
        _, body = question(self.scene, self.person, "packet")
        id = random.randbytes(16)
        if self.mine and random.random() < 0.1:
            id = random.choice(self.mine)
        self.mine.append(id)
        text = body["messages"][0]["content"].encode()
        submission = Submission(
            role=2 if body["model"] == "odd" else 3,
            limit=body["max_tokens"],
            temperature=0.5,
            top_p=1.0,
            messages=(Message(1, (TextPart(text),)),),
        )
        header = submission.header(
            principal=self.person.id,
            revision=self.scene.revision,
            epoch=self.epoch,
            id=id,
        )
        known = Known(self.person, self.epoch, id)
        self.scene.known.append(known)
        return join(header, encode(submission))

    def _odd(self) -> bytes:
        random = self.scene.world.random
        packet = bytearray(join(self._header(Operation.INFO)))
        kind = random.choice(("short", "grants", "flipped", "long"))
        if kind == "short":
            return bytes(packet[: random.randint(1, 127)])
        if kind == "grants":
            struct.pack_into("<I", packet, 8, 1)
        elif kind == "long":
            packet += random.randbytes(random.randint(1, 60000))
        else:
            packet[random.randrange(len(packet))] ^= 1 << random.randrange(8)
        return bytes(packet)
