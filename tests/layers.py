"""
The parts of the package, layer by layer, with what each may import
(docs/architecture.md); `test_layering` holds them to it.
"""

from __future__ import annotations

import attrs

from tests.sources import PACKAGE

BASE = ("errors", "limits", "interfaces", "devices", "orders", "strictjson")

#: Modules that a sans-IO part never needs.
IO = frozenset(
    {
        "asyncio",
        "concurrent",
        "datetime",
        "multiprocessing",
        "random",
        "secrets",
        "select",
        "selectors",
        "signal",
        "socket",
        "subprocess",
        "threading",
        "time",
    }
)


@attrs.frozen
class Part:
    """
    A row of the table.
    """

    #: Parts or modules of ours.
    ours: tuple[str, ...] = ()
    #: Modules of others, or packages of them.
    others: tuple[str, ...] = ()
    #: Modules of the standard library.
    never: frozenset[str] = frozenset()
    #: What stands under `if TYPE_CHECKING` only.
    typing: tuple[str, ...] = ()


_TWISTED = ("twisted.internet", "twisted.logger", "twisted.python")

_RECORDS = ("attrs", "zope.interface")

_WIRING = Part(
    ours=("*",),
    others=(
        *("twisted", "click", "OpenSSL", "attrs", "zope.interface"),
        "prometheus_client",
    ),
)

PARTS: dict[str, Part] = {
    # 0
    "errors": Part((), ("attrs",), IO, typing=("wire.packet",)),
    "limits": Part((), ("attrs",), IO),
    "interfaces": Part(
        ("errors", "limits"), _RECORDS, IO, typing=("orders", "wire.info")
    ),
    "devices": Part(("errors", "limits"), _RECORDS, IO, typing=("orders",)),
    "orders": Part((), ("attrs",), IO),
    "strictjson": Part(("errors",), ("attrs",), IO),
    # 1
    "wire": Part((*BASE, "wire"), ("attrs",), IO | {"json", "os"}),
    # 2
    "device": Part(
        (*BASE, "wire", "device"),
        (*_RECORDS, "numpy", "numba", "llvmlite"),
        (IO | {"json"}) - {"threading", "select"},
    ),
    "seqpacket": Part(("seqpacket",), (*_TWISTED, *_RECORDS, "twisted.plugin")),
    "engines": Part(
        (*BASE, "wire", "engines"),
        (*_TWISTED, *_RECORDS, "twisted.plugin", "jinja2"),
    ),
    "statedir": Part(BASE, ("attrs",)),
    # No clock, no thread: both are its owner's.
    "journal": Part(("errors", "limits", "orders", "journal"), ("attrs",), IO),
    # 3
    "runtime": Part(
        (
            *(*BASE, "wire", "engines.registry", "device.host", "device.numbers"),
            *("journal.errors", "journal.store", "runtime"),
        ),
        (
            *(*_TWISTED, *_RECORDS, "twisted.application.service", "twisted.web"),
            *("prometheus_client", "PIL"),
        ),
    ),
    "broker": Part(
        (*BASE, "wire.packet", "wire.numbers", "wire.mailbox", "seqpacket", "broker"),
        (*_TWISTED, *_RECORDS, "twisted.application.service"),
    ),
    "watch": Part((*BASE, "wire.watch", "seqpacket", "watch"), (*_TWISTED, *_RECORDS)),
    "client": Part((*BASE, "wire", "seqpacket", "client"), (*_TWISTED, *_RECORDS)),
    # 4
    "gateway": Part(
        (*BASE, "wire", "client", "seqpacket.deadlines", "gateway"),
        (
            *(*_TWISTED, *_RECORDS, "twisted.web", "twisted.application.service"),
            "prometheus_client",
        ),
        frozenset({"struct"}),
    ),
    # 5
    "places": Part((), ("attrs",)),
    "config": Part((*BASE, "wire", "gateway.settings", "places", "config"), ("attrs",)),
    "grants_state": Part((*BASE, "config"), ("attrs",)),
    "parts": Part(("errors",), ("twisted.internet",)),
    "reloads": Part(("parts",), _TWISTED),
    "tap": _WIRING,
    "tap_aotx": _WIRING,
    "tap_gateway": _WIRING,
    "tap_runtime": _WIRING,
    "wiring_gateway": _WIRING,
    "wiring_runtime": _WIRING,
    "tls": _WIRING,
    "listening": _WIRING,
    "logs": _WIRING,
    "cli": _WIRING,
    "cli_failures": _WIRING,
    "cli_grants": _WIRING,
    "cli_model": _WIRING,
    "cli_usage": _WIRING,
    "models": Part(
        (
            *(*BASE, "config.initial", "engines.digest", "engines.model_file"),
            *("engines.llama.chat_template", "engines.llama.template_run", "models"),
        ),
        ("attrs",),
    ),
    # Doubles for tests; shipped, but imported by nothing that is not a test.
    "testing": Part(
        (
            *BASE,
            "wire",
            "device.host",
            "device.numbers",
            "seqpacket",
            "client",
            "broker",
            "runtime",
            "testing",
        ),
        (*_TWISTED, *_RECORDS, "pytest"),
    ),
}

#: (file, module): imported inside a function. Each costs seconds or needs an extra.
LATE = {
    ("device/gpu.py", "twisted_aotx.device.gpu_words"),
    ("device/gpu_words.py", "numba.cuda.extending"),
    ("device/launch.py", "twisted_aotx.device"),
    # Needs pyOpenSSL, which only imports and TLS of one's own do.
    ("gateway/imports_fetch.py", "twisted_aotx.gateway.imports_tls"),
    # Comes with the extra llama.
    ("engines/llama/chat_template.py", "jinja2"),
    ("engines/llama/chat_template.py", "jinja2.ext"),
    ("engines/llama/chat_template.py", "jinja2.sandbox"),
    # Whoever imports a maker need not have a reactor yet.
    ("engines/llama/maker.py", "twisted.internet"),
    # A reactor is installed by importing it: only once a service is made.
    ("tap_aotx.py", "twisted.internet"),
    ("tap_gateway.py", "twisted.internet"),
    ("tap_runtime.py", "twisted.internet"),
    ("listening.py", "twisted_aotx.tls"),
    ("wiring_gateway.py", "twisted_aotx.gateway.imports_tls"),
    ("wiring_gateway.py", "twisted_aotx.tls"),
    ("wiring_runtime.py", "twisted_aotx.device.cache"),
    ("wiring_runtime.py", "twisted_aotx.device.host"),
}

#: Files without a reactor, a socket, a thread or a clock, beside the parts above.
SANS_IO = (
    "broker/channel.py",
    "gateway/forms.py",
    "gateway/imports_addresses.py",
    "gateway/imports_urls.py",
    "gateway/messages.py",
    "gateway/text.py",
)

#: Files that only the process which decodes images imports.
DECODER_CHILD = {PACKAGE / "runtime/decoder_child.py", PACKAGE / "runtime/jpeg.py"}
