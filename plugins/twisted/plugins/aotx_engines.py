"""
The engines that come with aotx. Others ship a `twisted/plugins/NAME_aotx.py` like this.

Names modules and imports none of them: an engine is loaded when it is asked for.
"""

from twisted_aotx.engines.maker import EngineMaker

reference = EngineMaker(
    "reference",
    "twisted_aotx.engines.reference",
    "A small deterministic language model in the device's own kernels; needs nothing.",
)
llama = EngineMaker(
    "llama",
    "twisted_aotx.engines.llama.maker",
    "GGUF models through llama.cpp, in a process of their own; needs the extra llama.",
    paths=("path", "format"),
)
