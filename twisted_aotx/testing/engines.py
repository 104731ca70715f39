"""
For tests of an engine: leases and a host outside a device (docs/engines.md).

A `RecordedLease` judges reports exactly as the runtime does, since it is the runtime's
own lease with a list behind it instead of a device.
"""

from __future__ import annotations

from typing import Any

import attrs

from twisted_aotx.device.numbers import Event, SpanClass
from twisted_aotx.interfaces import MessageFormat
from twisted_aotx.orders import OpenOrder
from twisted_aotx.runtime.leases import BridgedLease
from twisted_aotx.wire.messages import Message, TextPart, pack_messages
from twisted_aotx.wire.numbers import MessageRole, Role


class RecordedLease(BridgedLease):
    """
    A lease that keeps what its engine reports.

    Attributes:
        reports: (event, value, data) of every report that a device would get, in order;
            emissions are not joined here.
        fault: what the engine did wrong (`device.md` §10), or None.
    """

    def __init__(self, order: OpenOrder) -> None:
        super().__init__(order, self._record)
        self.reports: list[tuple[Event, int, bytes]] = []
        self.fault: str | None = None

    @property
    def output(self) -> bytes:
        """What was emitted so far."""
        return b"".join(data for _, _, data in self.reports)

    @property
    def sampled_tokens(self) -> int:
        """The tokens emitted so far."""
        return sum(value for kind, value, _ in self.reports if kind == Event.EMIT)

    def _record(self, lease: BridgedLease) -> None:
        self.flush(self._take)
        self.fault = self.fault or self.take_fault()

    def _take(
        self, slot: int, generation: int, kind: int, value: int, data: bytes
    ) -> bool:
        self.reports.append((Event(kind), value, data))
        return True


@attrs.define
class RecordedHost:
    """
    A host that keeps what its engine says.
    """

    #: The reasons of every `lost`, and None for every `back`.
    said: list[str | None] = attrs.field(factory=list)
    #: The last word on each control, by name.
    controls: dict[str, bool] = attrs.field(factory=dict)

    def lost(self, reason: str) -> None:
        """See `interfaces.EngineHost`."""
        self.said.append(reason)

    def back(self) -> None:
        """See `interfaces.EngineHost`."""
        self.said.append(None)

    def control(self, name: str, available: bool) -> None:
        """See `interfaces.EngineHost`; any name is taken."""
        self.controls[name] = available


def sample_order(
    message_format: MessageFormat, text: bytes = b"Hello.", **changes: Any
) -> OpenOrder:
    """
    The order for one user message *text*, rendered as *message_format* says.

    *changes* replace fields of the order.
    """
    head = message_format.system_head[: message_format.prefix_bytes]
    spans = [
        (head + message_format.user_head, SpanClass.TEMPLATE),
        (text, SpanClass.CALLER),
        (
            message_format.user_tail
            + message_format.generation_head
            + message_format.think_open
            + message_format.think_close,
            SpanClass.TEMPLATE,
        ),
    ]
    rendered, ends = b"", []
    for part, span_class in spans:
        rendered += part
        if part:
            ends.append((len(rendered), int(span_class)))
    message = Message(role=MessageRole.USER, parts=(TextPart(text),))
    fields = {
        "slot": 1,
        "generation": 1,
        "role": Role.LANGUAGE,
        "limit": 64,
        "temperature": 0.0,
        "top_p": 1.0,
        "seed": 0,
        "rendered": rendered,
        "spans": tuple(ends),
        "payload": pack_messages((message,)),
    }
    return OpenOrder(**{**fields, **changes})
