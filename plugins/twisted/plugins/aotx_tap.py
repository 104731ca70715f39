"""
`twistd aotx`, `twistd aotx-runtime` and `twistd aotx-gateway`.

Every start of twistd imports this file: it names its modules and imports none of them.
"""

from twisted.application.service import ServiceMaker

aotx = ServiceMaker(
    "aotx",
    "twisted_aotx.tap_aotx",
    "Language models over HTTP: runtime and gateway in one process.",
    "aotx",
)
aotx_runtime = ServiceMaker(
    "aotx runtime",
    "twisted_aotx.tap_runtime",
    "The runtime of aotx: device, engines and the packet socket.",
    "aotx-runtime",
)
aotx_gateway = ServiceMaker(
    "aotx gateway",
    "twisted_aotx.tap_gateway",
    "An HTTP gateway of aotx, beside a runtime.",
    "aotx-gateway",
)
