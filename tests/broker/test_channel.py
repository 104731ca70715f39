"""
The life of a channel, as a plain object.
"""

from __future__ import annotations

import itertools

import pytest

from twisted_aotx.broker.channel import (
    TRANSITIONS,
    Channel,
    ChannelEvent,
    ChannelState,
)


def _live(*events: ChannelEvent) -> ChannelState:
    channel = Channel(1)
    for event in events:
        assert channel.happened(event) is channel.state
    return channel.state


def test_exchanges() -> None:
    """A peer makes any number of exchanges, then goes."""
    exchange = (ChannelEvent.PUBLISHED, ChannelEvent.ANSWERED)

    state = _live(ChannelEvent.ATTACHED, *exchange, *exchange, ChannelEvent.LOST)

    assert state is ChannelState.FREE


def test_peer_lost_in_flight() -> None:
    """A channel whose peer left drains until the reply, then it is free."""
    lost = (ChannelEvent.ATTACHED, ChannelEvent.PUBLISHED, ChannelEvent.LOST)

    assert _live(*lost) is ChannelState.DRAINING
    assert _live(*lost, ChannelEvent.ANSWERED) is ChannelState.FREE


@pytest.mark.parametrize(
    ("state", "event"),
    [
        pair
        for pair in itertools.product(ChannelState, ChannelEvent)
        if pair not in TRANSITIONS
    ],
)
def test_what_cannot_happen(state: ChannelState, event: ChannelEvent) -> None:
    """Every other pair is a mistake and changes nothing."""
    channel = Channel(1)
    channel.state = state

    with pytest.raises(AssertionError, match="channel 1"):
        channel.happened(event)

    assert channel.state is state


def test_every_state_is_left_and_reached() -> None:
    """No state is a trap and none is out of reach."""
    assert {before for before, _ in TRANSITIONS} == set(ChannelState)
    assert set(TRANSITIONS.values()) == set(ChannelState)
