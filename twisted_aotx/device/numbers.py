"""
Numbers that only the device and its engines' bridge know.

What is on the wire lives in `wire.numbers`; kernels read plain integers, so the ones
that they need are repeated here by name and taken from there.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from twisted_aotx import limits
from twisted_aotx.wire.numbers import (
    Action,
    Finish,
    MediaCommand,
    MediaFormat,
    MediaPhase,
    MediaStatus,
    Modality,
    Operation,
    PartKind,
    Phase,
    PolicyAction,
    PolicyReason,
    PolicyResult,
    PolicyState,
    Status,
)


class Event(IntEnum):
    """
    What an engine may report about a lease (`device.md` §10).
    """

    OPENED = 1
    REFUSED = 2
    EMIT = 3
    DONE = 4
    FAILED = 5


class SpanClass(IntEnum):
    """
    Whose bytes a span of a rendered prompt holds (`device.md` §5).
    """

    TEMPLATE = 0
    CALLER = 1
    LINK = 2


#: Mailbox states (`wire.md` §12).
OURS: Final = 0
PUBLISHED: Final = 1
ANSWERED: Final = 2

#: Indexes of `H.word`, one word per cache line.
WORD_HELD: Final = 0
WORD_RESTORING: Final = 8
WORD_PUBLISH_TAIL: Final = 16
WORD_PUBLISH_HEAD: Final = 24
WORD_REPLY_TAIL: Final = 32
WORD_REPLY_HEAD: Final = 40
WORD_ORDER_TAIL: Final = 48
WORD_ORDER_HEAD: Final = 56
WORD_RECORD_TAIL: Final = 64
WORD_RECORD_HEAD: Final = 72
WORD_RECORD_SAVED: Final = 80
WORD_FLUSH: Final = 88
WORD_JOB_TAIL: Final = 96
WORD_JOB_HEAD: Final = 104
WORD_DONE_TAIL: Final = 112
WORD_DONE_HEAD: Final = 120
WORD_WATCHED: Final = 128
WORD_NOTICE_TAIL: Final = 136
WORD_NOTICE_HEAD: Final = 144
WORD_NOTICE_LOST: Final = 152
WORD_COUNT: Final = 160

#: What the device asks of the state store: word 0 of a record.
RECORD_SOURCE: Final = 1
RECORD_REMOVAL: Final = 2
RECORD_CONTROL: Final = 3
RECORD_LEDGER: Final = 4

#: Indexes of `H.stats`, what the device tells of itself after each tick.
STAT_TICKS: Final = 0
STAT_FRAMES: Final = 1
STAT_LEASES: Final = 2
STAT_QUEUED: Final = 3
STAT_DROPPED: Final = 4
STAT_HELD: Final = 5
STAT_ROLES: Final = 6
STAT_BUSY_NS: Final = 7
STAT_MEDIA_OBJECTS: Final = 8
STAT_MEDIA_FREE: Final = 9
STAT_USAGE_PENDING: Final = 10
STAT_USAGE_REVIEWED: Final = 11
STAT_POLICY_STATE: Final = 12
STAT_MEDIA_RECEIPTS: Final = 13
STAT_COUNT: Final = 14

#: Who runs a role's sequences.
KIND_NONE: Final = 0
KIND_HOST: Final = 1
KIND_KERNEL: Final = 2

OK: Final = int(Status.OK)
ACCEPTED: Final = int(Status.ACCEPTED)
BAD: Final = int(Status.INVALID)
FORBIDDEN: Final = int(Status.FORBIDDEN)
NOT_FOUND: Final = int(Status.NOT_FOUND)
CONFLICT: Final = int(Status.CONFLICT)
GONE: Final = int(Status.GONE)
TOO_LARGE: Final = int(Status.TOO_LARGE)
TOO_MANY: Final = int(Status.LIMITED)
UNAVAILABLE: Final = int(Status.UNAVAILABLE)
EXPIRED: Final = int(Status.DEADLINE)

OP_GRANTS: Final = int(Operation.GRANTS)
OP_INFO: Final = int(Operation.INFO)
OP_SUBMIT: Final = int(Operation.SUBMIT)
OP_READ: Final = int(Operation.READ)
OP_CANCEL: Final = int(Operation.CANCEL)
OP_MEDIA: Final = int(Operation.MEDIA)
OP_MEDIA_READ: Final = int(Operation.MEDIA_READ)
OP_METRICS: Final = int(Operation.METRICS)
OP_MEDIA_LIST: Final = int(Operation.MEDIA_LIST)
OP_SHARED_WRITE: Final = 10
OP_SHARED_READ: Final = 11
OP_POLICY: Final = int(Operation.POLICY)

ACT_INFER: Final = int(Action.INFER)
ACT_UPLOAD: Final = int(Action.UPLOAD)
ACT_TELEMETRY: Final = int(Action.TELEMETRY)
ACT_SHARED_WRITE: Final = int(Action.SHARED_WRITE)
ACT_POLICY: Final = int(Action.POLICY_MANAGE)
ACT_ALL: Final = 255

FREE: Final = int(Phase.FREE)
QUEUED: Final = int(Phase.QUEUED)
PREPARING: Final = int(Phase.PREPARING)
RUNNING: Final = int(Phase.RUNNING)
COMPLETED: Final = int(Phase.COMPLETED)
FAILED: Final = int(Phase.FAILED)
CANCELLED: Final = int(Phase.CANCELLED)

FINISH_NONE: Final = int(Finish.NONE)
FINISH_STOP: Final = int(Finish.STOP)
FINISH_LENGTH: Final = int(Finish.LENGTH)

EV_OPENED: Final = int(Event.OPENED)
EV_REFUSED: Final = int(Event.REFUSED)
EV_EMIT: Final = int(Event.EMIT)
EV_DONE: Final = int(Event.DONE)
EV_FAILED: Final = int(Event.FAILED)

SPAN_TEMPLATE: Final = int(SpanClass.TEMPLATE)
SPAN_CALLER: Final = int(SpanClass.CALLER)
SPAN_LINK: Final = int(SpanClass.LINK)

MEDIA_FREE: Final = int(MediaPhase.FREE)
MEDIA_RECEIVING: Final = int(MediaPhase.RECEIVING)
MEDIA_HASHING: Final = int(MediaPhase.HASHING)
MEDIA_WAITING: Final = int(MediaPhase.WAITING)
MEDIA_DECODING: Final = int(MediaPhase.DECODING)
MEDIA_ENCODING: Final = int(MediaPhase.ENCODING)
MEDIA_READY: Final = int(MediaPhase.READY)
MEDIA_REFUSED: Final = int(MediaPhase.REFUSED)

REFUSED_TRANSFER: Final = int(MediaStatus.TRANSFER)
REFUSED_LIMIT: Final = int(MediaStatus.LIMIT)
REFUSED_DIGEST: Final = int(MediaStatus.DIGEST)
REFUSED_CANCELLED: Final = int(MediaStatus.CANCELLED)
REFUSED_JPEG: Final = int(MediaStatus.JPEG)
REFUSED_PRESSURE: Final = int(MediaStatus.PRESSURE)

COMMAND_BEGIN: Final = int(MediaCommand.BEGIN)
COMMAND_CHUNK: Final = int(MediaCommand.CHUNK)
COMMAND_END: Final = int(MediaCommand.END)
COMMAND_CANCEL: Final = int(MediaCommand.CANCEL)

FORMAT_JPEG: Final = int(MediaFormat.JPEG)
FORMAT_WAV: Final = int(MediaFormat.WAV)

MODALITY_IMAGE: Final = int(Modality.IMAGE)
MODALITY_AUDIO: Final = int(Modality.AUDIO)

PART_TEXT: Final = int(PartKind.TEXT)
PART_IMAGE: Final = int(PartKind.IMAGE)
PART_AUDIO: Final = int(PartKind.AUDIO)

EVENTS: Final = limits.EVENTS_PER_SLOT
EVENT_BYTES: Final = limits.EVENT_BYTES_PER_SLOT
FRAME_BYTES: Final = limits.PACKET_BYTES_MAX
HEADER: Final = limits.HEADER_BYTES

#: What `wire.md` §11 fixes [D11].
POLICY_ABI: Final = 3
POLICY_MODE: Final = 2

POLICY_PAUSE: Final = int(PolicyAction.PAUSE)
POLICY_RESUME: Final = int(PolicyAction.RESUME)
POLICY_STOP: Final = int(PolicyAction.STOP)
POLICY_REVIEW_ON: Final = int(PolicyAction.REVIEW_ON)
POLICY_REVIEW_OFF: Final = int(PolicyAction.REVIEW_OFF)

STATE_QUIET: Final = int(PolicyState.QUIET)
STATE_ACTIVE: Final = int(PolicyState.ACTIVE)
STATE_PAUSED: Final = int(PolicyState.PAUSED)
STATE_STOPPED: Final = int(PolicyState.STOPPED)
STATE_ERROR: Final = int(PolicyState.ERROR)
STATE_RECORDING: Final = int(PolicyState.RECORDING)

REASON_QUIET: Final = int(PolicyReason.QUIET)
REASON_FOREGROUND: Final = int(PolicyReason.FOREGROUND)
REASON_PAUSED: Final = int(PolicyReason.PAUSED)
REASON_CAPACITY: Final = int(PolicyReason.CAPACITY)
REASON_ACTIVE: Final = int(PolicyReason.ACTIVE)
REASON_DISABLED: Final = int(PolicyReason.DISABLED)

RESULT_OK: Final = int(PolicyResult.OK)
RESULT_CAPACITY: Final = int(PolicyResult.CAPACITY)
PAYLOAD_MAX: Final = limits.PAYLOAD_BYTES_MAX
