"""
What tests/engines/test_example.py runs where the example package is installed.

Writes JSON: what the engine was found as, and what its leases reported.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock

from tests.device.capacities import SMALL
from tests.device.making import message, payload_of
from tests.runtime.live import HOST, Live
from twisted_aotx.engines.registry import engine_named, make_engine
from twisted_aotx.errors import ConfigError
from twisted_aotx.testing.engines import RecordedHost, RecordedLease, sample_order
from twisted_aotx.wire.numbers import TERMINAL_PHASES


def made_engine(**options: Any) -> tuple[Any, Clock]:
    """The engine as the runtime makes it, on a clock that stands."""
    engine: Any = make_engine("backwards", 2, options, 4, 1024, Path("/"))
    engine.clock = Clock()
    engine.start(RecordedHost())
    return engine, engine.clock


def shown(lease: RecordedLease) -> dict[str, Any]:
    """What became of *lease*."""
    return {
        "events": [kind.name for kind, _, _ in lease.reports],
        "opened": lease.reports[0][1],
        "output": lease.output.decode(),
        "tokens": lease.sampled_tokens,
        "last": lease.reports[-1][1],
        "fault": lease.fault,
    }


def served(text: str, seconds: float, **changes: Any) -> dict[str, Any]:
    """One lease for the user message *text*, *seconds* after it was opened."""
    engine, clock = made_engine(rate=10)
    order = sample_order(engine.facts.message_format, text.encode(), **changes)
    lease = RecordedLease(order)
    engine.open(lease)
    for _ in range(round(seconds * 10)):
        clock.advance(0.1)
    engine.close()
    return shown(lease)


def stopped() -> dict[str, Any]:
    """Two leases, one of them stopped half way."""
    engine, clock = made_engine(rate=10)
    spans = engine.facts.message_format
    leases = [RecordedLease(sample_order(spans, b"abcdef", slot=s)) for s in (1, 2)]
    for lease in leases:
        engine.open(lease)
    clock.advance(0.1)
    engine.stop(1, 1)
    for _ in range(20):
        clock.advance(0.1)
    engine.close()
    return {"stopped": shown(leases[0]), "other": shown(leases[1])}


def refused(options: dict[str, Any]) -> str:
    """The option that the engine does not take."""
    try:
        made_engine(**options)
    except ConfigError as error:
        return error.path
    return ""


def answered_live() -> str:
    """What a request gets from the engine through the real runtime and device."""
    engine: Any = make_engine(
        "backwards", HOST, {}, SMALL.slots, SMALL.sequence_tokens, Path("/")
    )
    live = Live(engine)
    engine.clock = live.reactor
    live.start()
    asked = payload_of(message(0, b"system"), message(1, b"Hello, world"))
    assert live.submit(1, payload=asked, role=HOST, limit=64) == 202
    while live.read(1)[0].phase not in TERMINAL_PHASES:
        live.reactor.advance(0.02)
    output = live.whole(1)[1].decode()
    live.stop()
    return output


def main() -> None:
    """Exercise the engine and write what came of it; `--live`: on a device."""
    if "--live" in sys.argv:
        sys.stdout.write(json.dumps(answered_live()))
        return
    maker = engine_named("backwards")
    results = {
        "help": maker.help,
        "file": import_module("aotx_example_engine").__file__,
        "whole": served("Grüße", 5),
        "empty": served("", 5),
        "limit": served("abcdef", 5, limit=3),
        "end_at_limit": served("abcdef", 5, limit=7),
        "early": served("abcdef", 0.2),
        "two": stopped(),
        "refused": [
            refused({}),
            refused({"rate": 1000}),
            refused({"rate": 0}),
            refused({"rate": 1001}),
            refused({"rate": True}),
            refused({"speed": 1}),
        ],
    }
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main()
