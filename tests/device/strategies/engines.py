"""
Clock steps, and what engines report.
"""

from __future__ import annotations

import attrs
from hypothesis import strategies as st


@attrs.frozen
class Step:
    """A clock step: so many ns, or so many beyond a time at which something is due."""

    ns: int
    #: `deadline`: of a request. `token`: the next one of a kernel engine's lease.
    #: `receipt`: of an upload or a refusal.
    due: str = ""


steps: st.SearchStrategy[Step] = st.one_of(
    *[st.builds(Step, st.sampled_from((0, 1, 1, 1, 1000, 10**9)))] * 3,
    st.builds(
        Step,
        st.sampled_from((0, 0, 1, 1, -1)),
        st.sampled_from(("deadline", "token", "token", "receipt", "receipt")),
    ),
)


@attrs.frozen
class Report:
    """What an engine says about one lease."""

    kind: int
    #: Named values are resolved against the lease's limit and the capacities.
    value: int | str
    size: int | str = 0
    #: Added to the generation; events of other generations are to be dropped.
    generation_off: int = 0


_token_values = st.sampled_from((0, 1, 1, 1, 1, 2, "limit", "over"))
_sizes = st.sampled_from(
    (0, 1, 1, 5, 5, 100, 1000, 4095, 4096, 4097, 5000, "room", "over")
)
_stale = st.sampled_from((0,) * 15 + (-1, 2**40))

openings: st.SearchStrategy[Report] = st.builds(
    Report,
    st.just(1),
    st.sampled_from((1, 5, 0, "fits", "over", "pages", "pages over", 2**31)),
    generation_off=_stale,
)

reports: st.SearchStrategy[Report] = st.one_of(
    openings,
    st.builds(Report, st.just(2), st.sampled_from((400, 413, 599, 0, 399, 600, 503))),
    *[st.builds(Report, st.just(3), _token_values, _sizes, _stale)] * 4,
    st.builds(
        Report, st.just(4), st.sampled_from((1, 1, 2, 2, 0, 3)), st.just(0), _stale
    ),
    st.builds(Report, st.just(5), st.sampled_from((500, 400, 599, 0, 399, 600, 200))),
)

#: Sequences of an engine that does everything right.
emissions = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from((0, 1, 3, 700, 4096))).filter(
        lambda pair: pair != (0, 0)
    ),
    max_size=4,
)
