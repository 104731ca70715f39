"""
`EngineMaker`: the drop-in that names an engine's module and loads it when asked.

Every start of twistd imports the drop-ins, so this file imports next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
from twisted.plugin import IPlugin
from twisted.python.reflect import namedModule
from zope.interface import implementer

from twisted_aotx.interfaces import IEngineMaker

if TYPE_CHECKING:
    from twisted_aotx.interfaces import IEngine


@implementer(IPlugin, IEngineMaker)
@attrs.frozen
class EngineMaker:
    """
    Makes the engines of a module that has a function `make`, with the arguments and
    errors of `IEngineMaker.make`.
    """

    #: What `engine` in runtime.json says.
    name: str
    #: Full name of the module, imported at the first `make`.
    module: str
    #: One line for people.
    help: str
    #: See `IEngineMaker.paths`.
    paths: tuple[str, ...] = ()

    def make(
        self, role: int, options: Mapping[str, Any], slots: int, sequence_tokens: int
    ) -> IEngine:
        """See `IEngineMaker.make`."""
        engine: IEngine = namedModule(self.module).make(
            role, options, slots, sequence_tokens
        )
        return engine
