"""
Every rule and case that code and tests cite stands in docs/spec, and every case that
must be a test is cited by one.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.sources import PACKAGE, PLUGINS, ROOT, TESTS, name_of, python_files

SPEC = ROOT / "docs" / "spec"
FILES = [
    path for path in python_files(PACKAGE, PLUGINS, TESTS) if path != Path(__file__)
]

#: `wire.md` §7 and its like; more sections may follow, one by one or as a range.
SECTION = re.compile(
    r"\b(wire|device|http)\.md`? ?(§\d+(?:(?:, ?| and |–|-)§?\d+)*)", re.DOTALL
)
#: D12, [D3], but no name that goes on.
DECISION = re.compile(r"(?<![\w./])D([1-9]\d?)(?![\w(])")
#: cases C 41; more cases may follow, of the same area or another.
CASES = re.compile(
    r"\bcases? (?P<list>[A-L] \d+(?:(?:[,;]? and |[,;] ?|–|-)(?:[A-L] )?\d+)*)"
)
CASE = re.compile(r"(?:([A-L]) )?(\d+)(?:[–-](\d+))?")

#: The cases that are tests of this version, area by area; the numbering has gaps.
REQUIRED = {
    "A": [*range(1, 20)],
    "B": [*range(20, 27), 28, 29, 31, 32, 34, 35],
    "C": [*range(37, 60)],
    "D": [*range(61, 78)],
    "E": [*range(79, 90)],
    "F": [*range(91, 113)],
    "H": [121, 122, 125, 128, 131],
    "I": [*range(137, 147)],
    "J": [*range(148, 156)],
    "K": [*range(157, 165)],
    "L": [*range(166, 171), 172, 173, 175],
}


def sections_of(page: str) -> set[int]:
    return set(map(int, re.findall(r"^## (\d+)\.", page, re.MULTILINE)))


SECTIONS = {
    name: sections_of((SPEC / f"{name}.md").read_text())
    for name in ("wire", "device", "http")
}
DECISIONS = set(
    map(int, re.findall(r"\*\*D(\d+)", (SPEC / "decisions.md").read_text()))
)


def known_cases() -> set[tuple[str, int]]:
    found = set()
    for area in re.split(r"^## ", (SPEC / "cases.md").read_text(), flags=re.M)[1:]:
        numbers = re.findall(r"^(\d+)\. ", area, re.MULTILINE)
        found |= {(area[0], int(number)) for number in numbers}
    return found


KNOWN = known_cases()


def flat(path: Path) -> str:
    """
    The text of a file with its line breaks and comment signs taken out of sentences.
    """
    return re.sub(r"\s*\n\s*#?:? *", " ", path.read_text())


def cited_sections(text: str) -> set[tuple[str, int]]:
    found = set()
    for page, numbers in SECTION.findall(text):
        for first, last in re.findall(r"§?(\d+)(?:[–-]§?(\d+))?", numbers):
            found |= {(page, n) for n in range(int(first), int(last or first) + 1)}
    return found


def cited_cases(text: str) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for match in CASES.finditer(text):
        area = ""
        for letter, first, last in CASE.findall(match["list"]):
            area = letter or area
            numbers = range(int(first), int(last or first) + 1)
            # A range may span numbers that are kept back.
            found |= {(area, n) for n in numbers if not last or (area, n) in KNOWN}
    return found


def test_what_counts_as_a_citation() -> None:
    assert cited_sections("`wire.md` §1–§3, http.md §7 and §9") == {
        ("wire", 1),
        ("wire", 2),
        ("wire", 3),
        ("http", 7),
        ("http", 9),
    }
    assert cited_cases("cases C 41, 43; D 62–65 and A 4") == {
        ("C", 41),
        ("C", 43),
        ("D", 62),
        ("D", 64),
        ("D", 65),
        ("A", 4),
    }
    assert cited_cases("cases C 99") == {("C", 99)}
    assert DECISION.findall("[D1], D12; D.x D1_x 0xD1 D7's") == ["1", "12", "7"]


def test_the_pages_are_read() -> None:
    assert SECTIONS["wire"] == set(range(1, 14))
    assert SECTIONS["device"] == set(range(1, 18))
    assert SECTIONS["http"] == set(range(1, 11))
    assert set(range(1, 30)) == DECISIONS
    assert len(KNOWN) > 110


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_what_is_cited_exists(path: Path) -> None:
    text = flat(path)

    wrong = [
        f"{page}.md §{number}"
        for page, number in sorted(cited_sections(text))
        if number not in SECTIONS[page]
    ]
    wrong += [
        f"D{number}"
        for number in DECISION.findall(text)
        if int(number) not in DECISIONS
    ]
    wrong += [
        f"case {area} {number}" for area, number in sorted(cited_cases(text) - KNOWN)
    ]
    assert not wrong


@pytest.mark.parametrize("area", REQUIRED)
def test_required_cases_are_tests(area: str) -> None:
    cited = {
        case
        for path in python_files(TESTS)
        if path.name.startswith("test_") or path.is_relative_to(TESTS / "wire")
        for case in cited_cases(flat(path))
    }
    required = {(area, number) for number in REQUIRED[area]} & KNOWN

    missing = sorted(number for _, number in required - cited)
    assert not missing, f"no test cites {area} {', '.join(map(str, missing))}"


def test_pages_that_are_named_exist() -> None:
    named = {
        page
        for path in FILES
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text())
    }

    assert not [page for page in sorted(named) if not (ROOT / page).is_file()]
