"""
A spooled source to the device: BEGIN, CHUNKs, END, then the wait for what becomes of it
(`http.md` §8).

Rules:

1. All of it has `operation_seconds`.
2. Whatever fails after BEGIN is followed by a CANCEL, so that neither the source nor
   its receipt counts against the caller's quota. That CANCEL is awaited, but for a
   device that cannot be reached.
3. An upload that has begun is carried to its end, whoever asked for it: a source that
   is ready is its owner's, listed and to be removed by its owner alone.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from twisted_aotx.client import Caller
from twisted_aotx.client.media import (
    media_chunks,
    media_frame,
    media_read,
    refused_source,
)
from twisted_aotx.errors import AOTXError, DeviceRefused, ExchangeFailed, Problem
from twisted_aotx.gateway.media_counts import Origin
from twisted_aotx.gateway.media_spool import Spool
from twisted_aotx.gateway.problems import ProblemCode, of_exception, refusal
from twisted_aotx.gateway.resource import Gateway
from twisted_aotx.gateway.waiting import PAUSE_MAX, PAUSE_MIN, TimeUp, within
from twisted_aotx.wire.handles import media_handle
from twisted_aotx.wire.media import BeginData, MediaFrame, Metadata
from twisted_aotx.wire.numbers import MediaFormat, MediaPhase, MediaStatus, Status

_log = Logger("aotx.gateway")

#: How much longer each wait for a source that was sent is than the one before. Between
#: PAUSE_MIN and PAUSE_MAX nobody learns of it later than a quarter of what it took.
BACK_OFF: Final = 1.25
#: Why a source was refused, in words for its owner; docs/media.md says more.
CAUSES: Final[dict[int, str]] = {
    MediaStatus.TRANSFER: "The transfer of the source was not valid.",
    MediaStatus.DIGEST: "The source is not the one that was announced.",
    MediaStatus.CANCELLED: "The source was cancelled, or took too long to arrive.",
    MediaStatus.JPEG: "The source is no JPEG of a form that is taken.",
    MediaStatus.EXTENT: "The picture is more than 200 times longer than wide.",
    MediaStatus.MODALITY: "No model takes this kind of source.",
    MediaStatus.AUDIO_SILENT: "The audio is silent.",
    MediaStatus.AUDIO_FORMAT: "The source is no WAV of a form that is taken.",
    MediaStatus.AUDIO_NOT_FINITE: "The audio has values that are no numbers.",
}
_CODES: Final[dict[int, ProblemCode]] = {
    MediaStatus.PRESSURE: ProblemCode.MEDIA_PRESSURE,
    MediaStatus.LIMIT: ProblemCode.MEDIA_LIMIT,
}


@attrs.frozen
class Source:
    """
    A source of the caller that is ready.
    """

    transfer_id: bytes
    metadata: Metadata

    @property
    def handle(self) -> str:
        """
        Its name for the caller.
        """
        return media_handle(self.transfer_id)


async def upload(
    gateway: Gateway,
    caller: Caller,
    spool: Spool,
    format: MediaFormat,
    *,
    origin: Origin = "upload",
    param: str | None = None,
) -> Source:
    """
    Make the bytes of *spool* a source of *caller* and wait until it is ready.

    Args:
        spool: 1 byte or more.
        param: of a refusal for its size.

    Raises:
        Problem: what `http.md` §8 says of uploads; nothing is left in the device.
        DeviceRefused, ExchangeFailed, InvalidReply: of one of the exchanges; likewise.
    """
    clock = gateway.reactor
    began = clock.seconds()
    sending = _Upload(gateway, caller, spool, format, param)
    try:
        metadata = await sending.run()
    except Exception as error:
        problem = of_exception(error)
        code = problem.code if problem else ProblemCode.INTERNAL_ERROR.value
        gateway.metrics.media.failed(origin, code)
        raise
    gateway.metrics.media.ready(origin, spool.size, clock.seconds() - began)
    return Source(sending.transfer_id, metadata)


class _Upload:
    """
    One upload.
    """

    def __init__(
        self,
        gateway: Gateway,
        caller: Caller,
        spool: Spool,
        format: MediaFormat,
        param: str | None,
    ) -> None:
        self.transfer_id = gateway.fresh_id()
        self._gateway = gateway
        self._caller = caller
        self._spool = spool
        self._format = format
        self._param = param
        #: Whether the device may know of the source.
        self._begun = False

    async def run(self) -> Metadata:
        seconds = self._gateway.settings.limits.operation_seconds
        try:
            return await within(
                self._transfer(), clock=self._gateway.reactor, seconds=seconds
            )
        except TimeUp:
            await self._withdraw()
            raise refusal(ProblemCode.MEDIA_TIMEOUT) from None
        except ExchangeFailed:
            Deferred.fromCoroutine(self._withdraw())
            raise
        except Exception:
            await self._withdraw()
            raise

    async def _transfer(self) -> Metadata:
        size = self._spool.size
        await self._begin()
        await self._sent(
            media_chunks(
                self._gateway.client,
                self._caller,
                self.transfer_id,
                size,
                self._spool.blocks(),
            )
        )
        end = MediaFrame.end(self.transfer_id, size)
        await self._sent(media_frame(self._gateway.client, self._caller, end))
        return await self._ready()

    async def _begin(self) -> None:
        frame = MediaFrame.begin(
            self.transfer_id,
            self._spool.size,
            BeginData(self._format, self._spool.sha256),
        )
        self._begun = True
        try:
            await media_frame(self._gateway.client, self._caller, frame)
        except DeviceRefused as refused:
            # With metadata the device keeps the refused source, without it nothing.
            self._begun = bool(refused.payload)
            raise

    async def _sent(self, sending: Awaitable[object]) -> None:
        try:
            await sending
        except DeviceRefused as refused:
            metadata = refused_source(refused)
            if metadata is not None and metadata.phase == MediaPhase.REFUSED:
                raise self._refused(metadata) from None
            raise

    async def _ready(self) -> Metadata:
        pause = PAUSE_MIN
        while True:
            metadata = await media_read(
                self._gateway.client, self._caller, self.transfer_id
            )
            sent = (self._spool.sha256, self._spool.size)
            if (metadata.sha256, metadata.source_bytes) != sent:
                raise refusal(ProblemCode.SOURCE_DIGEST)
            if metadata.phase == MediaPhase.REFUSED:
                raise self._refused(metadata)
            if metadata.phase == MediaPhase.READY:
                return metadata
            await deferLater(self._gateway.reactor, pause)
            pause = min(BACK_OFF * pause, PAUSE_MAX)

    def _refused(self, metadata: Metadata) -> Problem:
        code = _CODES.get(metadata.status, ProblemCode.MEDIA_REFUSED)
        param = self._param if code is ProblemCode.MEDIA_LIMIT else None
        return refusal(code, param, CAUSES.get(metadata.status, ""))

    async def _withdraw(self) -> None:
        """
        Have the device forget the source (rule 2). Raises nothing.
        """
        if not self._begun:
            return
        frame = MediaFrame.cancel(self.transfer_id)
        try:
            await media_frame(self._gateway.client, self._caller, frame)
        except AOTXError as error:
            if isinstance(error, DeviceRefused) and error.status == Status.NOT_FOUND:
                return
            # It goes by itself, at the latest with the device's upload deadline.
            kind = type(error).__name__
            _log.warn("a source outlives its upload: {kind}", kind=kind)
