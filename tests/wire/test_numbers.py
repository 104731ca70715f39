"""
Every number has the name that `wire.md` gives it.
"""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path

import pytest

from twisted_aotx.wire import numbers
from twisted_aotx.wire.numbers import (
    SERVED_ROLES,
    TERMINAL_PHASES,
    Action,
    Finish,
    MediaCommand,
    MediaPhase,
    MediaStatus,
    Operation,
    Phase,
    PolicyAction,
    PolicyReason,
    PolicyResult,
    PolicyState,
    Role,
    Status,
)

WIRE = (Path(__file__).parent.parent.parent / "docs/spec/wire.md").read_text()


def listed(after: str) -> dict[int, str]:
    """
    The `0 name, 1 other name` that follows some words of the page.
    """
    text = re.split(r"\||\.|, u64", WIRE.split(after)[1])[0]
    return {
        int(number): name.upper().replace(" ", "_").replace("-", "_")
        for number, name in re.findall(r"(\d+) ([a-z][\w-]*(?: [a-z]+)?)", text)
    }


@pytest.mark.parametrize(
    ("enum", "after"),
    [
        (Phase, "Request phases: "),
        (Finish, "finish: "),
        (Action, "Actions: "),
        (Role, "Roles: "),
        (MediaCommand, "frame operation | "),
        (PolicyAction, "u32 action ("),
        (PolicyState, "| state: "),
        (PolicyReason, "| reason: "),
        (PolicyResult, "Result status: "),
    ],
)
def test_names_that_the_page_lists(enum: type[IntEnum], after: str) -> None:
    names = {int(member): member.name for member in enum}
    found = listed(after)

    if enum is MediaCommand:
        row = WIRE.split(after)[1].split("|")[0]
        found = {int(n): name for n, name in re.findall(r"(\d) ([A-Z]+)", row)}
    assert found == names


def test_operations_are_those_of_the_table() -> None:
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+|reserved[^|]*) \|", WIRE, re.MULTILINE)
    names = {int(number): name for number, name in rows if name.isupper()}

    assert names == {
        int(each): each.name for each in Operation if not each.name.startswith("SHARED")
    }
    assert (Operation.SHARED_MUTATION, Operation.SHARED_READ) == (10, 11)


def test_statuses_are_those_of_the_table() -> None:
    table = WIRE.split("## 5. Status words")[1].split("## 6.")[0]
    found = {int(n) for n in re.findall(r"\b([2-5]\d\d)\b(?=[, ]*\d* *\|)", table)}

    assert found | {200, 202} == set(map(int, Status))


def test_media_phases_and_statuses_are_those_of_the_table() -> None:
    table = WIRE.split("| Phase | Name |")[1].split("List row")[0]
    phases = re.findall(r"^\| (\d) \| ([a-z ]+?) \|", table, re.MULTILINE)
    statuses = re.findall(r"\| \| (\d+) \| ([^|]+?) \|", table)

    assert {int(number) for number, _ in phases} == set(map(int, MediaPhase))
    assert {int(number) for number, name in statuses if name != "not used"} == set(
        map(int, MediaStatus)
    )
    assert (int(MediaStatus.PRESSURE), int(MediaPhase.READY)) == (12, 6)


def test_named_sets() -> None:
    assert set(TERMINAL_PHASES) == {4, 5, 6}
    assert set(SERVED_ROLES) == {2, 3, 4}


def test_no_number_is_given_twice() -> None:
    for enum in vars(numbers).values():
        if isinstance(enum, type) and issubclass(enum, IntEnum):
            assert len(enum.__members__) == len(set(enum))
