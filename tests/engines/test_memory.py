"""
Memory that a model takes, and that there is.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.engines.gguf_files import model
from twisted_aotx.engines import memory
from twisted_aotx.engines.gguf import read_gguf
from twisted_aotx.engines.memory import Need, available, check, need
from twisted_aotx.engines.model_file import ModelFile, describe
from twisted_aotx.errors import EngineError

NO_LIMIT_V1 = 9223372036854771712


def tiny() -> ModelFile:
    """256 bytes of KV cache a token, 4 tokens, rows of 64."""
    data = model()
    return describe(read_gguf(io.BytesIO(data), len(data)), len(data))


def test_the_need_of_a_model() -> None:
    file = tiny()

    assert need(file, capacity=8, sequence_tokens=512) == Need(
        file=file.size,
        kv=8 * 512 * 256,
        overhead=memory.PROCESS_BYTES + 64 * 4 * (4 + 16 * 64),
    )


@pytest.mark.parametrize(
    ("tokens", "held"), [(1, 256), (256, 256), (257, 512), (2048, 2048)]
)
def test_sequences_are_held_in_steps(tokens: int, held: int) -> None:
    assert need(tiny(), 3, tokens).kv == 3 * held * 256


def test_what_fits_is_let_pass_up_to_the_last_byte() -> None:
    needed = Need(file=100, kv=20, overhead=3)

    check(needed, 123, "m")
    check(needed, None, "m")
    with pytest.raises(EngineError):
        check(needed, 122, "m")


def test_what_does_not_fit_is_told_in_one_line() -> None:
    needed = Need(file=98_000_000, kv=380_000_000, overhead=80_000_000)
    with pytest.raises(EngineError) as caught:
        check(needed, 200_000_000, "smollm2.gguf")

    assert str(caught.value) == (
        "smollm2.gguf needs 0.56 GB (model 0.10 GB, KV cache 0.38 GB, the rest "
        "0.08 GB) of memory, but only 0.20 GB can be had: lower its capacity or "
        "device.sequence_tokens, or take a smaller model"
    )


def test_each_remedy_of_that_line_lowers_the_need() -> None:
    file = tiny()
    whole = need(file, 8, 2048).total

    assert need(file, 4, 2048).total < whole
    assert need(file, 8, 1024).total < whole


# --- what there is --------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(
        tmp_path / "proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   1000 kB\nX: 1 kB\n"
    )
    write(tmp_path / "proc/self/cgroup", "0::/a/b\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def group(folder: Path, limit: str, use: int, cache: int | None = None) -> None:
    """A control group of version 2."""
    write(folder / "memory.max", f"{limit}\n")
    write(folder / "memory.current", f"{use}\n")
    if cache is not None:
        write(folder / "memory.stat", f"anon 7\ninactive_file {cache}\nslab 9\n")


def test_the_system_without_groups(root: Path) -> None:
    assert available(root) == 1_024_000


def test_a_system_that_says_nothing(tmp_path: Path) -> None:
    assert available(tmp_path) is None


def test_a_group_with_a_limit(root: Path) -> None:
    group(root / "sys/fs/cgroup/a/b", "5000", 2000)

    assert available(root) == 3000


def test_file_cache_of_a_group_can_be_had(root: Path) -> None:
    group(root / "sys/fs/cgroup/a/b", "5000", 2000, cache=1500)

    assert available(root) == 4500


def test_a_group_without_a_limit(root: Path) -> None:
    group(root / "sys/fs/cgroup/a/b", "max", 2000)

    assert available(root) == 1_024_000


def test_groups_above_count_too(root: Path) -> None:
    group(root / "sys/fs/cgroup/a/b", "5000", 1000)
    group(root / "sys/fs/cgroup/a", "6000", 5000)

    assert available(root) == 1000


def test_in_a_container_the_root_is_the_group(root: Path) -> None:
    """The path of the group is the host's; its files lie at the root."""
    group(root / "sys/fs/cgroup", "5000", 1000)

    assert available(root) == 4000


def test_a_group_beyond_its_limit_leaves_nothing(root: Path) -> None:
    group(root / "sys/fs/cgroup/a/b", "5000", 6000)

    assert available(root) == 0


def test_groups_of_version_1(root: Path) -> None:
    write(root / "proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n")
    write(root / "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9000\n")
    write(root / "sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "5000\n")
    write(root / "sys/fs/cgroup/memory/a/b/memory.stat", "total_inactive_file 10\n")
    write(root / "sys/fs/cgroup/memory/memory.limit_in_bytes", f"{NO_LIMIT_V1}\n")
    write(root / "sys/fs/cgroup/memory/memory.usage_in_bytes", "8000\n")

    assert available(root) == 4010


@pytest.mark.parametrize("text", ["", "many", "-5", "1" * 30, "0x10"])
def test_limits_that_are_no_numbers_are_none(root: Path, text: str) -> None:
    group(root / "sys/fs/cgroup/a/b", text, 2000)

    assert available(root) == 1_024_000


@pytest.mark.parametrize(
    "text",
    ["", "0", "\0\0", "0::/../../..", "memory\n::::", "0::" + "/a" * 500],
)
def test_odd_group_lists(root: Path, text: str) -> None:
    write(root / "proc/self/cgroup", text)

    assert available(root) == 1_024_000


def test_this_machine_says_something() -> None:
    amount = available()

    assert amount is not None
    assert 1 << 20 < amount < 1 << 50
