"""
Tells twisted-aotx that there is an engine called `backwards`.

Every start of twistd imports this file, so it names the engine's module and imports
nothing of it.
"""

from twisted_aotx.engines.maker import EngineMaker

backwards = EngineMaker(
    "backwards",
    "aotx_example_engine",
    "Says the last message of the user, backwards.",
)
