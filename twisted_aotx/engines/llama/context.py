"""
The memory of a model's sequences: what llama.cpp calls a context.
"""

from __future__ import annotations

from typing import Any, Final

from twisted_aotx.engines.llama.binding import Library
from twisted_aotx.engines.llama.model import Model, ModelError

#: Tokens of all sequences; the library counts them in 32 bits.
_TOKENS_MAX: Final = 2**32 - 1


def make_context(
    library: Library,
    model: Model,
    capacity: int,
    context: int,
    threads: int,
    rows: int,
) -> Any:
    """
    A context for *capacity* sequences of *context* tokens each.

    Args:
        rows: The most rows of one decode call.

    Returns:
        A handle; `free` frees it.

    Raises:
        ModelError: there is no memory for it, or it has other sizes.
    """
    if capacity * context > _TOKENS_MAX:
        raise ModelError(f"llama.cpp cannot hold {capacity * context:,} tokens")
    params = library.context_default_params()
    # In all; each sequence has its own part, so none can take another's room.
    params.n_ctx = capacity * context
    params.n_seq_max = capacity
    params.n_batch = params.n_ubatch = rows
    params.n_threads = params.n_threads_batch = threads
    library.complaints.clear()
    handle = library.init_from_model(model.handle, params)
    if not handle:
        reason = library.complaint or "no reason given"
        raise ModelError(f"llama.cpp cannot make a context: {reason}")
    asked = (capacity, rows, rows, threads, True)
    found = (
        library.n_seq_max(handle),
        library.n_batch(handle),
        library.n_ubatch(handle),
        library.n_threads(handle),
        library.n_ctx_seq(handle) >= context,
    )
    if found != asked:
        library.free(handle)
        raise ModelError(f"llama.cpp made a context of {found}, not of {asked}")
    return handle
