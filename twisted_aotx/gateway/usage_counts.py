"""
What labelled principals used through this gateway, for Prometheus (D11).

The labels are the operator's (`metrics.labels`); a principal without one is told of
nowhere, and without any label there is no such series. Requests, tokens and ends are
what this gateway saw; the exact account of everything is the ledger (`aotx usage`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter

if TYPE_CHECKING:
    from twisted_aotx.wire.packet import ReplyHeader

_LABELS = ("principal", "model")


class UsageCounts:
    """
    Counters by label and alias, in *registry*.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"aotx_usage_{name}", text, _LABELS, registry=registry)

        self._admissions = counter("admissions", "Requests that the device took.")
        self._requests = counter(
            "requests", "Requests whose end this gateway saw; tokens are theirs."
        )
        self._prompt = counter("prompt_tokens", "Tokens of their prompts.")
        self._completion = counter("completion_tokens", "Tokens that were sampled.")

    def admitted(self, label: str, model: str) -> None:
        """The device took a request of the principal with *label*; empty for none."""
        if label:
            self._admissions.labels(label, model).inc()

    def ended(self, label: str, model: str, reply: ReplyHeader) -> None:
        """The end of that request was seen in *reply*."""
        if label:
            self._requests.labels(label, model).inc()
            self._prompt.labels(label, model).inc(reply.prompt_tokens)
            self._completion.labels(label, model).inc(reply.sampled_tokens)
