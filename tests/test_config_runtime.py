"""
`runtime.json`: every key, its default, its bounds, and the path that an error names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from twisted_aotx.config.runtime import RuntimeSettings, load_runtime
from twisted_aotx.errors import ConfigErrors
from twisted_aotx.limits import Capacities

MODELS = {"language": {"engine": "reference"}}


def load(folder: Path, given: Path | None = None, **keys: Any) -> RuntimeSettings:
    path = folder / "runtime.json"
    path.write_text(json.dumps({"models": MODELS, **keys}))
    path.chmod(0o600)
    return load_runtime(path, given)


def fault_paths(folder: Path, **keys: Any) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        load(folder, **keys)
    assert all(error.reason for error in caught.value.errors)
    return [error.path for error in caught.value.errors]


def test_every_key_but_models_has_a_default(tmp_path: Path) -> None:
    settings = load(tmp_path)

    assert settings.state == tmp_path
    assert settings.socket == tmp_path / "service.sock"
    assert settings.grants == tmp_path / "grants"
    assert settings.store_bytes == 1 << 30
    assert settings.backend == "cpu"
    assert settings.capacities == Capacities()
    assert settings.notices == ()


def test_the_default_capacities_are_those_of_d7() -> None:
    assert attrs.asdict(Capacities()) == {
        "slots": 64,
        "requests": 128,
        "channels": 128,
        "principals": 256,
        "prompt_bytes": 65408,
        "output_bytes": 65536,
        "sequence_tokens": 8192,
        "request_seconds": 300,
        "upload_seconds": 120,
        "media_objects": 128,
        "media_bytes": 67108864,
        "image_rows": 131072,
        "image_workers": 1,
        "image_pixels": 4194304,
        "image_dimension": 8192,
        "image_patches": 8192,
        "audio_rows": 16384,
        "audio_workers": 1,
        "audio_frames": 1440000,
    }


def test_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    settings = load(tmp_path, socket="run/a.sock", state="s", grants="/etc/g")

    assert settings.socket == tmp_path / "run/a.sock"
    assert settings.state == tmp_path / "s"
    assert settings.grants == Path("/etc/g")


def test_what_is_not_named_lies_in_the_state_directory(tmp_path: Path) -> None:
    settings = load(tmp_path, state="s")

    assert settings.socket == tmp_path / "s/service.sock"
    assert settings.grants == tmp_path / "s/grants"


def test_a_given_state_directory_is_used_unless_the_file_names_one(
    tmp_path: Path,
) -> None:
    elsewhere = tmp_path / "elsewhere"

    assert load(tmp_path, elsewhere).socket == elsewhere / "service.sock"
    assert load(tmp_path, elsewhere, state="mine").state == tmp_path / "mine"


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [  # wire.md §13
        ("slots", 2, 1024),
        ("requests", 1, 65536),
        ("channels", 2, 1024),
        ("principals", 1, 1022),
        ("prompt_bytes", 1, 280448),  # as much as a payload can render to
        ("output_bytes", 1, 16777216),
        ("sequence_tokens", 2, 2**31 - 1),
        ("request_seconds", 1, 2**31 - 1),
        ("upload_seconds", 1, 2**31 - 1),
        ("media_objects", 0, 65536),
        ("media_bytes", 0, 1073741824),
    ],
)
def test_capacities_are_taken_up_to_their_bounds_and_not_beyond(
    tmp_path: Path, name: str, low: int, high: int
) -> None:
    for value in (low, high):
        capacities = load(tmp_path, device={name: value}).capacities
        assert getattr(capacities, name) == value
    for wrong in (low - 1, high + 1, True, 1.5, "64", None):
        assert set(fault_paths(tmp_path, device={name: wrong})) == {f"device.{name}"}


def test_a_capacity_fault_says_the_bound(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors, match=r"device\.slots: must be <= 1024: 1025"):
        load(tmp_path, device={"slots": 1025})


@pytest.mark.parametrize(
    ("objects", "workers", "paths"),
    [(4, 4, []), (4, 5, ["device.image_workers"]), (0, 1, [])],
)
def test_images_are_not_decoded_by_more_workers_than_there_are_sources(
    tmp_path: Path, objects: int, workers: int, paths: list[str]
) -> None:
    """`wire.md` §13."""
    device = {"media_objects": objects, "image_workers": workers}
    if paths:
        assert fault_paths(tmp_path, device=device) == paths
    else:
        assert load(tmp_path, device=device).capacities.image_workers == workers


def test_models_name_an_engine_for_each_role_with_its_options(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        models={
            "language": {"engine": "reference", "rate": 5},
            "language-q4": {"engine": "other"},
            "language-audio": {"engine": "third"},
        },
    )

    found = [(model.role, model.engine, model.options) for model in settings.models]
    assert found == [
        (2, "reference", {"rate": 5}),
        (3, "other", {}),
        (4, "third", {}),
    ]
    assert {model.folder for model in settings.models} == {tmp_path}


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"surprise": 1}, "surprise"),
        ({"socket": ""}, "socket"),
        ({"socket": "s" * 107}, "socket"),
        ({"state": 5}, "state"),
        ({"grants": ["g"]}, "grants"),
        ({"store_bytes": 0}, "store_bytes"),
        ({"device": []}, "device"),
        ({"device": {"backend": "rocm"}}, "device.backend"),
        ({"device": {"slot": 2}}, "device.slot"),
        ({"models": {}}, "models"),
        ({"models": None}, "models"),
        ({"models": {"embedding": {"engine": "x"}}}, "models.embedding"),
        ({"models": {"language": {}}}, "models.language.engine"),
        ({"models": {"language": {"engine": ""}}}, "models.language.engine"),
        ({"models": {"language": "reference"}}, "models.language"),
    ],
)
def test_a_broken_rule_is_told_with_its_key_path(
    tmp_path: Path, keys: dict[str, Any], path: str
) -> None:
    assert path in fault_paths(tmp_path, **keys)


@pytest.mark.parametrize(
    ("text", "kind", "where"),
    [
        ("tcp:9000:interface=127.0.0.1", "tcp", "9000"),
        (r"tcp6:9000:interface=\:\:1", "tcp6", "9000"),
        ("unix:/run/m.sock", "unix", "/run/m.sock"),
        ("systemd:domain=INET:index=0", "systemd", ""),
    ],
)
def test_a_metrics_endpoint_is_one_of_this_machine(
    tmp_path: Path, text: str, kind: str, where: str
) -> None:
    # D10
    place = load(tmp_path, metrics=text).metrics

    assert place is not None
    assert (place.kind, place.where) == (kind, where)


def test_metrics_are_off_by_default_and_their_path_relative_to_the_file(
    tmp_path: Path,
) -> None:
    assert load(tmp_path).metrics is None
    assert load(tmp_path, metrics=None).metrics is None
    place = load(tmp_path, metrics="unix:m.sock").metrics

    assert place is not None
    assert place.where == str(tmp_path / "m.sock")


@pytest.mark.parametrize(
    "text",
    [
        "tcp:9000",
        "tcp:9000:interface=192.0.2.1",
        "tls:9000:interface=127.0.0.1",
        "haproxy:tcp:9000:interface=127.0.0.1",
        "unix:" + "m" * 108,
        "9000",
        "",
        9000,
    ],
)
def test_a_metrics_endpoint_that_others_reach_or_nobody_is_refused(
    tmp_path: Path, text: Any
) -> None:
    assert fault_paths(tmp_path, metrics=text) == ["metrics"]
