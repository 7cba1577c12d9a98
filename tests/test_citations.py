"""Citations of the rule books: `docs/NAME.md#anchor` in code, tests and documents leads to a heading, and back.

One citation may name several anchors of one document: `docs/NAME.md#rule-26, #rule-27`, or a range by number,
`docs/NAME.md#rule-26 to #rule-30`. A line break may stand between any of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.repository import ROOT
from tests.simulation.mutations.catalogue import MUTATIONS

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PACKAGES = ("bookie_server", "dlog", "ledger", "pyspark_dlog", "spark_connector")
FOLDERS = (*PACKAGES, "benchmarks", "examples", "tests", "tools")
SOURCES = sorted(
    path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py") if path != Path(__file__)
)

_ANCHOR = r"#[a-z0-9_-]+"
_CITATION = re.compile(
    rf"\bdocs/(?P<name>[\w/-]+\.md)(?P<anchors>{_ANCHOR}(?:(?:,| to| and|, and)\s+{_ANCHOR})*)"
)
_LINK = re.compile(rf"\]\((?P<name>[\w./-]+\.md)?(?P<anchor>{_ANCHOR})\)")
_CONTINUED_COMMENT = re.compile(r"\n\s*(?:# )?")

LOOSE = {
    "docs/log-semantics.md": (
        r"\b[Ll]og semantics\b",
        r"\b[Rr]ules? \d+[a-z]?\b",
        r"\b[Ii]nvariants? I\d+\b",
        r"\bI\d+ (?:and|to|of)\b",
        r"\(I\d+\b",
        r"\b[Mm]utations? \d+\b",
        r"#(?:rule-|i)\d+[a-z]?\b",
    ),
    "docs/bookkeeper.md": (r"\bBookKeeper protocol\b",),
    "docs/pitfalls.md": (r"\b[Pp]itfalls?: \w",),
}
"""How a document must not be cited: a form that no test can follow. Text of links and headings is exempt."""

LOOSE_EXAMPLES = (
    "(log semantics, 19b)",
    "Rules 15 and 17: …",
    "invariant I10",
    "(I13)",
    "I1 and I2",
    "rule 3",
    "#rule-3",
    "mutation 9",
    "(BookKeeper protocol, recovery reads)",
    "pitfall: close race",
)

MUST_BE_CITED = {
    "docs/log-semantics.md": r"### (?:Rule \d+[a-z]?|I\d+)",
    "docs/bookkeeper.md": r"## .*",
    "docs/pitfalls.md": r"### .*",
}
"""Headings that some code or test must cite: a rule that nothing implements or checks is only a wish."""

PLANTED = {
    "docs/log-semantics.md": r"^Planted: (.*)$",
    "docs/pitfalls.md": r"^- \*\*Caught by:\*\* (.*)$",
}
"""Lines that name planted bugs, each alone in backticks; what holds a slash or a dot is a file."""


def test_citations_have_targets() -> None:
    missing = [
        f"{where(path)}: docs/{name}{anchor}"
        for path in (*SOURCES, *DOCUMENTS)
        for name, anchor in citations(path)
        if anchor not in anchors_of(ROOT / "docs" / name)
    ]
    assert missing == []


def test_links_to_headings_have_targets() -> None:
    missing = []
    for path in DOCUMENTS:
        for link in _LINK.finditer(path.read_text("utf-8")):
            target = path if link["name"] is None else path.parent / link["name"]
            if link["anchor"] not in anchors_of(target):
                missing.append(f"{where(path)}: {link[0]}")
    assert missing == []


def test_rules_are_cited_by_anchor() -> None:
    """In the form docs/NAME.md#anchor, which the other tests can follow."""
    loose = [
        f"{where(path)}: {found}"
        for path in (*SOURCES, *DOCUMENTS)
        for found in loose_citations(flat_text(path))
    ]
    assert loose == []


