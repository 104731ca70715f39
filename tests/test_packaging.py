"""
What is installed, and what twistd finds of it [D25, D26].
"""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from twisted.internet.endpoints import clientFromString, serverFromString
from twisted.internet.testing import MemoryReactorClock

from tests.sources import PACKAGE, PLUGINS, ROOT, files, module_of, python_files
from twisted_aotx.seqpacket import SeqPacketClientEndpoint, SeqPacketServerEndpoint

COMMANDS = {"aotx", "aotx-runtime", "aotx-gateway"}

#: Prints what else is loaded once every drop-in was imported.
IMPORT_ALL = """
import sys
from twisted.plugins import aotx_endpoints, aotx_engines, aotx_tap
print(*sorted(sys.modules))
"""

#: Prints the engines that plugins offer.
LIST_ENGINES = """
from twisted.plugin import getPlugins
from twisted_aotx.interfaces import IEngineMaker
print(*sorted({maker.name for maker in getPlugins(IEngineMaker)}))
"""

TWISTD_HELP = "from twisted.scripts.twistd import run; run()"


def run(python: Path | str, *words: str, cwd: Path, path: tuple[Path, ...] = ()) -> str:
    """
    What a Python process printed; *path* is its PYTHONPATH.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON")
    }
    if path:
        environment["PYTHONPATH"] = os.pathsep.join(map(str, path))
    done = subprocess.run(
        [python, *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def commands_in(help_text: str) -> set[str]:
    """
    The commands of ours that twistd's help lists.
    """
    first = {line.split()[0] for line in help_text.splitlines() if line.strip()}
    return {word for word in first if word.startswith("aotx")}


def foreign(modules: str) -> set[str]:
    """
    Of the loaded modules, those that no drop-in may load.
    """
    heavy = {"numba", "numpy", "llvmlite", "xllamacpp"}
    light = {
        "twisted_aotx",
        "twisted_aotx.engines",
        "twisted_aotx.engines.maker",
        "twisted_aotx.errors",
        "twisted_aotx.interfaces",
    }
    return {
        module
        for module in modules.split()
        if module.split(".")[0] in heavy
        or (module.split(".")[0] == "twisted_aotx" and module not in light)
        or module == "twisted.internet.reactor"
    }


def test_drop_ins_of_the_checkout_load_next_to_nothing(tmp_path: Path) -> None:
    path = (ROOT, PLUGINS)

    assert foreign(run(sys.executable, "-c", IMPORT_ALL, cwd=tmp_path, path=path)) == (
        set()
    )


def test_drop_in_folders_are_no_packages() -> None:
    assert not [path for path in files(PLUGINS) if path.name == "__init__.py"]
    assert {path.name for path in python_files(PLUGINS)} == {
        "aotx_endpoints.py",
        "aotx_engines.py",
        "aotx_tap.py",
    }


def test_every_package_is_installed() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    folders = {
        module_of(path) for path in python_files(PACKAGE) if path.stem == "__init__"
    }

    assert set(setup["options"]["packages"].split()) == folders | {"twisted.plugins"}
    assert setup["editable_wheel"]["mode"] == "strict"


def test_every_file_that_is_no_module_is_installed() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = {
        path
        for package, patterns in setup["options.package_data"].items()
        for pattern in patterns.split()
        for path in ROOT.joinpath(*package.split(".")).glob(pattern)
    }

    assert {path for path in files(PACKAGE) if path.suffix != ".py"} == listed


def test_endpoint_strings(tmp_path: Path) -> None:
    reactor = MemoryReactorClock()
    text = f"seqpacket:{tmp_path}/service.sock"

    assert isinstance(serverFromString(reactor, text), SeqPacketServerEndpoint)
    assert isinstance(clientFromString(reactor, text), SeqPacketClientEndpoint)


@attrs.frozen
class Installed:
    """
    An environment of its own with the project installed.
    """

    python: Path
    site: Path
    #: What was installed from: a copy of the checkout.
    source: Path


def install(folder: Path, *words: str) -> Installed:
    """
    Make an environment in *folder* and install a copy of the checkout into it.

    The dependencies, pip and setuptools are those of the environment that runs the
    tests, so that no package index is needed: their folder is named in a `.pth` file.
    """
    source = folder / "source"
    source.mkdir()
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("twisted_aotx", "plugins"):
        shutil.copytree(
            ROOT / name,
            source / name,
            ignore=shutil.ignore_patterns("__pycache__", "dropin.cache"),
        )
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True
    )
    python = folder / "env" / "bin" / "python"
    site = Path(run(python, "-c", _SITE, cwd=folder).strip())
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    run(
        python,
        *("-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation"),
        *words,
        cwd=source,
    )
    return Installed(python, site, source)


_SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"


@pytest.fixture(scope="module", params=["regular", "editable"])
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp(request.param)
    words = (".",) if request.param == "regular" else ("-e", ".")
    yield install(folder, *words)
    shutil.rmtree(folder)


@pytest.mark.e2e
def test_twistd_lists_the_three_services(installed: Installed, tmp_path: Path) -> None:
    words = ("-c", TWISTD_HELP, "--help")
    for _ in ("first start", "with the cache of plugins that it left"):
        text = run(installed.python, *words, cwd=tmp_path)

        assert commands_in(text) == COMMANDS


@pytest.mark.e2e
def test_installed_drop_ins_load_next_to_nothing(
    installed: Installed, tmp_path: Path
) -> None:
    loaded = run(installed.python, "-c", IMPORT_ALL, cwd=tmp_path)

    assert "twisted.plugins.aotx_tap" in loaded.split()
    assert foreign(loaded) == set()


@pytest.mark.e2e
def test_installed_engines_are_found(installed: Installed, tmp_path: Path) -> None:
    listed = run(installed.python, "-c", LIST_ENGINES, cwd=tmp_path)

    assert "reference" in listed.split()


@pytest.mark.e2e
def test_the_package_is_whole_and_typed(installed: Installed, tmp_path: Path) -> None:
    words = "import twisted_aotx; print(twisted_aotx.__path__[0])"
    folder = Path(run(installed.python, "-c", words, cwd=tmp_path).strip())
    expected = {
        path.relative_to(PACKAGE)
        for path in files(PACKAGE)
        if path.suffix in {".py", ".txt", ".typed"}
    }

    assert folder != PACKAGE
    assert expected <= {
        path.relative_to(folder) for path in folder.rglob("*") if path.is_file()
    }
    # Twisted's own folders stay as they were: a namespace, not a package of ours.
    assert not (installed.site / "twisted" / "__init__.py").exists()
    assert not (installed.site / "twisted" / "plugins" / "__init__.py").exists()


@pytest.mark.e2e
def test_the_command_runs(installed: Installed, tmp_path: Path) -> None:
    script = installed.python.parent / "aotx"
    done = subprocess.run(
        [script, "token"], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert len(done.stdout.split()) >= 2
    assert "Usage" in run(installed.python, str(script), "--help", cwd=tmp_path)


@pytest.mark.e2e
def test_the_metadata_ask_for_what_was_decided(
    installed: Installed, tmp_path: Path
) -> None:
    """D25"""
    words = (
        "from importlib.metadata import metadata; m = metadata('twisted-aotx');"
        "print(m['Name'], m['Version'], m['License']);"
        "print(m['Requires-Python']);"
        "print(*m.get_all('Requires-Dist'), *m.get_all('Provides-Extra'), sep='\\n')"
    )
    name, pythons, *asked = run(
        installed.python, "-c", words, cwd=tmp_path
    ).splitlines()
    squeezed = {"".join(line.split()).lower() for line in asked}

    assert name == "twisted-aotx 0.1.0 MIT"
    assert set(pythons.split(",")) == {">=3.11", "<3.14"}
    assert {"twisted>=26.10", "numba==0.68.*", "numpy<2.5"} <= squeezed
    assert {"llama", "cuda", "dev"} <= squeezed
