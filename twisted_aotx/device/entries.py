"""
What the host calls: kernel functions over regions given as arrays of length 1.

Handing numba a record costs ten times as much as an array of one (docs/kernels.md), so
each function that Python calls has its entry here. `WARM_UP` lists them all with
argument prototypes, so that nothing compiles after the start.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from twisted_aotx.device import (
    configure as _configure,
)
from twisted_aotx.device import (
    controls,
    engine_mail,
    ledger,
    mailbox,
    media_mail,
    media_restore,
    policy,
    progress,
    roles,
    stats,
    store_mail,
)
from twisted_aotx.device.backend import dev
from twisted_aotx.device.reference import ref_load_corpus


@dev
def mailbox_state(h: Any, channel: Any) -> Any:
    """See `mailbox.mailbox_state`."""
    return mailbox.mailbox_state(h[0], channel)


@dev
def publish(h: Any, channel: Any, packet: Any, size: Any, length: Any) -> Any:
    """See `mailbox.publish`."""
    return mailbox.publish(h[0], channel, packet, size, length)


@dev
def next_reply(h: Any) -> Any:
    """See `mailbox.next_reply`."""
    return mailbox.next_reply(h[0])


@dev
def copy_reply(h: Any, channel: Any, out: Any) -> Any:
    """See `mailbox.copy_reply`."""
    return mailbox.copy_reply(h[0], channel, out)


@dev
def release(h: Any, channel: Any) -> Any:
    """See `mailbox.release`."""
    return mailbox.release(h[0], channel)


@dev
def next_order(h: Any, out: Any) -> Any:
    """See `engine_mail.next_order`."""
    return engine_mail.next_order(h[0], out)


@dev
def copy_order(
    h: Any,
    slot: Any,
    numbers: Any,
    rendered: Any,
    spans: Any,
    payload: Any,
    sources: Any,
    digests: Any,
) -> Any:
    """See `engine_mail.copy_order`."""
    return engine_mail.copy_order(
        h[0], slot, numbers, rendered, spans, payload, sources, digests
    )


@dev
def post_event(
    h: Any, slot: Any, generation: Any, kind: Any, value: Any, data: Any, size: Any
) -> Any:
    """See `engine_mail.post_event`."""
    return engine_mail.post_event(h[0], slot, generation, kind, value, data, size)


@dev
def take_job(h: Any, out: Any) -> Any:
    """See `media_mail.take_job`."""
    return media_mail.take_job(h[0], out)


@dev
def finish_job(h: Any, worker: Any, decoded: Any) -> None:
    """See `media_mail.finish_job`."""
    media_mail.finish_job(h[0], worker, decoded)


@dev
def read_guard(h: Any, index: Any) -> Any:
    """See `media_mail.read_guard`."""
    return media_mail.read_guard(h[0], index)


@dev
def restore_source(
    h: Any, d: Any, pool: Any, ids: Any, format_: Any, digest: Any, data: Any
) -> None:
    """See `media_restore.restore_source`."""
    media_restore.restore_source(h[0], d[0], pool, ids, format_, digest, data)


@dev
def read_restored(h: Any) -> Any:
    """See `media_mail.read_restored`."""
    return media_mail.read_restored(h[0])


@dev
def take_record(h: Any, out: Any, rows: Any) -> Any:
    """See `store_mail.take_record`."""
    return store_mail.take_record(h[0], out, rows)


@dev
def finish_record(h: Any, saved: Any) -> None:
    """See `store_mail.finish_record`."""
    store_mail.finish_record(h[0], saved)


@dev
def take_notices(h: Any, out: Any) -> Any:
    """See `progress.take_notices`."""
    return progress.take_notices(h[0], out)


@dev
def notices_lost(h: Any) -> Any:
    """See `progress.notices_lost`."""
    return progress.notices_lost(h[0])


@dev
def set_role_state(h: Any, role: Any, active: Any) -> None:
    """See `roles.set_role_state`."""
    roles.set_role_state(h[0], role, active)


@dev
def set_control_state(h: Any, row: Any, available: Any) -> None:
    """See `controls.set_control_state`."""
    controls.set_control_state(h[0], row, available)


@dev
def set_word(h: Any, index: Any, value: Any) -> None:
    """See `configure.set_word`."""
    _configure.set_word(h[0], index, value)


@dev
def close_region(h: Any) -> None:
    """See `configure.close_region`."""
    _configure.close_region(h[0])


@dev
def read_stats(h: Any, out: Any) -> None:
    """See `stats.read_stats`."""
    stats.read_stats(h[0], out)


@dev
def configure(h: Any, d: Any, numbers: Any, secrets: Any) -> None:
    """See `configure.configure`."""
    _configure.configure(h[0], d[0], numbers, secrets)


@dev
def configure_role(
    d: Any, role: Any, numbers: Any, digest: Any, spans: Any, span_bytes: Any
) -> None:
    """See `roles.configure_role`."""
    roles.configure_role(d[0], role, numbers, digest, spans, span_bytes)


@dev
def configure_control(d: Any, row: Any) -> None:
    """See `controls.configure_control`."""
    controls.configure_control(d[0], row)


@dev
def restore_control(d: Any, numbers: Any) -> None:
    """See `policy.restore_control`."""
    policy.restore_control(d[0], numbers)


@dev
def restore_ledger(d: Any, rows: Any) -> None:
    """See `ledger.restore_ledger`."""
    ledger.restore_ledger(d[0], rows)


@dev
def break_policy(d: Any) -> None:
    """See `policy.break_policy`."""
    policy.break_policy(d[0])


@dev
def load_reference(
    d: Any, role: Any, corpus: Any, size: Any, rate: Any, fixed: Any, fixed_size: Any
) -> Any:
    """See `reference.ref_load_corpus`."""
    return ref_load_corpus(d[0], role, corpus, size, rate, fixed, fixed_size)


def read_only(array: Any) -> Any:
    """*array* as numba sees bytes that Python owns; read-only is a type of its own."""
    array.flags.writeable = False
    return array


_BYTES = np.zeros(1, np.uint8)
_FROZEN = read_only(np.zeros(1, np.uint8))
_NUMBERS = np.zeros(4, np.int64)

#: (entry, arguments after the regions): all that Python calls on a live device.
WARM_UP: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (mailbox_state, (0,)),
    (publish, (0, _FROZEN, 0, 0)),
    (next_reply, ()),
    (copy_reply, (0, _BYTES)),
    (release, (0,)),
    (next_order, (_NUMBERS,)),
    (
        copy_order,
        (
            0,
            np.zeros(15, np.uint64),
            _BYTES,
            np.zeros((1, 2), np.int64),
            _BYTES,
            np.zeros((1, 8), np.int64),
            np.zeros((1, 32), np.uint8),
        ),
    ),
    (post_event, (0, 0, 0, 0, _FROZEN, 0)),
    (take_job, (_NUMBERS,)),
    (finish_job, (0, 0)),
    (read_guard, (0,)),
    (take_record, (np.zeros(1, np.uint64), np.zeros((1, 1), np.uint64))),
    (finish_record, (0,)),
    (take_notices, (np.zeros((1, 1), np.uint64),)),
    (notices_lost, ()),
    (set_role_state, (0, 0)),
    (set_control_state, (0, 0)),
    (set_word, (0, 0)),
    (close_region, ()),
    (read_stats, (_NUMBERS,)),
)


def compile_entries(region: Any) -> None:
    """Compile all of them for numba type *region* of region H."""
    for entry, arguments in WARM_UP:
        entry.compile((region, *map(numba.typeof, arguments)))
