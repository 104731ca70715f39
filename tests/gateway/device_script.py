"""
A device as a script for `testing.ScriptedPeer`: its requests move when a test says so.

It answers INFO, SUBMIT, READ and CANCEL by `device.md` §4, §6, §7, without quotas, and
MEDIA, MEDIA_READ and MEDIA_LIST by its `MediaStore`, if it has one.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from twisted.internet.defer import Deferred

from tests.gateway.media_store import MediaStore
from twisted_aotx.limits import PAYLOAD_BYTES_MAX
from twisted_aotx.testing.peer import Answer, reply_to
from twisted_aotx.wire.info import ControlRow, Information, ModelRow
from twisted_aotx.wire.numbers import TERMINAL_PHASES, Operation, Phase
from twisted_aotx.wire.packet import RequestHeader
from twisted_aotx.wire.requests import Submission, decode

EPOCH = 7
#: What most tests run against: one language model of text.
INFORMATION = Information(
    slots=8,
    prompt_bytes=4000,
    sequence_tokens=8192,
    requests=16,
    output_bytes=200_000,
    channels=16,
    grant_tokens=1000,
    grant_pages=512,
    grant_requests=4,
    grant_actions=255,
    request_seconds=300,
    upload_seconds=120,
    principals=256,
    media_references=56,
    selection_version=1,
    models=(ModelRow(role=2, modalities=1, sha256=b"m" * 32),),
    controls=(ControlRow(layers=1, name="caution", doses=(5000,)),),
)

#: The same with images and sound.
WITH_MEDIA = attrs.evolve(
    INFORMATION,
    media_objects=128,
    image_input=1,
    audio_input=1,
    grant_media=16,
    media_bytes=32 << 20,
    models=(ModelRow(role=2, modalities=7, sha256=b"m" * 32),),
)


@attrs.define
class Running:
    """
    One request in the device.
    """

    submission: Submission
    phase: int = Phase.QUEUED
    output: bytes = b""
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    finish: int = 0
    status: int = 0
    cancel: int = 0

    def say(self, data: bytes, *, prompt_tokens: int = 5) -> None:
        """
        More output, one token a byte.
        """
        self.phase = Phase.RUNNING
        self.prompt_tokens = prompt_tokens
        self.output += data
        self.sampled_tokens += len(data)

    def complete(self, data: bytes = b"", finish: int = 1) -> None:
        """
        The last output and the end.
        """
        self.say(data)
        self.phase = Phase.COMPLETED
        self.finish = finish

    def end(self, phase: int, status: int, cancel: int = 0) -> None:
        """
        Any other end.
        """
        self.phase, self.status, self.cancel = phase, status, cancel


class DeviceScript:
    """
    Call it from a `ScriptedPeer`. `requests` are its requests by (principal, id).
    """

    def __init__(
        self, information: Information = INFORMATION, *, media: bool = False
    ) -> None:
        self.information = information
        self._media = MediaStore(EPOCH) if media else None
        self.epoch = EPOCH
        self.requests: dict[tuple[bytes, bytes], Running] = {}
        #: Called with each request that was admitted.
        self.on_submit: Callable[[Running], None] = lambda _: None
        #: Called with each request before it is read.
        self.on_read: Callable[[Running], None] = lambda _: None
        #: Answers before the script does, unless it returns NotImplemented.
        self.before: Callable[[RequestHeader], Answer | Deferred[Answer]] = lambda _: (
            NotImplemented
        )
        #: Every operation so far, in order.
        self.operations: list[int] = []

    def __call__(
        self, request: RequestHeader, payload: bytes
    ) -> Answer | Deferred[Answer]:
        """
        The reply to one packet.
        """
        self.operations.append(request.operation)
        first = self.before(request)
        if first is not NotImplemented:
            return first
        match request.operation:
            case Operation.INFO:
                return self._reply(request, 200, self.information.pack())
            case Operation.SUBMIT:
                return self._submit(request, payload)
            case Operation.READ | Operation.CANCEL:
                return self._read(request)
            case Operation.MEDIA | Operation.MEDIA_READ | Operation.MEDIA_LIST:
                if self._media is not None:
                    return self._media.answer(request, payload)
        return self._reply(request, 503)

    @property
    def media(self) -> MediaStore:
        """
        Its sources.
        """
        assert self._media is not None, "a device without media"
        return self._media

    def count(self, operation: int) -> int:
        """
        How often *operation* came.
        """
        return self.operations.count(operation)

    @property
    def only(self) -> Running:
        """
        The one request there is.
        """
        (request,) = self.requests.values()
        return request

    def _submit(self, request: RequestHeader, payload: bytes) -> Answer:
        if request.epoch != self.epoch:
            return self._reply(request, 410)
        running = Running(decode(request, payload))
        assert (request.principal, request.id) not in self.requests
        self.requests[request.principal, request.id] = running
        self.on_submit(running)
        # Role, limit and the two floats are echoes (`wire.md` §3).
        return reply_to(
            request, 202, epoch=self.epoch, phase=1, role=request.role, total_bytes=9
        )

    def _read(self, request: RequestHeader) -> Answer:
        if request.epoch != self.epoch:
            return self._reply(request, 410)
        running = self.requests.get((request.principal, request.id))
        if running is None:
            return self._reply(request, 404)
        if request.operation == Operation.CANCEL:
            self._cancel(running)
        else:
            self.on_read(running)
        if request.cursor > len(running.output):
            return reply_to(request, 409, epoch=self.epoch, phase=running.phase)
        end = request.cursor + PAYLOAD_BYTES_MAX
        return reply_to(
            request,
            200,
            running.output[request.cursor : end],
            epoch=self.epoch,
            phase=running.phase,
            role=running.submission.role,
            total_bytes=len(running.output),
            prompt_tokens=running.prompt_tokens,
            sampled_tokens=running.sampled_tokens,
            finish=running.finish,
            failure_status=running.status,
            cancel_requested=running.cancel,
        )

    def _cancel(self, running: Running) -> None:
        if running.phase in TERMINAL_PHASES:
            return
        running.cancel, running.status = 1, 409
        if running.phase == Phase.QUEUED:
            running.phase = Phase.CANCELLED

    def _reply(
        self, request: RequestHeader, status: int, payload: bytes = b""
    ) -> bytes:
        return reply_to(request, status, payload, epoch=self.epoch)
