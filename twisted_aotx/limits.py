"""
Every fixed bound of the project, with its unit and its reason.

Capacities that an operator sets live in `Capacities`; what is here is either fixed by
the contract (`wire.md` §13) or a bound of our own.
Layer 0: imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

# --- fixed by the contract (wire.md §1, §8, §13) --------------------------------------

#: Bytes of a packet header; also the smallest packet.
HEADER_BYTES: Final = 128
#: Bytes of the largest packet, request or reply.
PACKET_BYTES_MAX: Final = 65536
#: Bytes of the largest payload.
PAYLOAD_BYTES_MAX: Final = PACKET_BYTES_MAX - HEADER_BYTES
#: Messages in one SUBMIT.
MESSAGES_MAX: Final = 64
#: Parts in one message.
PARTS_MAX: Final = 32
#: Bytes of the control selector that may end a SUBMIT payload.
SELECTOR_BYTES: Final = 48
#: Bytes that a media part renders to: `[image:` + 64 hex digits + `]`.
LINK_BYTES: Final = 72
#: Tokens in one page [D8].
PAGE_TOKENS: Final = 16
#: Bytes of output that one lease may hand over in one tick (device.md §9, Take).
TAKE_BYTES_MAX: Final = 4096
#: Control rows that one engine may declare, and doses in one row (wire.md §7).
CONTROL_ROWS_MAX: Final = 16
DOSES_MAX: Final = 16
#: Bytes of a Unix socket path, without its NUL (wire.md §1).
SOCKET_PATH_BYTES_MAX: Final = 107
#: Connections accepted per readiness event (wire.md §13).
ACCEPT_BURST: Final = 16
#: Seconds after the last activity at which a peer is closed (wire.md §13).
PEER_IDLE_SECONDS: Final = 30
#: Seconds that a control exchange on channel 0 may take (wire.md §13).
CONTROL_SECONDS: Final = 30

#: Longest time between two ticks, in ns (wire.md §13).
HEARTBEAT_NS: Final = 250_000_000

# --- bounds of our own ----------------------------------------------------------------

#: Model roles are 0..4 (wire.md §6); tables by role have this many rows.
ROLE_COUNT: Final = 5
#: Bytes of one span of a message format; ChatML needs 24, Llama 3 47.
SPAN_BYTES_MAX: Final = 512
#: Spans of one rendered prompt: every message adds its head, at most PARTS_MAX parts
#: and its tail; generation head, think spans and prefix add four.
SPANS_MAX: Final = MESSAGES_MAX * (PARTS_MAX + 2) + 4
#: Bytes of a rendered prompt: no payload renders to more, as it holds so much text, so
#: many references, and heads and tails of messages around them.
PROMPT_BYTES_MAX: Final = (
    PAYLOAD_BYTES_MAX
    + MESSAGES_MAX * PARTS_MAX * LINK_BYTES
    + (2 * MESSAGES_MAX + 4) * SPAN_BYTES_MAX
)
#: Bytes of a SUBMIT payload beyond its text: count, message heads and part heads.
PAYLOAD_OVERHEAD_BYTES_MAX: Final = 4 + MESSAGES_MAX * (8 + PARTS_MAX * 8)
#: Reports that one engine lease may have on the way to the device.
EVENTS_PER_SLOT: Final = 64
#: Output bytes that one engine lease may have on the way to the device; also the
#: largest single emission.
EVENT_BYTES_PER_SLOT: Final = 65536
#: Progress notices in the ring for each slot: so many ticks may pass before the broker
#: has read them.
NOTICES_PER_SLOT: Final = 4
#: Records in one packet of `watch.sock`, connections that it takes (a gateway has one),
#: and watches of one connection (docs/wire/watch.md).
WATCH_RECORDS_MAX: Final = 64
WATCH_CONNECTIONS_MAX: Final = 64
WATCHES_MAX: Final = 4096
#: Seconds without a notice after which a client asks by itself: a lost notice hangs
#: nobody.
WATCH_CHECK_SECONDS: Final = 1
#: Seconds after which a watch that was not renewed is forgotten.
WATCH_FORGET_SECONDS: Final = 10
#: Usage records that wait for review [D11].
USAGE_RECORDS: Final = 4096
#: Usage records that one review batch takes at most [D11].
BATCH_RECORDS_MAX: Final = 64
#: Bytes that one tick hashes or checks of all media sources together (device.md §12).
MEDIA_BYTES_PER_TICK: Final = 65536
#: Bytes that all device tables together may take [D7].
TABLE_BYTES_MAX: Final = 8 << 30


def _between(low: int, high: int) -> Callable[[Any, Any, int], None]:
    return attrs.validators.and_(
        attrs.validators.instance_of(int),
        attrs.validators.ge(low),
        attrs.validators.le(high),
    )


def _multiple_of(unit: int) -> Callable[[Any, Any, int], None]:
    def check(_: Any, field: Any, value: int) -> None:
        if value % unit:
            raise ValueError(f"'{field.name}' must be a multiple of {unit}")

    return check


@attrs.frozen(kw_only=True)
class Capacities:
    """
    What an operator may size, checked at start (`wire.md` §13, D7).

    Kernels are compiled per set of capacities: each new set costs one compilation.
    """

    #: Slot 0 is never leased.
    slots: int = attrs.field(default=64, validator=_between(2, 1024))
    #: Entries of the request table.
    requests: int = attrs.field(default=128, validator=_between(1, 65536))
    #: Mailboxes, the operator's channel 0 included.
    channels: int = attrs.field(default=128, validator=_between(2, 1024))
    #: Rows of the grant table.
    principals: int = attrs.field(default=256, validator=_between(1, 1022))
    #: Bytes of a rendered prompt.
    prompt_bytes: int = attrs.field(
        default=65408, validator=_between(1, PROMPT_BYTES_MAX)
    )
    #: Bytes of output kept per request.
    output_bytes: int = attrs.field(default=65536, validator=_between(1, 16 << 20))
    #: Prompt and output of one request, in tokens.
    sequence_tokens: int = attrs.field(default=8192, validator=_between(2, 2**31 - 1))
    request_seconds: int = attrs.field(default=300, validator=_between(1, 2**31 - 1))
    upload_seconds: int = attrs.field(default=120, validator=_between(1, 2**31 - 1))
    #: Media descriptors, and as many upload receipts.
    media_objects: int = attrs.field(default=128, validator=_between(0, 65536))
    #: Bytes of the encoded source pool.
    media_bytes: int = attrs.field(default=64 << 20, validator=_between(0, 1 << 30))
    #: Feature rows of all ready images together.
    image_rows: int = attrs.field(default=131072, validator=_between(0, 2**31 - 1))
    #: Images that are decoded at once.
    image_workers: int = attrs.field(default=1, validator=_between(1, 64))
    #: Pixels of one decoded image, and of each of its sides.
    image_pixels: int = attrs.field(default=4194304, validator=_between(1, 2**31 - 1))
    image_dimension: int = attrs.field(default=8192, validator=_between(1, 65535))
    #: Patches of one image; a reservation is a quarter of it in rows.
    image_patches: int = attrs.field(
        default=8192,
        validator=[_between(256, 65536), _multiple_of(4)],
    )
    #: Feature rows of all ready audio together.
    audio_rows: int = attrs.field(default=16384, validator=_between(0, 2**31 - 1))
    #: Audio sources that are prepared at once.
    audio_workers: int = attrs.field(default=1, validator=_between(1, 64))
    #: Sample frames of one audio source, at its own rate.
    audio_frames: int = attrs.field(default=1440000, validator=_between(1, 1440000))
