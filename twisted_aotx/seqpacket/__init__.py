"""
Unix `SOCK_SEQPACKET` for Twisted: packets whole in, packets whole out (Linux).

Usable alone: imports Twisted and nothing of ours. Endpoint strings are
`seqpacket:/path` for servers and clients.

    class Echo(PacketProtocol):
        def packetReceived(self, packet: bytes) -> None:
            self.sendPacket(packet)

    endpoint = SeqPacketServerEndpoint(reactor, "/run/echo.sock")
    endpoint.listen(Factory.forProtocol(Echo))

One `sendPacket` is one packet and one `packetReceived` is one packet: nothing is ever
joined, split or silently cut. A packet holds 1 to `PACKET_BYTES_MAX` bytes; an empty
one cannot be told from the end of the connection and is refused.
"""

from twisted_aotx.seqpacket.connection import SeqPacketConnection
from twisted_aotx.seqpacket.deadlines import Deadlines
from twisted_aotx.seqpacket.endpoints import (
    PeerNotAllowed,
    SeqPacketClientEndpoint,
    SeqPacketClientParser,
    SeqPacketServerEndpoint,
    SeqPacketServerParser,
)
from twisted_aotx.seqpacket.port import SeqPacketPort
from twisted_aotx.seqpacket.protocol import (
    PACKET_BYTES_MAX,
    PacketProtocol,
    PacketTooLong,
)
from twisted_aotx.seqpacket.sending import QUEUE_BYTES_MAX, SendQueueFull
from twisted_aotx.seqpacket.system import (
    PATH_BYTES_MAX,
    Credentials,
    PacketClock,
    PacketReactor,
    PacketSocket,
    SeqPacketAddress,
    System,
    SystemCalls,
)

__all__ = [
    "PACKET_BYTES_MAX",
    "PATH_BYTES_MAX",
    "QUEUE_BYTES_MAX",
    "Credentials",
    "Deadlines",
    "PacketClock",
    "PacketProtocol",
    "PacketReactor",
    "PacketSocket",
    "PacketTooLong",
    "PeerNotAllowed",
    "SendQueueFull",
    "SeqPacketAddress",
    "SeqPacketClientEndpoint",
    "SeqPacketClientParser",
    "SeqPacketConnection",
    "SeqPacketPort",
    "SeqPacketServerEndpoint",
    "SeqPacketServerParser",
    "System",
    "SystemCalls",
]
