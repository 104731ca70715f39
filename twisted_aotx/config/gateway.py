"""
`gateway.json` → `GatewaySettings` (`http.md` §9; key by key in docs/config.md).

Files of the reference gateway load unchanged [D24]; our own keys live in `completions`,
`http` and `metrics`. Unknown keys are refused at every level, and every fault is told.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from twisted_aotx.config.files import read_object
from twisted_aotx.config.principals import read_principals
from twisted_aotx.config.runtime import ROLES
from twisted_aotx.config.section import Faults, Section, kind_of
from twisted_aotx.config.urls import read_urls
from twisted_aotx.gateway.settings import (
    GatewaySettings,
    Limits,
    ModelAlias,
)
from twisted_aotx.limits import SOCKET_PATH_BYTES_MAX

#: Hosts that need no certificate (`http.md` §1).
LOOPBACK_HOSTS: Final = ("127.0.0.1", "::1", "localhost")
MODELS_MAX: Final = 32
HOST_CHARACTERS_MAX: Final = 253
EVENT_BYTES_MIN: Final = 1024
PORT_MAX: Final = 65535
INT_MAX: Final = 2**31 - 1
REVISION_MAX: Final = 2**64 - 1
PUBLISHED_AT_MAX: Final = 2**53 - 1

_KEYS = (
    "socket",
    "revision",
    "models",
    "principals",
    "host",
    "port",
    "certificate",
    "key",
    "origins",
    "limits",
    "urls",
    "completions",
    "http",
    "metrics",
)
_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
_DECIMAL = re.compile(r"[1-9][0-9]{0,19}")
_ORIGIN = re.compile(r"https?://[!-~]+")
_LABEL = re.compile(r"[a-z0-9_-]{1,32}")


@attrs.frozen(kw_only=True)
class GatewayFile:
    """
    One gateway file: what it sets, and what its operator should be told at start.
    """

    settings: GatewaySettings
    notices: tuple[str, ...] = ()


def load_gateway(path: Path) -> GatewayFile:
    """
    Read and check *path*. Paths in the settings are absolute.

    Raises:
        ConfigErrors: every fault of the file.
    """
    return parse_gateway(read_object(path), path.absolute().parent)


def parse_gateway(value: dict[str, Any], folder: Path) -> GatewayFile:
    """
    Check the object of a gateway file that lies in *folder*.

    Raises:
        ConfigErrors: every fault.
    """
    faults = Faults()
    top = Section(faults, "", value)
    top.only(_KEYS)
    models = _models(top)
    aliases = tuple(model.alias for model in models)
    principals = read_principals(top, aliases)
    http = top.section("http", ("idle_seconds", "ping_seconds", "access_log"))
    settings = GatewaySettings(
        socket=_socket(top, folder),
        revision=_revision(top),
        models=models,
        principals=principals,
        host=_host(top),
        port=top.integer("port", low=1, high=PORT_MAX, default=8081),
        certificate=top.file("certificate", folder),
        key=top.file("key", folder),
        origins=_origins(top),
        limits=_limits(top),
        urls=read_urls(top, folder),
        disconnect=_disconnect(top),
        idle_seconds=http.integer("idle_seconds", low=1, high=INT_MAX, default=75),
        ping_seconds=http.integer("ping_seconds", low=0, high=INT_MAX, default=15),
        access_log=http.file("access_log", folder),
        metric_labels=_labels(top, [principal.id for principal in principals]),
    )
    _check_tls(top, settings)
    faults.raise_if_any()
    return GatewayFile(settings=settings, notices=faults.notices)


def _socket(top: Section, folder: Path) -> str:
    text = top.text("socket")
    size = len(text.encode())
    if top.has("socket") and not (
        1 <= size <= SOCKET_PATH_BYTES_MAX and "\0" not in text
    ):
        top.fail("socket", f"must be 1 .. {SOCKET_PATH_BYTES_MAX} bytes without NUL")
    path = folder / text
    size = len(bytes(path))
    if size > SOCKET_PATH_BYTES_MAX >= len(text.encode()):
        reason = f"{path} has {size} bytes, more than {SOCKET_PATH_BYTES_MAX}"
        top.fail("socket", reason + "; a Unix socket needs a shorter path")
    return str(path)


def _revision(top: Section) -> int:
    text = top.text("revision")
    if _DECIMAL.fullmatch(text) and int(text) <= REVISION_MAX:
        return int(text)
    if isinstance(top.value.get("revision"), str):
        top.fail(
            "revision", 'must be a decimal string "1" .. "2^64 - 1", no leading zero'
        )
    return 1


def _models(top: Section) -> tuple[ModelAlias, ...]:
    if "models" not in top.value:
        top.fail("models", "is required")
    models: list[ModelAlias] = []
    parts = list(top.sections("models"))
    if isinstance(top.value.get("models"), dict) and not 1 <= len(parts) <= MODELS_MAX:
        top.fail("models", f"must name 1 .. {MODELS_MAX} aliases, not {len(parts)}")
    for alias, part in parts:
        if not _ALIAS.fullmatch(alias):
            part.faults.note(part.path, f"is no alias: {_ALIAS.pattern}")
        part.only(("role", "published_at"))
        role = part.choice("role", ROLES)
        published_at = part.integer("published_at", low=0, high=PUBLISHED_AT_MAX)
        models.append(
            ModelAlias(alias=alias, role=ROLES[role], published_at=published_at)
        )
    return tuple(models)


def _host(top: Section) -> str:
    host = top.text("host", default="127.0.0.1")
    if isinstance(top.value.get("host", host), str):
        if not 1 <= len(host) <= HOST_CHARACTERS_MAX:
            top.fail("host", f"must be 1 .. {HOST_CHARACTERS_MAX} characters")
        elif not host.isprintable() or " " in host:
            top.fail("host", "must not hold spaces or control characters")
    return host


def _check_tls(top: Section, settings: GatewaySettings) -> None:
    for key, other in (("certificate", "key"), ("key", "certificate")):
        if top.value.get(key) is None and top.value.get(other) is not None:
            top.fail(key, f"is required, because {other} is given")
    if settings.host not in LOOPBACK_HOSTS and not settings.certificate:
        reason = "is not " + ", ".join(LOOPBACK_HOSTS)
        top.fail("host", reason + ": it needs certificate and key")


def _origins(top: Section) -> tuple[str, ...]:
    origins: list[str] = []
    for path, item in top.items("origins", required=False):
        if not isinstance(item, str):
            top.faults.note(path, f"must be a string, not {kind_of(item)}")
        elif not _ORIGIN.fullmatch(item) or set(item.partition("://")[2]) & set(
            "/?#\\"
        ):
            top.faults.note(path, "must be http(s)://HOST[:PORT], no path, no space")
        else:
            origins.append(item)
    return tuple(origins)


def _limits(top: Section) -> Limits:
    fields = attrs.fields(Limits)
    part = top.section("limits", [field.name for field in fields])
    lows = {"event_bytes": EVENT_BYTES_MIN}
    values = {
        field.name: part.integer(
            field.name, low=lows.get(field.name, 1), high=INT_MAX, default=field.default
        )
        for field in fields
    }
    return Limits(**values)


def _disconnect(top: Section) -> Literal["detach", "cancel"]:
    part = top.section("completions", ("disconnect",))
    choice = part.choice("disconnect", ("detach", "cancel"), default="detach")
    return "cancel" if choice == "cancel" else "detach"


def _labels(top: Section, principals: list[bytes]) -> dict[bytes, str]:
    part = top.section("metrics", ("labels",))
    labels = Section.of(top.faults, "metrics.labels", part.value.get("labels", {}))
    known = {principal.hex(): principal for principal in principals}
    taken: dict[bytes, str] = {}
    for name in labels.value:
        label = labels.text(name)
        if name not in known:
            labels.fail(name, "is the id of no principal in this file")
        elif not _LABEL.fullmatch(label):
            labels.fail(name, f"must match {_LABEL.pattern}")
        else:
            taken[known[name]] = label
    return taken
