"""Whether the documents speak of what is there: public names, modules, links."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PACKAGES = ("bookie_server", "dlog", "ledger", "spark_connector", "tests", "tools", "benchmarks")


@pytest.mark.parametrize("package", ["dlog", "dlog.errors", "dlog.testing", "ledger", "spark_connector"])
def test_public_names_are_documented(package: str) -> None:
    """The table of docs/api.md and `__all__` name the same things, each once."""
    _, _, rest = (ROOT / "docs" / "api.md").read_text("utf-8").partition(f"\n## `{package}`\n")
    documented = re.findall(r"^\| `(\w+)` \|", rest.partition("\n## ")[0], re.MULTILINE)
    assert sorted(documented) == sorted(importlib.import_module(package).__all__)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text("utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("name", ["architecture.md", "bookkeeper.md", "pitfalls.md"])
def test_named_modules_exist(name: str) -> None:
    """A path in backticks that begins with one of our packages is there."""
    text = (ROOT / "docs" / name).read_text("utf-8")
    paths = re.findall(rf"`((?:{'|'.join(PACKAGES)})/[\w/.]*)`", text)
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_examples_of_testing_are_those_that_are_run() -> None:
    """Each is in a file of examples/testing, word for word."""
    text = (ROOT / "docs" / "testing-your-code.md").read_text("utf-8")
    examples = "".join(path.read_text("utf-8") for path in (ROOT / "examples" / "testing").glob("test_*.py"))
    shown = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(shown) == 3
    assert [each for each in shown if each not in examples] == []
