"""
`aotx usage`: what each principal used of each model, from the state store [D11].

Parse, call, print, like `cli`, with its exit codes. The store is only read, also while
a runtime writes it.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

import click

from twisted_aotx.cli_failures import fail
from twisted_aotx.config.gateway import load_gateway
from twisted_aotx.config.runtime import load_runtime
from twisted_aotx.errors import ConfigErrors
from twisted_aotx.journal.database import FILE_NAME
from twisted_aotx.journal.errors import StoreError
from twisted_aotx.journal.usage import Usage, UsageReport, read_usage
from twisted_aotx.places import Place

_DIRECTORY: Final = click.Path(path_type=Path)
_DATES: Final = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")
_HEADS: Final = (
    *("principal", "model", "requests", "prompt tokens", "completion tokens"),
    "last seen (UTC)",
)
_NUMBERS: Final = _HEADS[2:5]
#: What found no row of its own.
_OTHERS: Final = "others"
#: Hex digits of a model without a name.
_DIGITS: Final = 12
_PENDING: Final = re.compile(r"^aotx_device_usage_pending (\S+)$", re.MULTILINE)
_SCRAPE_SECONDS: Final = 2.0
_SCRAPE_BYTES_MAX: Final = 1 << 20


@click.command()
@click.option(
    "--state", metavar="DIR", type=_DIRECTORY, required=True, help="A state directory."
)
@click.option(
    "--since",
    metavar="DATE",
    type=click.DateTime(_DATES),
    help="Only what was written to the ledger at this time or later, in UTC: "
    "2026-11-30 or 2026-11-30T12:00.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def usage(state: Path, since: datetime | None, as_json: bool) -> None:
    """Print the usage of every principal and model."""
    path = state / FILE_NAME
    if not path.exists():
        fail(f"{path}: there is no state store; a runtime makes it at its first start")
    start = None if since is None else int(since.replace(tzinfo=UTC).timestamp())
    try:
        report = read_usage(path, start)
    except StoreError as error:
        fail(str(error))
    names = _names(state, report)
    pending = _pending(state)
    if as_json:
        click.echo(json.dumps(_object(report, names, start, pending), indent=2))
        return
    for line in (
        *_table(report.rows, names),
        "",
        *_remarks(report, start),
        _waiting(pending),
        *_switch(state, report),
    ):
        click.echo(line)


def _names(state: Path, report: UsageReport) -> dict[bytes, str]:
    """The first alias of each model that a role of gateway.json has now."""
    try:
        aliases = load_gateway(state / "gateway.json").settings.models
    except ConfigErrors:
        return {}
    names: dict[bytes, str] = {}
    for alias in aliases:
        model = report.models.get(alias.role)
        if model is not None:
            names.setdefault(model, alias.alias)
    return names


def _pending(state: Path) -> int | None:
    """The usage records that wait for review, if the runtime tells its metrics."""
    try:
        place = load_runtime(state / "runtime.json", state).metrics
    except ConfigErrors:
        return None
    if place is None or place.kind not in ("tcp", "tcp6", "unix"):
        return None
    connection = _Scrape(place)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read(_SCRAPE_BYTES_MAX).decode()
    except (OSError, HTTPException, UnicodeDecodeError):
        return None
    finally:
        connection.close()
    found = _PENDING.search(text)
    return None if found is None else int(float(found[1]))


class _Scrape(HTTPConnection):
    """
    A connection to the endpoint that runtime.json names.
    """

    def __init__(self, place: Place) -> None:
        super().__init__("localhost", timeout=_SCRAPE_SECONDS)
        self._place = place

    def connect(self) -> None:
        """Where the runtime listens: on this machine only."""
        if self._place.kind == "unix":
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(_SCRAPE_SECONDS)
            self.sock.connect(self._place.where)
        else:
            where = (self._place.options["interface"], int(self._place.where))
            self.sock = socket.create_connection(where, _SCRAPE_SECONDS)


def _table(rows: Sequence[Usage], names: Mapping[bytes, str]) -> Iterator[str]:
    """Columns as wide as they need to be; numbers to the right."""
    lines = [_HEADS, *(_cells(row, names) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.rjust(width) if head in _NUMBERS else cell.ljust(width)
            for cell, width, head in zip(line, widths, _HEADS, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def _cells(row: Usage, names: Mapping[bytes, str]) -> tuple[str, ...]:
    return (
        row.principal.hex() if any(row.principal) else _OTHERS,
        names.get(row.model_sha256) or _model(row.model_sha256),
        *(str(row.requests), str(row.prompt_tokens), str(row.sampled_tokens)),
        _time(row.last_seen),
    )


def _model(sha256: bytes) -> str:
    return sha256.hex()[:_DIGITS] if any(sha256) else _OTHERS


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def _remarks(report: UsageReport, since: int | None) -> Iterator[str]:
    if not report.rows:
        yield "Nothing is in the ledger" + (
            " yet." if since is None else " since then."
        )
    kept = report.kept_since
    if since is not None and kept is not None and since < kept:
        yield f"Of what was written before {_time(kept)}, only totals may be left."


def _waiting(pending: int | None) -> str:
    if pending is None:
        return (
            "Requests that wait for review are not in it; GET /aotx/v1/policy says how "
            "many (pending)."
        )
    return f"Requests that wait for review and are not in it: {pending}."


def _switch(state: Path, report: UsageReport) -> Iterator[str]:
    """How review is switched on; it fills the ledger while nothing else is to do."""
    if report.review:
        return
    try:
        epoch = (state / "epoch").read_text().strip()
    except (OSError, UnicodeDecodeError):
        epoch = "EPOCH"
    action = f'"action": "review_on", "epoch": {epoch}'
    revision = f'"control_revision": {report.control_revision}'
    yield "Review is off: the ledger is written when much waits, and at the end."
    yield f"Switch it on with POST /aotx/v1/policy {{{action}, {revision}}}"


def _object(
    report: UsageReport,
    names: Mapping[bytes, str],
    since: int | None,
    pending: int | None,
) -> dict[str, Any]:
    """Counts are decimal strings, as everywhere in our JSON; times are Unix seconds."""
    return {
        "schema": "aotx.usage.v1",
        "since": since,
        "kept_since": report.kept_since,
        "review_enabled": report.review,
        "source_frontier": str(report.frontier),
        "pending": None if pending is None else str(pending),
        "data": [
            {
                "principal": row.principal.hex(),
                "model_sha256": row.model_sha256.hex(),
                "model": names.get(row.model_sha256),
                "requests": str(row.requests),
                "prompt_tokens": str(row.prompt_tokens),
                "completion_tokens": str(row.sampled_tokens),
                "last_seen": row.last_seen,
            }
            for row in report.rows
        ],
    }
