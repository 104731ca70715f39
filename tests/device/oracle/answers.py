"""
What the state store answered, handled in order (step "store writes" of `device.md` §1).
"""

from __future__ import annotations

from tests.device.oracle import media, policy, preparation
from tests.device.oracle.admission import examine_waiting
from tests.device.oracle.state import State
from twisted_aotx.orders import ControlRecord, LedgerRecord, RemovalRecord


def handle_results(state: State) -> None:
    """Also while held: this is how a hold can end."""
    results, state.store.results = state.store.results, []
    for sent, saved in results:
        record = sent.record
        if isinstance(record, LedgerRecord):
            policy.recorded(state, sent.about, saved)
            continue
        if sent.frame is None or sent.channel is None:
            preparation.saved(state, sent.about, saved)
            continue
        if isinstance(record, ControlRecord):
            state.answer(sent.channel, policy.written(state, record, sent.frame, saved))
        elif isinstance(record, RemovalRecord):
            packet = media.removed(state, sent.frame, sent.about, saved)
            state.answer(sent.channel, packet)
    examine_waiting(state)
