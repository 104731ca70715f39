"""
Broker, device and the peers of one channel over its mailbox (`wire.md` §12).

Peers connect, send and vanish whenever they like. The broker is one reactor: it reads a
packet, publishes it, answers its doorbell, drops who is gone, one thing at a time. The
device is one loop: take the doorbell's counter, look, copy, answer in place, ring. It
has no heartbeat here, so a wake-up that is lost stays lost.

A packet is a number, ten times its peer's and its place; its reply is the negative of
it. A packet's length word holds the same number: a torn copy shows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from tests.protocol.explorer import STUCK, Step
from tests.protocol.memory import Memory
from twisted_aotx.broker.channel import TRANSITIONS, ChannelEvent, ChannelState
from twisted_aotx.device.numbers import ANSWERED, OURS, PUBLISHED

BROKER, DEVICE = 0, 1

#: Writes of `device.mailbox.publish` and `publish_replies` in their order, and which
#: of them are releases. test_code.py compares them with the code.
PUBLISH: Final = (
    ("data", False),
    ("length", False),
    ("state", True),
    ("publish_ring", False),
    ("publish_tail", True),
)
ANSWER: Final = (
    ("data", False),
    ("length", False),
    ("state", True),
    ("reply_ring", False),
    ("reply_tail", True),
)
#: What the device and the broker read, in their order.
CLAIM: Final = ("publish_tail", "publish_ring", "state", "length", "data")
COLLECT: Final = ("reply_tail", "reply_ring", "state", "length", "data")
WORDS: Final = tuple(dict.fromkeys(word for word, _ in PUBLISH + ANSWER))

EARLY_PUBLISH: Final = "an entry of the publish ring is not there yet"
EARLY_REPLY: Final = "an entry of the reply ring is not there yet"

Table = Mapping[tuple[ChannelState, ChannelEvent], ChannelState]


class State(NamedTuple):
    """
    Everybody's place.
    """

    memory: Memory = Memory.of(WORDS)
    #: Whether the doorbells were rung.
    device_bell: bool = False
    broker_bell: bool = False
    # --- peers
    #: Who has the channel, 0 nobody; how many there were; what all of them have sent.
    peer: int = 0
    peers: int = 0
    total: int = 0
    #: What the peer has sent.
    sent: int = 0
    #: Packets of the peer that nobody has read.
    inbox: tuple[int, ...] = ()
    #: Replies that the peer got.
    got: int = 0
    # --- broker
    channel: ChannelState = ChannelState.FREE
    #: What it does next; empty: it waits in the reactor.
    broker: str = ""
    #: The packet or reply in its hands; what comes after a publish.
    packet: int = 0
    then: str = ""
    published: int = 0
    collected: int = 0
    # --- device
    device: str = ""
    copy: int = 0
    claimed: int = 0
    answered: int = 0
    # --- what nobody knows: the packet that has no reply yet, the promise that broke
    owed: int = 0
    broken: str = ""


class Mailbox:
    """
    The model. *mutations* name what is wrong with it, `MUTATIONS` all that can be.
    """

    def __init__(
        self,
        mutations: Collection[str] = (),
        *,
        table: Table = TRANSITIONS,
        peers_max: int = 2,
        packets_max: int = 3,
    ) -> None:
        self._is = frozenset(mutations)
        assert self._is <= MUTATIONS.keys(), "no such mutation"
        self._table = dict(table)
        if "freed_at_once" in self._is:
            lost = ChannelState.PUBLISHED, ChannelEvent.LOST
            self._table[lost] = ChannelState.FREE
        self._peers_max = peers_max
        self._packets_max = packets_max
        self._publish = self._script(PUBLISH, "broker")
        self._answer = self._script(ANSWER, "device")
        #: What the broker does after it has copied a reply.
        order = ["release", "hand_out", "look"]
        if "released_late" in self._is:
            order = ["hand_out", "release", "look"]
        self._after = dict(zip(["reply", *order], order, strict=False))

    def _script(
        self, script: tuple[tuple[str, bool], ...], who: str
    ) -> tuple[tuple[str, bool], ...]:
        if f"{who}_without_release" in self._is:
            return tuple((word, False) for word, _ in script)
        if f"{who}_ring_before_state" in self._is:
            return (*script[:2], *script[3:], script[2])
        return script

    def start(self) -> State:
        """Nobody is there."""
        return State()

    def fault(self, state: State) -> str:
        """What broke on the way, or two that own the mailbox."""
        if state.broken:
            return state.broken
        device_owns = state.device in {"length", "copy", "answer"}
        broker_owns = state.broker in {"publish", "reply_length", "reply", "release"}
        return "the mailbox has two owners" if device_owns and broker_owns else ""

    def is_settled(self, state: State) -> bool:
        """Everything that was sent is answered, and everybody waits."""
        return (
            state.memory.is_quiet
            and not (state.device or state.broker or state.inbox or state.owed)
            and not (state.device_bell or state.broker_bell)
            and state.channel in {ChannelState.FREE, ChannelState.IDLE}
            and state.got == state.sent
        )

    def steps(self, state: State) -> Iterator[Step[State]]:
        """Everybody's next step, and what may surface."""
        if state.peer and state.total < self._packets_max and len(state.inbox) < 2:
            yield Step("peer: sends", self._sent(state), own=False)
        if state.broker:
            yield Step(f"broker: {state.broker}", getattr(self, state.broker)(state))
        else:
            yield from self._reactor_steps(state)
        if state.broker == "hand_out":
            yield Step("broker: its reply waits", self._hand_out(state, False))
        if state.device:
            name = f"device_{state.device}"
            yield Step(f"device: {state.device}", getattr(self, name)(state))
        else:
            first = "early" if "device_copies_first" in self._is else "look"
            awake = state._replace(device=first)
            if state.device_bell:
                yield Step("device: wakes", self._taken(awake, "device"))
            yield Step("device: wakes for another", awake, own=False)
        for word, memory in state.memory.surfacing():
            yield Step(f"memory: {word}", state._replace(memory=memory))

    def _taken(self, state: State, who: str) -> State:
        """Take the counter of *who*'s doorbell, unless it is taken after the look."""
        if f"{who}_looks_first" in self._is:
            return state
        if who == "device":
            return state._replace(device_bell=False)
        return state._replace(broker_bell=False)

    def _sent(self, state: State) -> State:
        packet = 10 * state.peer + state.sent + 1
        return state._replace(
            inbox=(*state.inbox, packet), sent=state.sent + 1, total=state.total + 1
        )

    # --- the broker -------------------------------------------------------------------

    def _happened(self, state: State, event: ChannelEvent) -> State:
        after = self._table.get((state.channel, event))
        if after is None:
            return state._replace(broken=f"{event} while {state.channel}")
        return state._replace(channel=after)

    def _reactor_steps(self, state: State) -> Iterator[Step[State]]:
        idle = ChannelState.IDLE
        if state.channel is ChannelState.FREE and state.peers < self._peers_max:
            new = self._happened(state, ChannelEvent.ATTACHED)._replace(
                peer=state.peers + 1, peers=state.peers + 1, sent=0, got=0
            )
            yield Step("peer: connects", new, own=False)
        if state.peer:
            gone = self._happened(state, ChannelEvent.LOST)
            gone = gone._replace(peer=0, inbox=(), sent=0, got=0)
            yield Step("peer: vanishes", gone, own=False)
        reads_ahead = "reads_ahead" in self._is and bool(state.peer)
        if state.inbox and (state.channel is idle or reads_ahead):
            yield Step("broker: reads a packet", self._read(state, then=""))
        awake = state._replace(broker="look")
        if state.broker_bell:
            yield Step("broker: wakes", self._taken(awake, "broker"))
        yield Step("broker: wakes for another", awake, own=False)

    def _read(self, state: State, then: str) -> State:
        return state._replace(
            broker="publish", packet=state.inbox[0], inbox=state.inbox[1:], then=then
        )

    def publish(self, state: State) -> State:
        """`device.mailbox.publish`; only what surfaces is seen by the device."""
        if state.memory.read(BROKER, "state") != OURS:
            return state._replace(broken="a packet is published over another")
        values = {
            "data": state.packet,
            "length": state.packet,
            "state": PUBLISHED,
            "publish_ring": state.published + 1,
            "publish_tail": state.published + 1,
        }
        memory = state.memory
        for word, release in self._publish:
            memory = memory.write(BROKER, word, values[word], release)
        after = state._replace(
            memory=memory,
            published=state.published + 1,
            owed=state.packet,
            packet=0,
            broker="ring",
        )
        if "broker_rings_first" in self._is:
            # Nothing makes the writes behind it surface at once.
            return self._published(after._replace(device_bell=True))
        return after

    def ring(self, state: State) -> State:
        """`Device.ring` is a system call."""
        memory = state.memory.surfaced(BROKER)
        return self._published(state._replace(memory=memory, device_bell=True))

    def _published(self, state: State) -> State:
        after = self._happened(state, ChannelEvent.PUBLISHED)
        return after._replace(broker=state.then, then="")

    def look(self, state: State) -> State:
        """`device.mailbox.next_reply`."""
        if state.memory.read(BROKER, "reply_tail") == state.collected:
            late = "broker_looks_first" in self._is
            return state._replace(broker="take_late" if late else "")
        if state.memory.read(BROKER, "reply_ring") != state.collected + 1:
            return state._replace(broken=EARLY_REPLY)
        return state._replace(broker="reply_length", collected=state.collected + 1)

    def take_late(self, state: State) -> State:
        """Looked first, takes the counter now."""
        return state._replace(broker="", broker_bell=False)

    def reply_length(self, state: State) -> State:
        """The first half of `device.mailbox.copy_reply`."""
        if state.memory.read(BROKER, "state") != ANSWERED:
            return state._replace(broken="the reply that was told is not there")
        length = state.memory.read(BROKER, "length")
        return state._replace(broker="reply", packet=length)

    def reply(self, state: State) -> State:
        """The second half."""
        data = state.memory.read(BROKER, "data")
        if data != state.packet or data != -state.owed:
            return state._replace(broken="a reply is torn, or another's")
        return state._replace(broker=self._after["reply"])

    def release(self, state: State) -> State:
        """`BrokerFactory.answered`: the mailbox is given back once it was copied."""
        memory = state.memory.write(BROKER, "state", OURS, True)
        return state._replace(memory=memory, broker=self._after["release"])

    def hand_out(self, state: State) -> State:
        """To the peer, or nowhere; its next packet is read from within."""
        return self._hand_out(state, True)

    def _hand_out(self, state: State, is_sent: bool) -> State:
        then, reply = self._after["hand_out"], state.packet
        after = self._happened(state, ChannelEvent.ANSWERED)
        after = after._replace(packet=0, owed=0, broker=then)
        if after.broken or after.channel is not ChannelState.IDLE:
            return after
        if reply != -(10 * state.peer + state.got + 1):
            return after._replace(broken="a reply reaches a peer that did not ask")
        after = after._replace(got=state.got + 1)
        return self._read(after, then) if is_sent and after.inbox else after

    # --- the device -------------------------------------------------------------------

    def device_early(self, state: State) -> State:
        """What a missing acquire lets a processor do: the read moves up."""
        data = state.memory.read(DEVICE, "data")
        return state._replace(device="look", copy=data)

    def device_look(self, state: State) -> State:
        """`device.mailbox.claim`: the ring."""
        memory = state.memory
        if memory.read(DEVICE, "publish_tail") == state.claimed:
            late = "device_looks_first" in self._is
            return state._replace(device="take_late" if late else "", copy=0)
        if memory.read(DEVICE, "publish_ring") != state.claimed + 1:
            return state._replace(broken=EARLY_PUBLISH)
        return state._replace(device="state", claimed=state.claimed + 1)

    def device_take_late(self, state: State) -> State:
        """As the broker's."""
        return state._replace(device="", device_bell=False)

    def device_state(self, state: State) -> State:
        """`device.mailbox.claim`: the mailbox."""
        if state.memory.read(DEVICE, "state") != PUBLISHED:
            return state._replace(device="look")
        return state._replace(device="length")

    def device_length(self, state: State) -> State:
        """The length is read with the claim."""
        length = state.memory.read(DEVICE, "length")
        if length != state.owed:
            return state._replace(broken="a packet's length is not its own")
        return state._replace(device="copy")

    def device_copy(self, state: State) -> State:
        """`device.mailbox.copy_in`."""
        is_early = "device_copies_first" in self._is
        data = state.copy if is_early else state.memory.read(DEVICE, "data")
        if data != state.owed:
            return state._replace(broken="a packet is torn")
        return state._replace(device="answer", copy=data)

    def device_answer(self, state: State) -> State:
        """`device.mailbox.copy_out` and `publish_replies`."""
        values = {
            "data": -state.copy,
            "length": -state.copy,
            "state": ANSWERED,
            "reply_ring": state.answered + 1,
            "reply_tail": state.answered + 1,
        }
        memory = state.memory
        for word, release in self._answer:
            memory = memory.write(DEVICE, word, values[word], release)
        after = state._replace(
            memory=memory, copy=0, answered=state.answered + 1, device="ring"
        )
        if "device_rings_first" in self._is:
            return after._replace(broker_bell=True, device="look")
        return after

    def device_ring(self, state: State) -> State:
        """The loop rings after its tick, then waits."""
        memory = state.memory.surfaced(DEVICE)
        return state._replace(memory=memory, broker_bell=True, device="")


#: What can be wrong, and the promise that it breaks.
MUTATIONS: Final = {
    "broker_without_release": EARLY_PUBLISH,
    "device_without_release": EARLY_REPLY,
    "broker_ring_before_state": STUCK,
    "device_ring_before_state": "the reply that was told is not there",
    "broker_rings_first": STUCK,
    "device_rings_first": STUCK,
    "broker_looks_first": STUCK,
    "device_looks_first": STUCK,
    "device_copies_first": "a packet is torn",
    "freed_at_once": "a packet is published over another",
    "reads_ahead": "a packet is published over another",
    "released_late": "a packet is published over another",
}
