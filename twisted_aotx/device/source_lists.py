"""
The lists that descriptors of media sources are in (`sources`, rule 1), and the turns of
the hash stage.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64
from twisted_aotx.limits import Capacities

M_FREE = 0
M_RECEIVING = 1
M_WAITING_IMAGE = 2
M_WAITING_AUDIO = 3
#: In work by a check of the kernels.
M_CHECKING = 4
M_REFUSED = 5
#: Everything else: hashing, in a worker on the host, being saved, ready.
M_OTHER = 6
M_LISTS = 7


def list_fields(capacities: Capacities) -> list[Any]:
    """The links, heads and tails."""
    sources = (max(1, capacities.media_objects),)
    columns = "m_list m_prev m_next m_hashes t_prev t_next"
    return [
        *((name, "<i8", sources) for name in columns.split()),
        ("m_head", "<i8", (M_LISTS,)),
        ("m_tail", "<i8", (M_LISTS,)),
        ("t_head", "<i8"),
        ("t_tail", "<i8"),
    ]


@dev
def reset_lists(D: Any) -> None:
    """Every descriptor is in `M_FREE`, in table order. Start only."""
    D.t_head = -1
    D.t_tail = -1
    for which in range(M_LISTS):
        D.m_head[which] = -1
        D.m_tail[which] = -1
    for index in range(D.media_objects):
        _link(D, index, i64(M_FREE), i64(D.m_tail[M_FREE]))


@dev
def _link(D: Any, index: Any, which: Any, before: Any) -> None:
    """Put *index* into list *which* behind *before* (-1: at its head)."""
    after = i64(D.m_head[which])
    if before < 0:
        D.m_head[which] = index
    else:
        after = i64(D.m_next[before])
        D.m_next[before] = index
    if after < 0:
        D.m_tail[which] = index
    else:
        D.m_prev[after] = index
    D.m_prev[index] = before
    D.m_next[index] = after
    D.m_list[index] = which


@dev
def _unlink(D: Any, index: Any) -> None:
    which = i64(D.m_list[index])
    before = i64(D.m_prev[index])
    after = i64(D.m_next[index])
    if before < 0:
        D.m_head[which] = after
    else:
        D.m_next[before] = after
    if after < 0:
        D.m_tail[which] = before
    else:
        D.m_prev[after] = before


@dev
def move(D: Any, index: Any, which: Any) -> None:
    """Put *index* at the end of list *which*."""
    _unlink(D, index)
    _link(D, index, which, i64(D.m_tail[which]))


@dev
def move_first(D: Any, index: Any, which: Any) -> None:
    """Put *index* at the head of list *which*."""
    _unlink(D, index)
    _link(D, index, which, i64(-1))


@dev
def move_by_generation(D: Any, index: Any, which: Any) -> None:
    """Put *index* into list *which*, whose oldest generation is first."""
    _unlink(D, index)
    before = i64(D.m_tail[which])
    while before >= 0 and D.m_generation[before] > D.m_generation[index]:
        before = i64(D.m_prev[before])
    _link(D, index, which, before)


@dev
def join_turns(D: Any, index: Any) -> None:
    """The source has bytes to hash."""
    if D.m_hashes[index] == 1:
        return
    D.m_hashes[index] = 1
    D.t_prev[index] = D.t_tail
    D.t_next[index] = -1
    if D.t_tail < 0:
        D.t_head = index
    else:
        D.t_next[D.t_tail] = index
    D.t_tail = index


@dev
def leave_turns(D: Any, index: Any) -> None:
    """The source has nothing to hash for now."""
    if D.m_hashes[index] == 0:
        return
    D.m_hashes[index] = 0
    before = i64(D.t_prev[index])
    after = i64(D.t_next[index])
    if before < 0:
        D.t_head = after
    else:
        D.t_next[before] = after
    if after < 0:
        D.t_tail = before
    else:
        D.t_prev[after] = before
