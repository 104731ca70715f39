"""
From the state store into a device that does not run yet (`device.md` §11, D13).

Rules:
1. A policy state that cannot be used puts the policy into state error; the runtime
   starts all the same.
2. A source that does not fit the device ends the start: to drop it in silence would
   lose what its owner was told is kept. One whose kind no engine takes now is listed
   and removed as ever.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from twisted.logger import Logger

from twisted_aotx.devices import IDevice
from twisted_aotx.errors import AOTXError, ConfigError
from twisted_aotx.journal.errors import PolicyUnusable, StoreUnusable
from twisted_aotx.journal.store import Store
from twisted_aotx.wire.numbers import MediaStatus

_log = Logger("aotx.runtime")

#: Keys of runtime.json that have to grow, by what the device says.
_TOO_SMALL: Final = {
    MediaStatus.PRESSURE: (
        *("media_objects", "media_bytes", "image_rows", "audio_rows"),
    ),
    MediaStatus.LIMIT: (
        *("media_objects", "media_bytes", "image_rows", "audio_rows", "audio_frames"),
    ),
    MediaStatus.JPEG: ("image_pixels", "image_dimension"),
}


def restore(device: IDevice, store: Store) -> None:
    """
    Give *device* what *store* keeps.

    Raises:
        ConfigError: a source does not fit (rule 2).
        StoreError: the store cannot be read, or a source is damaged.
    """
    _restore_policy(device, store)
    count = 0
    for source in store.sources():
        status = device.restore_source(source)
        if status:
            raise _refusal(store.path, MediaStatus(status))
        count += 1
    if count:
        _log.info("media sources restored: {count}", count=count)


def _refusal(path: Path, status: MediaStatus) -> AOTXError:
    keys = _TOO_SMALL.get(status)
    if keys is None:
        return StoreUnusable(path, f"is damaged (a source has {status.name})")
    return ConfigError(
        "runtime.json: device",
        f"{path} keeps media sources that do not fit; one of {', '.join(keys)} is too "
        "small for them",
    )


def _restore_policy(device: IDevice, store: Store) -> None:
    try:
        policy = store.policy()
    except PolicyUnusable as error:
        _log.error("the saved policy state cannot be used: {why}", why=str(error))
        device.break_policy()
        return
    if policy is not None:
        device.restore_policy(policy)
