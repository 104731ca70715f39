"""
`python -m benchmarks.echo PATH`: a server on our transport that sends packets back.
"""

from __future__ import annotations

import sys

from twisted.internet import reactor
from twisted.internet.protocol import Factory

from twisted_aotx.seqpacket import PacketProtocol, SeqPacketServerEndpoint


class Echo(PacketProtocol):
    """
    The least that a server can do with a packet.
    """

    def packetReceived(self, packet: bytes) -> None:
        """Send it back."""
        self.sendPacket(packet)


def main() -> None:
    """Listen at PATH until killed; says `listening` when it does."""
    endpoint = SeqPacketServerEndpoint(reactor, sys.argv[1])
    listening = endpoint.listen(Factory.forProtocol(Echo))

    def listens(_: object) -> None:
        sys.stdout.write("listening\n")
        sys.stdout.flush()

    listening.addCallback(listens)
    reactor.run()


if __name__ == "__main__":
    main()
