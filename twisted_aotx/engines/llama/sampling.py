"""
The sampler chain of one sequence: nothing but what the client asked for.
"""

from __future__ import annotations

from typing import Any, Final

from twisted_aotx.engines.llama.binding import Library

#: Below this, temperatures are 0: what a logit is divided by must leave it finite.
TEMPERATURE_MIN: Final = 1e-4
_U32_MAX: Final = 0xFFFFFFFF


def sampler_chain(library: Library, temperature: float, top_p: float, seed: int) -> Any:
    """
    Temperature, then top_p, then chance from *seed*; greedy at temperature 0.

    Args:
        seed: 64 bits, of which the library takes 32: the halves are mixed.

    Returns:
        A handle for `sampler_sample`; `sampler_free` frees it.
    """
    chain = library.sampler_chain_init(library.sampler_chain_default_params())
    if temperature < TEMPERATURE_MIN:
        library.sampler_chain_add(chain, library.sampler_init_greedy())
        return chain
    library.sampler_chain_add(chain, library.sampler_init_temp(temperature))
    if top_p < 1:
        # Keeps one token at least, also with top_p 0.
        library.sampler_chain_add(chain, library.sampler_init_top_p(top_p, 1))
    mixed = seed & _U32_MAX ^ seed >> 32
    # All ones mean a seed of the library's own choice.
    mixed = 0 if mixed == _U32_MAX else mixed
    library.sampler_chain_add(chain, library.sampler_init_dist(mixed))
    return chain
