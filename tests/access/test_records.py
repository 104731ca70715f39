"""
Which records show bytes in their repr: those on the lists, and no others.

Prompts, outputs, media, tokens' digests and packets are held as bytes, so a field that
holds some is shown only on purpose.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Final

import attrs

import twisted_aotx

#: Ids, and digests of models, sources and files as operators and owners are told them.
NAMES: Final = """
BeginData.sha256 Caller.principal ControlRow.qualification_sha256
EngineFacts.model_sha256 FrameHead.transfer_id GatewaySettings.metric_labels
GrantRow.principal GrantsRefused.digest GrantsState.digest GrantsState.judged
Information.lineage LedgerRow.model_sha256 LedgerRow.principal ListRow.transfer_id
Metadata.sha256 ModelRow.sha256 Notice.id Notice.principal OwnedSource.transfer_id
Principal.id Progress.id Progress.principal RemovalRecord.owner
RemovalRecord.transfer_id ReplyHeader.id ReplyHeader.principal RequestHandle.id
RequestHeader.id RequestHeader.principal Selection.qualification_sha256
Selector.qualification_sha256 Source.sha256 Source.transfer_id SourceRecord.owner
SourceRecord.sha256 SourceRecord.transfer_id StoredSource.owner StoredSource.sha256
StoredSource.transfer_id Submission.selector Table.digest Usage.model_sha256
Usage.principal UsageReport.models Watch.id Watch.principal _Seen.ids
"""
#: What an operator, a model file or this program said.
WORDS: Final = """
Answer.content_type Answer.headers Broken.reason Expected.content_types Load.texts
MessageFormat.assistant_head MessageFormat.assistant_tail MessageFormat.generation_head
MessageFormat.system_head MessageFormat.system_tail MessageFormat.think_close
MessageFormat.think_open MessageFormat.user_head MessageFormat.user_tail
SeqPacketAddress.path Tensor.name _Wait.result
"""
#: Modules that need what may not be installed.
OPTIONAL: Final = {"twisted_aotx.device.gpu", "twisted_aotx.device.gpu_words"}


def records() -> Iterator[type]:
    """Every record of the package."""
    for found in pkgutil.walk_packages(twisted_aotx.__path__, "twisted_aotx."):
        if found.name in OPTIONAL:
            continue
        for kind in vars(importlib.import_module(found.name)).values():
            is_ours = getattr(kind, "__module__", "").startswith("twisted_aotx")
            if isinstance(kind, type) and is_ours and attrs.has(kind):
                yield kind


def shown_bytes(kind: type) -> set[str]:
    """The fields of a record that may hold bytes and that its repr shows."""
    return {
        f"{kind.__name__}.{field.name}"
        for field in attrs.fields(kind)
        if field.repr and "bytes" in str(field.type)
    }


def test_bytes_that_are_shown() -> None:
    found = set[str]().union(*map(shown_bytes, records()))

    assert found == {*NAMES.split(), *WORDS.split()}


def test_a_field_that_is_shown_is_noticed() -> None:
    @attrs.frozen
    class Loose:
        said: bytes
        kept: bytes = attrs.field(repr=False)
        maybe: dict[str, bytes] | None = None

    assert shown_bytes(Loose) == {"Loose.said", "Loose.maybe"}
