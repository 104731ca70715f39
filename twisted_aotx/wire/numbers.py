"""
The numbers of the wire with their names. Values are contract; order means nothing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Operation(IntEnum):
    """
    `wire.md` §4. 10 and 11 are reserved for the shared service.
    """

    GRANTS = 1
    INFO = 2
    SUBMIT = 3
    READ = 4
    CANCEL = 5
    MEDIA = 6
    MEDIA_READ = 7
    METRICS = 8
    MEDIA_LIST = 9
    SHARED_MUTATION = 10
    SHARED_READ = 11
    POLICY = 12


class Status(IntEnum):
    """
    Status words of replies and of requests that failed (`wire.md` §5).
    """

    OK = 200
    ACCEPTED = 202
    INVALID = 400
    FORBIDDEN = 403
    NOT_FOUND = 404
    CONFLICT = 409
    GONE = 410
    TOO_LARGE = 413
    LIMITED = 429
    UNAVAILABLE = 503
    #: Only as the failure status of a request.
    DEADLINE = 504


class Action(IntEnum):
    """
    Bits of a grant's action mask (`wire.md` §6).
    """

    INFER = 1
    UPLOAD = 2
    #: Used by the gateway only.
    FETCH = 4
    TELEMETRY = 8
    SHARED_READ = 16
    SHARED_WRITE = 32
    SHARED_MANAGE = 64
    POLICY_MANAGE = 128


class Role(IntEnum):
    """
    Model roles (`wire.md` §6). Only the last three are served.
    """

    EMBEDDING = 0
    RERANKER = 1
    LANGUAGE = 2
    LANGUAGE_Q4 = 3
    LANGUAGE_AUDIO = 4


SERVED_ROLES: Final = frozenset({Role.LANGUAGE, Role.LANGUAGE_Q4, Role.LANGUAGE_AUDIO})


class Phase(IntEnum):
    """
    Request phases (`wire.md` §3).
    """

    FREE = 0
    QUEUED = 1
    PREPARING = 2
    RUNNING = 3
    COMPLETED = 4
    FAILED = 5
    CANCELLED = 6


TERMINAL_PHASES: Final = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED})


class Finish(IntEnum):
    """
    Why a completed request ended (`wire.md` §3).
    """

    NONE = 0
    STOP = 1
    LENGTH = 2


class MessageRole(IntEnum):
    """
    Who speaks in a message of a SUBMIT (`wire.md` §8).
    """

    SYSTEM = 0
    USER = 1
    ASSISTANT = 2


class PartKind(IntEnum):
    """
    What a part of a message holds (`wire.md` §8).
    """

    TEXT = 0
    IMAGE = 1
    AUDIO = 2


class Modality(IntEnum):
    """
    Bits of a model row's modalities (`wire.md` §7).
    """

    TEXT = 1
    IMAGE = 2
    AUDIO = 4


class Positions(IntEnum):
    """
    Where a control row works (`wire.md` §7).
    """

    ALL = 0
    RESPONSE = 1


class MediaCommand(IntEnum):
    """
    Frame operations of a MEDIA packet (`wire.md` §10).
    """

    BEGIN = 1
    CHUNK = 2
    END = 3
    CANCEL = 4


class MediaFormat(IntEnum):
    """
    Source formats that this channel takes (`wire.md` §10).
    """

    JPEG = 1
    WAV = 3


class MediaPhase(IntEnum):
    """
    Phases of a media source (`wire.md` §10).
    """

    FREE = 0
    RECEIVING = 1
    HASHING = 2
    WAITING = 3
    DECODING = 4
    ENCODING = 5
    READY = 6
    REFUSED = 7


class MediaStatus(IntEnum):
    """
    Why a media source was refused (`wire.md` §10). 8 is not used.
    """

    OK = 0
    TRANSFER = 1
    LIMIT = 2
    DIGEST = 3
    CANCELLED = 4
    JPEG = 5
    EXTENT = 6
    MODALITY = 7
    AUDIO_SILENT = 9
    AUDIO_FORMAT = 10
    AUDIO_NOT_FINITE = 11
    PRESSURE = 12


class PolicyAction(IntEnum):
    """
    What a policy write asks for (`wire.md` §11).
    """

    PAUSE = 1
    RESUME = 2
    STOP = 3
    REVIEW_ON = 4
    REVIEW_OFF = 5


class PolicyState(IntEnum):
    """
    `wire.md` §11.
    """

    OFF = 0
    QUIET = 1
    ACTIVE = 2
    PAUSED = 3
    STOPPED = 4
    ERROR = 5
    RECORDING = 6


class PolicyReason(IntEnum):
    """
    `wire.md` §11.
    """

    QUIET = 0
    FOREGROUND = 1
    PAUSED = 2
    CAPACITY = 3
    ACTIVE = 4
    DISABLED = 5


class PolicyResult(IntEnum):
    """
    `wire.md` §11.
    """

    OK = 0
    FORMAT = 1
    CAPACITY = 2
    REFERENCE = 3
    SCOPE = 4
    VERSION = 5
    SEQUENCE = 6
    SOURCE = 7
    LAYOUT = 8
    MISSING = 9
    STALE = 10
    DENIED = 11


class MailboxState(IntEnum):
    """
    Who owns the bytes of a mailbox (`wire.md` §12).
    """

    BROKER = 0
    REQUEST = 1
    REPLY = 2
