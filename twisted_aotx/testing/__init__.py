"""
Public test doubles. No shipped code imports this package.

- `MemorySystem` and `PumpedReactor`: seqpacket sockets in memory and the reactor that
  serves them; `MemoryWorld` and `KernelWorld` drive transports synchronously, in memory
  or on real sockets, with the same verbs.
- `ScriptedPeer`: a server of `service.sock` that answers by a function, in memory or at
  a real path.
- `MemoryMailboxes`: mailboxes without a device. `contract.MailboxContract` holds the
  tests that they and every other implementation have to pass.

Nothing here is a mock: each double behaves, and is held to the same tests as the real
thing.
"""

from twisted_aotx.testing.faults import Faults
from twisted_aotx.testing.mailboxes import MemoryMailboxes
from twisted_aotx.testing.memory import MemorySocket, MemorySystem
from twisted_aotx.testing.peer import ScriptedPeer, reply_to
from twisted_aotx.testing.pumped import PumpedReactor
from twisted_aotx.testing.worlds import KernelWorld, MemoryWorld, World, read_packet

__all__ = [
    "Faults",
    "KernelWorld",
    "MemoryMailboxes",
    "MemorySocket",
    "MemorySystem",
    "MemoryWorld",
    "PumpedReactor",
    "ScriptedPeer",
    "World",
    "read_packet",
    "reply_to",
]
