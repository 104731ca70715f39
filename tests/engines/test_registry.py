"""
From a name in `runtime.json` to an engine, and what it must declare (`device.md` §10).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from zope.interface.verify import verifyObject

from twisted_aotx.engines.formats import CHATML, LLAMA3
from twisted_aotx.engines.registry import engine_makers, engine_named, fact_faults
from twisted_aotx.errors import UnknownEngine
from twisted_aotx.interfaces import EngineFacts, IEngineMaker
from twisted_aotx.limits import SPAN_BYTES_MAX
from twisted_aotx.wire.info import ControlRow

ROOT = Path(__file__).parents[2]


def run_python(code: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run *code* in a process of its own, *path* before the checkout."""
    entries = [path, str(ROOT), str(ROOT / "plugins")]
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, entries))},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )


def test_the_reference_engine_is_found_by_name() -> None:
    """The built-in drop-in provides a whole maker."""
    maker = engine_named("reference")

    verifyObject(IEngineMaker, maker)
    assert maker.name == "reference"
    assert maker.help


def test_an_unknown_name_lists_the_known_ones() -> None:
    """So that a typing error is seen at once."""
    with pytest.raises(UnknownEngine) as caught:
        engine_named("refrence")

    assert caught.value.name == "refrence"
    assert "reference" in caught.value.known
    assert "known engines: " in str(caught.value)


def test_drop_ins_import_neither_engines_nor_numba() -> None:
    """Every start of twistd imports them [D26]."""
    done = run_python(
        "import sys\n"
        "from twisted_aotx.engines.registry import engine_named\n"
        "engine_named('reference')\n"
        "heavy = {'numba', 'numpy', 'twisted_aotx.engines.reference',"
        " 'twisted.internet.reactor'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)\n"
    )

    assert done.returncode == 0, done.stderr


def plugin_folder(tmp_path: Path, source: str) -> str:
    folder = tmp_path / "twisted" / "plugins"
    folder.mkdir(parents=True)
    (folder / "other_aotx.py").write_text(source)
    return str(tmp_path)


def test_a_broken_plugin_does_not_hide_the_others(tmp_path: Path) -> None:
    """One that cannot be imported, in the same folder of plugins."""
    path = plugin_folder(tmp_path, "import no_such_module\n")

    done = run_python(
        "from twisted_aotx.engines.registry import engine_named\n"
        "print(engine_named('reference').name)\n",
        path,
    )

    assert done.stdout == "reference\n", done.stderr


def test_a_maker_says_which_of_its_options_are_paths(tmp_path: Path) -> None:
    """They count from the folder given; what is no path is the maker's to judge."""
    path = plugin_folder(
        tmp_path,
        "from twisted_aotx.engines.maker import EngineMaker\n"
        "mine = EngineMaker('mine', 'mine', 'Mine.', paths=tuple('abcde'))\n",
    )
    (tmp_path / "mine.py").write_text(
        "def make(role, options, slots, sequence_tokens):\n    print(options)\n"
    )

    done = run_python(
        "from pathlib import Path\n"
        "from twisted_aotx.engines.registry import make_engine\n"
        "options = {'a': 'x', 'b': '/y', 'c': '', 'd': 1, 'name': 'x'}\n"
        "try: make_engine('mine', 2, options, 4, 64, Path('/etc/aotx'))\n"
        "except Exception: print(options)\n",
        path,
    )

    given, kept = done.stdout.splitlines()
    assert given == str({"a": "/etc/aotx/x", "b": "/y", "c": "", "d": 1, "name": "x"})
    assert kept == str({"a": "x", "b": "/y", "c": "", "d": 1, "name": "x"})


def test_a_plugin_that_is_no_maker_is_left_out(tmp_path: Path) -> None:
    """It claims the interface and lacks its attributes: a warning names what."""
    path = plugin_folder(
        tmp_path,
        "from twisted.plugin import IPlugin\n"
        "from twisted_aotx.interfaces import IEngineMaker\n"
        "from zope.interface import implementer\n"
        "@implementer(IPlugin, IEngineMaker)\n"
        "class Half:\n"
        "    name = 'half'\n"
        "half = Half()\n",
    )

    done = run_python(
        "import sys\n"
        "from twisted.logger import globalLogBeginner, textFileLogObserver\n"
        "observer = textFileLogObserver(sys.stdout)\n"
        "globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)\n"
        "from twisted_aotx.engines.registry import engine_makers\n"
        "print(sorted(engine_makers()))\n",
        path,
    )

    assert "an engine plugin cannot be used" in done.stdout
    assert "['llama', 'reference']" in done.stdout


