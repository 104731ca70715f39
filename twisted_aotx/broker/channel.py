"""
The life of one channel: who may use its mailbox, and whose reply comes next.

Sans-IO. The rules:

1. A free channel has no peer and its mailbox is the broker's (state 0).
2. One peer at a time. While idle it may publish one packet; while its packet is
   published nothing more of it is read.
3. A peer that is lost while idle frees the channel at once.
4. A peer that is lost while its packet is published leaves the channel draining: the
   request runs, the mailbox stays taken until its reply, which is discarded, and no
   later peer can get it.

    event        free    idle       published  draining
    ATTACHED     idle
    PUBLISHED            published
    ANSWERED                        idle       free
    LOST                 free       draining

Every other pair is a mistake of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ChannelState(Enum):
    """
    Where a channel stands.
    """

    FREE = "free"
    IDLE = "idle"
    PUBLISHED = "published"
    DRAINING = "draining"


class ChannelEvent(Enum):
    """
    What can happen to a channel.
    """

    #: A peer was given the channel.
    ATTACHED = "attached"
    #: The peer's packet is in the mailbox.
    PUBLISHED = "published"
    #: The device's reply was taken from the mailbox.
    ANSWERED = "answered"
    #: The peer is gone.
    LOST = "lost"


#: The table above; tests read it.
TRANSITIONS: Final[Mapping[tuple[ChannelState, ChannelEvent], ChannelState]] = {
    (ChannelState.FREE, ChannelEvent.ATTACHED): ChannelState.IDLE,
    (ChannelState.IDLE, ChannelEvent.PUBLISHED): ChannelState.PUBLISHED,
    (ChannelState.PUBLISHED, ChannelEvent.ANSWERED): ChannelState.IDLE,
    (ChannelState.DRAINING, ChannelEvent.ANSWERED): ChannelState.FREE,
    (ChannelState.IDLE, ChannelEvent.LOST): ChannelState.FREE,
    (ChannelState.PUBLISHED, ChannelEvent.LOST): ChannelState.DRAINING,
}


class Channel:
    """
    One channel.

    Attributes:
        index: 1 .. channels − 1.
        state: changed by `happened` only.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.state = ChannelState.FREE

    def happened(self, event: ChannelEvent) -> ChannelState:
        """
        Make the one transition that *event* means here; return the new state.
        """
        after = TRANSITIONS.get((self.state, event))
        assert after is not None, f"channel {self.index}: {event} while {self.state}"
        self.state = after
        return after
