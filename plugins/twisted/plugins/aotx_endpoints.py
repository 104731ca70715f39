"""
Endpoint strings `seqpacket:/path`, for clients and servers.

What the strings may hold is told by `twisted_aotx.seqpacket`, imported at first use.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import (
    IStreamClientEndpoint,
    IStreamClientEndpointStringParserWithReactor,
    IStreamServerEndpoint,
    IStreamServerEndpointStringParser,
)
from twisted.plugin import IPlugin
from twisted.python.reflect import namedAny
from zope.interface import implementer


@implementer(IPlugin, IStreamServerEndpointStringParser)
class _ServerParser:
    prefix = "seqpacket"

    def parseStreamServer(
        self, reactor: Any, *args: Any, **kwargs: Any
    ) -> IStreamServerEndpoint:
        parser: IStreamServerEndpointStringParser = namedAny(
            "twisted_aotx.seqpacket.SeqPacketServerParser"
        )()
        return parser.parseStreamServer(reactor, *args, **kwargs)


@implementer(IPlugin, IStreamClientEndpointStringParserWithReactor)
class _ClientParser:
    prefix = "seqpacket"

    def parseStreamClient(
        self, reactor: Any, *args: Any, **kwargs: Any
    ) -> IStreamClientEndpoint:
        parser: IStreamClientEndpointStringParserWithReactor = namedAny(
            "twisted_aotx.seqpacket.SeqPacketClientParser"
        )()
        return parser.parseStreamClient(reactor, *args, **kwargs)


server = _ServerParser()
client = _ClientParser()
