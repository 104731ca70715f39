"""
The device's client: one packet out, one packet back, over pooled connections.

Layer 3: sees `wire` and `seqpacket`, never the broker or the device.
"""

from twisted_aotx.client.device import Caller, DeviceClient
from twisted_aotx.client.replies import InfoReply, Window
from twisted_aotx.client.turns import Turns

__all__ = ["Caller", "DeviceClient", "InfoReply", "Turns", "Window"]
