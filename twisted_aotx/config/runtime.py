"""
`runtime.json` → `RuntimeSettings` (docs/config.md).

Every key but `models` is optional; defaults are D7's. Relative paths are relative to
the file, and what is not named lies in the state directory (`device.md` §16).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from twisted_aotx.config.files import read_object
from twisted_aotx.config.section import Faults, Section, shown
from twisted_aotx.limits import SOCKET_PATH_BYTES_MAX, Capacities
from twisted_aotx.places import Place, parse
from twisted_aotx.wire.numbers import Role

#: The three roles that are served (`wire.md` §6), by their names in both files.
ROLES: Final[Mapping[str, Role]] = {
    "language": Role.LANGUAGE,
    "language-q4": Role.LANGUAGE_Q4,
    "language-audio": Role.LANGUAGE_AUDIO,
}
BACKENDS: Final = ("cpu", "cuda")
#: Bytes that the state store may take [D10].
STORE_BYTES_DEFAULT: Final = 1 << 30

_CAPACITIES = tuple(field.name for field in attrs.fields(Capacities))
_KEYS = ("socket", "state", "grants", "metrics", "store_bytes", "device", "models")


@attrs.frozen(kw_only=True)
class ModelSettings:
    """
    What serves one role.
    """

    #: The role as the file names it.
    name: str
    role: Role
    #: Name of an `IEngineMaker`.
    engine: str
    #: The engine's own options, unchecked: the maker knows them.
    options: Mapping[str, Any] = attrs.field(factory=dict)
    #: Where relative paths among them count from, absolute.
    folder: Path


@attrs.frozen(kw_only=True)
class RuntimeSettings:
    """
    `runtime.json`, checked. Every path is absolute.
    """

    #: The state directory (`device.md` §16).
    state: Path
    socket: Path
    grants: Path
    store_bytes: int
    backend: str
    capacities: Capacities
    models: tuple[ModelSettings, ...]
    #: Where the runtime tells its metrics [D10].
    metrics: Place | None = None
    #: What the operator should be told at start.
    notices: tuple[str, ...] = ()


def load_runtime(path: Path, state: Path | None = None) -> RuntimeSettings:
    """
    Read and check *path*.

    Args:
        path: The file.
        state: The state directory if the file names none; the file's folder by default.

    Raises:
        ConfigErrors: every fault of the file.
    """
    folder = path.absolute().parent
    faults = Faults()
    top = Section(faults, "", read_object(path))
    top.only(_KEYS)
    directory = _path(top, "state", folder, (state or folder).absolute())
    socket = _path(top, "socket", folder, directory / "service.sock")
    _check_socket(top, "socket", socket)
    device = top.section("device", ("backend", *_CAPACITIES))
    settings = RuntimeSettings(
        state=directory,
        socket=socket,
        grants=_path(top, "grants", folder, directory / "grants"),
        store_bytes=top.integer(
            "store_bytes", low=1, high=2**63 - 1, default=STORE_BYTES_DEFAULT
        ),
        backend=device.choice("backend", BACKENDS, default="cpu"),
        capacities=_capacities(device),
        models=_models(top, folder),
        metrics=_metrics(top, folder),
    )
    faults.raise_if_any()
    return attrs.evolve(settings, notices=faults.notices)


def _path(top: Section, key: str, folder: Path, default: Path) -> Path:
    text = top.optional_text(key)
    return default if text is None else folder / text


def _check_socket(top: Section, key: str, socket: Path) -> None:
    size = len(bytes(socket))
    if size > SOCKET_PATH_BYTES_MAX:
        reason = f"{socket} has {size} bytes, more than {SOCKET_PATH_BYTES_MAX}"
        top.fail(key, reason + "; a Unix socket needs a shorter path")


def _metrics(top: Section, folder: Path) -> Place | None:
    """An endpoint that only this machine reaches: whoever reaches it may read."""
    text = top.optional_text("metrics")
    if text is None:
        return None
    try:
        place = parse(text)
    except ValueError as error:
        top.fail("metrics", str(error))
        return None
    if place.kind == "tls" or place.behind_proxy:
        top.fail("metrics", "is for this machine: tcp:, tcp6:, unix: or systemd:")
        return None
    where = str(folder / place.where) if place.kind == "unix" else place.where
    if place.kind == "unix":
        _check_socket(top, "metrics", Path(where))
    return attrs.evolve(place, where=where, said_by="runtime.json: metrics")


def _capacities(device: Section) -> Capacities:
    """The capacities, each judged by the rule that `limits` gives it."""
    good: dict[str, int] = {}
    for field in attrs.fields(Capacities):
        if not device.has(field.name):
            continue
        value = device.integer(field.name, low=-(2**63), high=2**63 - 1)
        try:
            Capacities(**{field.name: value})
        except ValueError as error:
            device.fail(field.name, str(error).removeprefix(f"'{field.name}' "))
        else:
            good[field.name] = value
    capacities = Capacities(**good)
    # `wire.md` §13; without media there is nothing to decode.
    if 0 < capacities.media_objects < capacities.image_workers:
        device.fail("image_workers", "must be at most device.media_objects")
    return capacities


def _models(top: Section, folder: Path) -> tuple[ModelSettings, ...]:
    if not top.value.get("models"):
        top.fail("models", "is required: name an engine for one role or more")
    models: list[ModelSettings] = []
    for name, part in top.sections("models"):
        if name not in ROLES:
            part.faults.note(part.path, f"unknown role; known: {', '.join(ROLES)}")
            continue
        engine = part.text("engine")
        if not engine and part.has("engine"):
            part.fail("engine", f"must name an engine, not {shown(engine)}")
        options = {key: value for key, value in part.value.items() if key != "engine"}
        models.append(
            ModelSettings(
                name=name,
                role=ROLES[name],
                engine=engine,
                options=options,
                folder=folder,
            )
        )
    return tuple(models)
