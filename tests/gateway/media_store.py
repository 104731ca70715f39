"""
The media sources of a scripted device (`wire.md` §10, device.md §12), in memory.

Sources are what their bytes say: `verdicts` maps the bytes of a source to the status
with which it is refused. There are no quotas; a test that wants a refusal before
admission answers BEGIN itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import attrs

from twisted_aotx.testing.peer import Answer, reply_to
from twisted_aotx.wire.media import (
    BeginData,
    ListRow,
    MediaFrame,
    Metadata,
    pack_list,
)
from twisted_aotx.wire.numbers import (
    MediaCommand,
    MediaFormat,
    MediaPhase,
    MediaStatus,
    Operation,
)
from twisted_aotx.wire.packet import RequestHeader


@attrs.define
class Stored:
    """
    One source, from BEGIN on.
    """

    size: int
    sha256: bytes
    format: int
    data: bytearray = attrs.Factory(bytearray)
    phase: int = MediaPhase.RECEIVING
    status: int = 0
    #: Whether a request leases it.
    leased: bool = False
    #: Whether the owner freed its receipt, so that it is gone.
    forgotten: bool = False

    @property
    def metadata(self) -> Metadata:
        ready = self.phase == MediaPhase.READY
        return Metadata(
            self.sha256,
            self.size,
            self.phase,
            self.status,
            self.format,
            16000 if ready and self.format == MediaFormat.WAV else 0,
            64 if ready else 0,
        )


class MediaStore:
    """
    The sources of a device, by (principal, transfer id) in order of their BEGINs.
    """

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self.sources: dict[tuple[bytes, bytes], Stored] = {}
        self.verdicts: dict[bytes, int] = {}
        #: Reads of a source before it is ready or refused.
        self.reads_until_done = 2
        #: Whether a source moves on when it is read.
        self.moves = True
        #: Rows of one page of the list.
        self.page_rows = 817
        #: Called with each source before it is read.
        self.on_read: Callable[[Stored], None] = lambda _: None
        #: Bytes of each CHUNK.
        self.chunks: list[int] = []

    @property
    def only(self) -> Stored:
        """
        The one source there is.
        """
        (source,) = self.sources.values()
        return source

    def put(self, principal: bytes, transfer_id: bytes, **fields: object) -> Stored:
        """
        A source that is ready.
        """
        sha256 = hashlib.sha256(transfer_id).digest()
        source = Stored(4, sha256, MediaFormat.JPEG, bytearray(4), MediaPhase.READY)
        for name, value in fields.items():
            setattr(source, name, value)
        self.sources[principal, transfer_id] = source
        return source

    def answer(self, request: RequestHeader, payload: bytes) -> Answer:
        """
        The reply to MEDIA, MEDIA_READ or MEDIA_LIST.
        """
        if request.operation == Operation.MEDIA_LIST:
            return self._list(request)
        source = self.sources.get((request.principal, request.id))
        if request.operation == Operation.MEDIA_READ:
            assert payload == b""
            if source is None or source.forgotten:
                return self._reply(request, 404)
            self._progress(source)
            return self._reply(request, 200, source)
        frame = MediaFrame.unpack(payload)
        assert frame.head.transfer_id == request.id
        if frame.head.command == MediaCommand.BEGIN:
            return self._begin(request, frame)
        if source is None or source.forgotten:
            return self._reply(request, 404)
        if frame.head.command == MediaCommand.CHUNK:
            return self._chunk(request, source, frame)
        if frame.head.command == MediaCommand.END:
            assert len(source.data) == source.size == frame.head.source_offset
            source.phase = MediaPhase.HASHING
            return self._reply(request, 200, source)
        return self._cancel(request, source)

    def _begin(self, request: RequestHeader, frame: MediaFrame) -> Answer:
        key = (request.principal, request.id)
        if key in self.sources:
            return self._reply(request, 409)
        data = BeginData.unpack(frame.data)
        source = Stored(frame.head.source_bytes, data.sha256, data.format)
        self.sources[key] = source
        return self._reply(request, 200, source)

    def _chunk(
        self, request: RequestHeader, source: Stored, frame: MediaFrame
    ) -> Answer:
        head = frame.head
        self.chunks.append(len(frame.data))
        if source.phase != MediaPhase.RECEIVING or head.source_offset != len(
            source.data
        ):
            return self._reply(request, 409, source)
        assert head.source_bytes == source.size
        source.data += frame.data
        return self._reply(request, 200, source)

    def _progress(self, source: Stored) -> None:
        self.on_read(source)
        if not self.moves or not MediaPhase.HASHING <= source.phase < MediaPhase.READY:
            return
        if source.phase < MediaPhase.HASHING + self.reads_until_done:
            source.phase += 1
            return
        data = bytes(source.data)
        source.status = self.verdicts.get(data, MediaStatus.OK)
        if hashlib.sha256(data).digest() != source.sha256:
            source.status = MediaStatus.DIGEST
        source.phase = MediaPhase.REFUSED if source.status else MediaPhase.READY

    def _cancel(self, request: RequestHeader, source: Stored) -> Answer:
        if source.leased:
            return self._reply(request, 409, source)
        source.forgotten = True
        if source.phase != MediaPhase.REFUSED:
            source.phase, source.status = MediaPhase.REFUSED, MediaStatus.CANCELLED
        return self._reply(request, 200, source)

    def _list(self, request: RequestHeader) -> Answer:
        if request.cursor > len(self.sources):
            return self._reply(request, 409)
        rows = [
            (position, ListRow(id, source.metadata))
            for position, ((owner, id), source) in enumerate(self.sources.items())
            if owner == request.principal
            and position >= request.cursor
            and source.phase != MediaPhase.REFUSED
        ]
        page, rest = rows[: self.page_rows], rows[self.page_rows :]
        return reply_to(
            request,
            200,
            pack_list(row for _, row in page),
            epoch=self._epoch,
            cursor=rest[0][0] if rest else 0,
        )

    def _reply(
        self, request: RequestHeader, status: int, source: Stored | None = None
    ) -> Answer:
        payload = b"" if source is None else source.metadata.pack()
        return reply_to(request, status, payload, epoch=self._epoch)
