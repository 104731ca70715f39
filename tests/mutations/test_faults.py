"""
The planted faults are still of this tree, and mutants are what they say.
"""

from __future__ import annotations

import ast
import importlib
import random

import pytest

from tests.mutations.faults import Fault, NotThere, planted_faults
from tests.mutations.mutants import mutants_of
from tests.mutations.reach import GROUPS, changed_files
from tests.sources import ROOT, tree_of

FAULTS = planted_faults()


def test_there_are_enough_of_them() -> None:
    assert len(FAULTS) >= 15
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_can_be_planted_and_its_test_exists(fault: Fault) -> None:
    """What it replaces is there once; what comes instead is another program."""
    planted = fault.plant()
    as_it_is = tree_of(ROOT / fault.file)

    assert ast.dump(ast.parse(planted)) != ast.dump(as_it_is)
    file, *names = fault.test.split("::")
    found: object = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    for name in names:
        found = getattr(found, name)
    assert callable(found)


def test_a_fault_that_no_longer_fits_says_so() -> None:
    gone = Fault(
        name="gone",
        why="",
        file=FAULTS[0].file,
        before="what is not there",
        after="",
        test="",
    )
    with pytest.raises(NotThere, match="gone: found 0 times"):
        gone.plant()


@pytest.mark.parametrize("group", GROUPS)
def test_a_mutant_is_another_program(group: str) -> None:
    """Some mutants of some files can be parsed, and differ."""
    chance = random.Random(group)
    for file in chance.sample(changed_files(group), 3):
        source = (ROOT / file).read_text()
        as_it_is = ast.dump(ast.parse(source))
        made = mutants_of(file, source)
        for mutant in chance.sample(made, min(30, len(made))):
            assert ast.dump(ast.parse(mutant.text(source))) != as_it_is, mutant


EVERYTHING = '''
"""A text."""
LIMIT = 3
_log.warn("said", 1)

def judge(a: int, b: int = 1) -> int:
    """Another."""
    if a < b and not a:
        raise ValueError
    a += 1
    take(a, b)
    assert a == 1
    return a

def __repr__(self) -> str:
    return 1
'''


def test_every_kind_of_mutant() -> None:
    found = {(m.kind, m.before, m.after) for m in mutants_of("x.py", EVERYTHING)}

    assert found == {
        ("constant", "3", "(3 + 1)"),
        ("constant", "3", "(3 - 1)"),
        ("constant", "1", "(1 + 1)"),
        ("constant", "1", "(1 - 1)"),
        ("logic", "a < b and not a", "not (a < b and not a)"),
        ("logic", " and ", " or "),
        ("logic", "not a", "(a)"),
        ("compare", " < ", " <= "),
        ("compare", " < ", " >= "),
        ("dropped", "raise ValueError", "pass"),
        ("dropped", "a += 1", "pass"),
        ("arithmetic", " += ", " -= "),
        ("dropped", "take(a, b)", "pass"),
        ("swapped", "a, b", "b, a"),
        ("returned", "a", "None"),
    }