@pytest.mark.parametrize("document", MUST_BE_CITED)
def test_every_rule_is_cited(document: str) -> None:
    cited = {(name, anchor) for path in SOURCES for name, anchor in citations(path)}
    form = MUST_BE_CITED[document]
    rules = [anchor for anchor, line in headings(ROOT / document) if re.fullmatch(form, line)]
    assert len(rules) > 10
    assert [rule for rule in rules if (document.removeprefix("docs/"), rule) not in cited] == []


@pytest.mark.parametrize("document", PLANTED)
def test_planted_bugs_that_a_document_names_are_planted(document: str) -> None:
    lines = re.findall(PLANTED[document], (ROOT / document).read_text("utf-8"), re.MULTILINE)
    named = [name for line in lines for name in re.findall(r"`([\w-]+)`", line)]
    assert len(named) > 20
    assert [name for name in named if name not in MUTATIONS] == []


def test_the_checks_see_what_they_are_for() -> None:
    text = "docs/log-semantics.md#rule-26, #rule-27 and #i13; docs/log-semantics.md#rule-19 to #rule-21"
    found = [anchor for _, anchor in _citations_in(text)]
    assert found == ["#rule-26", "#rule-27", "#i13", "#rule-19", "#rule-19b", "#rule-20", "#rule-21"]
    for loose in LOOSE_EXAMPLES:
        assert loose_citations(loose) != [], loose
    assert loose_citations("see [rule 25](#rule-25), docs/log-semantics.md#rule-25") == []


# ---- parts


def citations(path: Path) -> list[tuple[str, str]]:
    """(document under docs/, anchor) of every citation in the file; ranges are written out."""
    return list(_citations_in(flat_text(path)))


def _citations_in(text: str) -> Iterator[tuple[str, str]]:
    for citation in _CITATION.finditer(text):
        previous = ""
        for separator, anchor in re.findall(rf"(^|,|to|and)\s*({_ANCHOR})", citation["anchors"]):
            if separator == "to":
                yield from ((citation["name"], one) for one in _between(citation["name"], previous, anchor))
            yield citation["name"], anchor
            previous = anchor


def _between(name: str, first: str, last: str) -> list[str]:
    """The document's anchors whose numbers are between these two, ends excluded: #rule-19b between #rule-19 and 20."""
    numbered = [
        (number, anchor) for anchor, _ in headings(ROOT / "docs" / name) if (number := _number(anchor))
    ]
    return [
        anchor
        for number, anchor in sorted(numbered)
        if (_number(first) or ()) < number < (_number(last) or ())
    ]


def _number(anchor: str) -> tuple[str, int, str] | None:
    found = re.fullmatch(r"(#(?:[a-z]+-|i))(\d+)([a-z]?)", anchor)
    return None if found is None else (found[1], int(found[2]), found[3])


def where(path: Path) -> str:
    return str(path.relative_to(ROOT))


def loose_citations(text: str) -> list[str]:
    """Mentions of rules that are neither citations nor the text of links."""
    rest = re.sub(r"\[[^\]\n]*\]\([^)\s]*\)", "", _CITATION.sub("", text))
    return [found[0] for forms in LOOSE.values() for form in forms for found in re.finditer(form, rest)]


@cache
def flat_text(path: Path) -> str:
    """The file's text on one line, without headings: a citation may run over the end of a line."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        text = re.sub(r"^#+ .*$", "", text, flags=re.MULTILINE)
    return _CONTINUED_COMMENT.sub(" ", text)


@cache
def headings(path: Path) -> list[tuple[str, str]]:
    """(anchor, line) of each heading, anchors as GitHub makes them."""
    lines = re.findall(r"^#{1,6} .*\S", path.read_text("utf-8"), re.MULTILINE) if path.exists() else []
    return [(_anchor(line.lstrip("#").strip()), line) for line in lines]


def _anchor(title: str) -> str:
    return "#" + re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def anchors_of(path: Path) -> set[str]:
    return {anchor for anchor, _ in headings(path)}
