"""Whether the tables of guarantees name for each a check or a test that exists.

docs/simulation.md: checks, and something that shows that the check can fail. docs/storage-guarantees.md: tests.
"""

from __future__ import annotations

import json
import re

import pytest

from dlog.testing.checks import checks
from tests.helpers.repository import ROOT, tracked_files

README = (ROOT / "README.md").read_text("utf-8")
RULES = (ROOT / "docs" / "log-semantics.md").read_text("utf-8")
_, _, SECTION = (
    (ROOT / "docs" / "simulation.md").read_text("utf-8").partition("\n## Guarantees and their checks\n")
)
TABLES = [
    [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()[2:]]
    for table in re.findall(r"(?:^\|.*\n)+", SECTION, re.MULTILINE)
]
PROMISES, OF_RULES, OTHERS = TABLES
ROWS = PROMISES + OF_RULES + [[says, named, shown] for named, says, shown in OTHERS]
SOURCES = {path: path.read_text("utf-8") for path in tracked_files() if path.suffix == ".py"}


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([\w-]+)`", cell)


def defined(packages: tuple[str, ...], pattern: str) -> set[str]:
    """What the pattern finds in the files below these directories."""
    sources = (
        text for path, text in SOURCES.items() if path.relative_to(ROOT).as_posix().startswith(packages)
    )
    return {found for text in sources for found in re.findall(pattern, text)}


CHECKS = defined(("dlog/testing",), r"\bc\d+_[A-Za-z_]+\w")
SHOWN = defined(("tests/",), r"def (\w+)\(") | set(
    json.loads((ROOT / "tests" / "simulation" / "mutations" / "table.json").read_text("utf-8"))
)


def test_every_promise_of_the_readme_is_in_the_table_in_its_words() -> None:
    _, _, text = README.partition("\n**Durable.**")
    text, _, _ = f"**Durable.**{text}".partition("\n[The checks")
    promises = [re.sub(r"^\*\*.*?\*\* ", "", line) for line in text.splitlines() if line]
    assert len(promises) > 15
    assert [row[0] for row in PROMISES] == promises


def test_every_rule_of_the_log_is_in_the_table() -> None:
    headings = re.findall(r"^### ((?:Rule|I)\s?\w+|Orphan sweep)$", RULES, re.MULTILINE)
    assert len(headings) > 50
    assert [re.sub(r"^\[(.*)\]\(.*\)$", r"\1", row[0]) for row in OF_RULES] == headings


def test_the_tables_name_every_check() -> None:
    named = {name for row in ROWS for name in quoted(row[1])}
    assert {check.__name__ for check in checks.CHECKS} <= CHECKS
    assert sorted(named - CHECKS) == []
    assert sorted(CHECKS - named) == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_every_row_is_shown_by_something_that_exists(row: list[str]) -> None:
    assert quoted(row[2])
    assert [name for name in quoted(row[2]) if name not in SHOWN] == []


STORAGE = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in (ROOT / "docs" / "storage-guarantees.md").read_text("utf-8").splitlines()
    if line.startswith("| ")
][1:]


@pytest.mark.parametrize("row", STORAGE, ids=lambda row: row[0][:40])
def test_every_promise_of_a_segment_store_is_shown_by_a_test_that_exists(row: list[str]) -> None:
    assert len(row) == 3
    assert quoted(row[2])
    assert [name for name in quoted(row[2]) if name not in SHOWN] == []
