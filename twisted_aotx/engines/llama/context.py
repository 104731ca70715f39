"""
The memory of a model's sequences: what llama.cpp calls a context.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.engines.llama.binding import Library
from twisted_aotx.engines.llama.model import Model, ModelError


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
    params = library.context_default_params()
    # In all; each sequence has its own part, so none can take another's room.
    params.n_ctx = capacity * context
    params.n_seq_max = capacity
    params.n_batch = params.n_ubatch = rows
    params.n_threads = params.n_threads_batch = threads
    handle = library.init_from_model(model.handle, params)
    if not handle:
        reason = library.complaint or "no reason given"
        raise ModelError(f"llama.cpp cannot make a context: {reason}")
    asked = (capacity, rows, rows, threads)
    found = (
        library.n_seq_max(handle),
        library.n_batch(handle),
        library.n_ubatch(handle),
        library.n_threads(handle),
    )
    if found != asked or library.n_ctx_seq(handle) < context:
        library.free(handle)
        raise ModelError(f"llama.cpp made a context of {found}, not of {asked}")
    return handle