def test_of_two_plugins_with_one_name_one_stays(tmp_path: Path) -> None:
    """And a warning says so."""
    path = plugin_folder(
        tmp_path,
        "from twisted_aotx.engines.maker import EngineMaker\n"
        "mine = EngineMaker('reference', 'elsewhere', 'Another one.')\n",
    )

    done = run_python(
        "import sys\n"
        "from twisted.logger import globalLogBeginner, textFileLogObserver\n"
        "observer = textFileLogObserver(sys.stdout)\n"
        "globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)\n"
        "from twisted_aotx.engines.registry import engine_makers\n"
        "print(sorted(engine_makers()))\n",
        path,
    )

    assert "two plugins make engines named 'reference'" in done.stdout
    assert "['llama', 'reference']" in done.stdout


GOOD = EngineFacts(
    role=2,
    model_sha256=bytes(32),
    modalities=1,
    capacity=1,
    sequence_tokens=100,
    message_format=CHATML,
)
CONTROL = ControlRow.__new__(ControlRow)


@pytest.mark.parametrize("message_format", [CHATML, LLAMA3])
def test_good_facts(message_format: Any) -> None:
    """Exactly what is needed is enough."""
    assert fact_faults(attrs.evolve(GOOD, message_format=message_format), 2, 100) == []
    assert fact_faults(attrs.evolve(GOOD, controls=(CONTROL,) * 16), 2, 100) == []
    span = b"x" * SPAN_BYTES_MAX
    widest = attrs.evolve(CHATML, system_head=span, prefix_bytes=len(span))
    assert fact_faults(attrs.evolve(GOOD, message_format=widest), 2, 100) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"role": 3}, "it declares role 3, not 2"),
        ({"model_sha256": bytes(31)}, "its model digest is not 32 bytes"),
        ({"model_sha256": "0" * 32}, "its model digest is not 32 bytes"),
        ({"modalities": 2}, "its modalities 2 lack text or hold unknown bits"),
        ({"modalities": 9}, "its modalities 9 lack text or hold unknown bits"),
        ({"capacity": 0}, "its capacity is 0; at least 1 is needed"),
        (
            {"sequence_tokens": 99},
            "it holds 99 tokens, but device.sequence_tokens is 100",
        ),
        ({"controls": (CONTROL,) * 17}, "it has more than 16 controls"),
        (
            {"message_format": attrs.evolve(CHATML, think_open=b"x" * 513)},
            "think_open of its message format has more than 512 bytes",
        ),
        (
            {"message_format": attrs.evolve(CHATML, prefix_bytes=20)},
            "the prefix of its message format is 20 of the 19 bytes of its system head",
        ),
        (
            {"message_format": attrs.evolve(CHATML, prefix_bytes=-1)},
            "the prefix of its message format is -1 of the 19 bytes of its system head",
        ),
    ],
)
def test_facts_that_the_device_cannot_serve(
    changes: dict[str, Any], sentence: str
) -> None:
    """Each is one sentence."""
    assert fact_faults(attrs.evolve(GOOD, **changes), 2, 100) == [sentence]


def test_controls_belong_to_the_default_language_role() -> None:
    """`device.md` §10, control rows."""
    facts = attrs.evolve(GOOD, role=4, controls=(CONTROL,))

    assert fact_faults(facts, 4, 100) == [
        "only the engine of the default language role has controls"
    ]


def test_formats_are_those_of_the_contract() -> None:
    """`device.md` §5, byte for byte."""
    assert CHATML.system_head == b"<|im_start|>system\n"
    assert CHATML.generation_head + CHATML.think_open + CHATML.think_close == (
        b"<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )
    assert CHATML.prefix_bytes == 0
    assert LLAMA3.prefix_bytes == 17
    assert LLAMA3.system_head[:17] == b"<|begin_of_text|>"
    assert LLAMA3.system_head[17:] == b"<|start_header_id|>system<|end_header_id|>\n\n"
    assert LLAMA3.user_tail == b"<|eot_id|>"
    assert LLAMA3.think_open + LLAMA3.think_close == b""


def test_all_makers_of_this_checkout_are_known() -> None:
    """`engine_makers` maps names to makers."""
    assert all(name == maker.name for name, maker in engine_makers().items())
