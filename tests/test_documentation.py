"""Whether the documents speak of what is there: public names, modules, links."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import tomllib
from pathlib import Path

import pytest

import dlog.errors
from bookie_server.config_file import make_config
from ledger.errors import LogStoreError
from tests.helpers import method_parameters, options_page
from tests.helpers.error_tree import error_tree
from tests.helpers.evidence.__main__ import checks
from tests.helpers.repository import ROOT, tracked_files

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
CURRENT = [path for path in DOCUMENTS if path.name != "CHANGELOG.md"]
PACKAGES = (
    "bookie_server", "dlog", "examples", "ledger", "pyspark_dlog", "spark_connector", "tests", "tools", "benchmarks",
)  # fmt: skip
PYTHON_FILES = [f"/{path.relative_to(ROOT).as_posix()}" for path in tracked_files() if path.suffix == ".py"]


@pytest.mark.parametrize("package", ["dlog", "dlog.testing", "ledger", "spark_connector"])
def test_public_names_are_documented(package: str) -> None:
    """The table of docs/api.md and `__all__` name the same things, each once."""
    _, _, rest = (ROOT / "docs" / "api.md").read_text("utf-8").partition(f"\n## `{package}`\n")
    documented = re.findall(r"^\| `(\w+)` \|", rest.partition("\n## ")[0], re.MULTILINE)
    assert sorted(documented) == sorted(importlib.import_module(package).__all__)


def test_the_page_of_options_is_that_of_the_code() -> None:
    """Every field of a settings class and every option of a command, with default, unit and meaning."""
    made = options_page.page()
    assert options_page.PAGE.read_text("utf-8") == made, f"python -m {options_page.__name__} --write"
    rows = [line.split(" | ") for line in made.splitlines() if line.startswith("| `")]
    assert len(rows) > 200
    assert [row for row in rows if len(row) not in (3, 4) or row[-1] in ("|", " |")] == []


@pytest.mark.parametrize("package", ["dlog", "ledger"])
def test_every_public_settings_class_is_on_the_page_of_options(package: str) -> None:
    module = importlib.import_module(package)
    public = [getattr(module, name) for name in module.__all__]
    settings = {each for each in public if inspect.isclass(each) and "\nFields:\n" in (each.__doc__ or "")}
    assert settings and settings <= set(options_page.API)


def test_every_public_object_with_methods_is_on_the_page_of_options() -> None:
    """With each parameter, and no meaning is kept of one that does not exist."""
    module = importlib.import_module("dlog")
    objects = {each for name in module.__all__ if inspect.isclass(each := getattr(module, name))}
    blocking = {each for each in objects if each.__module__.startswith("dlog.blocking.")}
    assert blocking - {module.Pending} == set(method_parameters.CLASSES)
    names = {
        f"{api.__name__}.{name}.{parameter}"
        for api in method_parameters.CLASSES
        for name, method in method_parameters.methods_of(api)
        for parameter in inspect.signature(method).parameters
    }
    names |= {
        f"{name}.{parameter}"
        for name, function in method_parameters.FUNCTIONS.items()
        for parameter in inspect.signature(function).parameters
    }
    known = names | {name.rpartition(".")[2] for name in names}
    assert {*method_parameters.MEANINGS, *method_parameters.ACCEPTS} - known == set()


def test_every_error_is_documented_with_its_cause_and_its_way_out() -> None:
    """In the section of its branch, once, with the module from which a program imports it."""
    text = (ROOT / "docs" / "errors.md").read_text("utf-8")
    documented = {}
    for section in text.split("\n## ")[1:]:
        branch = section.splitlines()[0].partition(":")[0].strip("`")
        for row in re.findall(r"^\| `(\w+)` \| `([\w.]+)` \| (.+) \| (.+) \|$", section, re.MULTILINE):
            assert row[0] not in documented
            documented[row[0]] = (branch, row[1])
    assert documented == {
        kind.__name__: (
            branch_of(kind),
            "dlog.errors" if hasattr(dlog.errors, kind.__name__) else kind.__module__,
        )
        for kind in error_tree()
        if not kind.__name__.startswith("_")
    }


def branch_of(kind: type[LogStoreError]) -> str:
    below_root = [base for base in kind.__mro__ if LogStoreError in base.__bases__]
    return below_root[0].__name__ if below_root and below_root[0].__subclasses__() else "Root"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text("utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", CURRENT, ids=lambda path: str(path.relative_to(ROOT)))
def test_named_modules_exist(document: Path) -> None:
    missing = [path for path in named_paths(document) if not (ROOT / path).exists()]
    missing += [
        file for file in named_files(document) if not any(path.endswith(f"/{file}") for path in PYTHON_FILES)
    ]
    assert missing == []


def named_paths(document: Path) -> list[str]:
    """Paths in backticks that begin with one of our packages, and modules in commands."""
    text, packages = document.read_text("utf-8"), "|".join(PACKAGES)
    modules = re.findall(rf"python -m ((?:{packages})(?:\.\w+)*)", text)
    paths = [module.replace(".", "/") for module in modules]
    return [
        *re.findall(rf"`((?:{packages})/[\w/.-]*)`", text),
        *(path if (ROOT / path).is_dir() else f"{path}.py" for path in paths),
    ]


def named_files(document: Path) -> list[str]:
    """Names such as `frame.py`: the end of some file's path."""
    return re.findall(r"`([\w/]+\.py)`", document.read_text("utf-8"))


def test_the_settings_of_a_bookie_that_are_shown_are_accepted() -> None:
    shown = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "operations.md").read_text("utf-8"), re.DOTALL)
    configs = [make_config(tomllib.loads(each), {}) for each in shown]
    assert [config.advertised for config in configs] == ["store1.example"]


def test_the_documents_name_modules() -> None:
    assert sum(len(named_paths(document)) for document in CURRENT) > 150
    assert sum(len(named_files(document)) for document in CURRENT) > 150


@pytest.mark.parametrize("way", ["append", "read", "takeover"])
def test_the_ways_through_the_code_are_its_imports(way: str) -> None:
    """In the diagrams of docs/architecture.md a file and the one that it continues, one of them imports the other.

    A file continues the nearest one above it that is indented less, or at the margin the one before; a line that
    begins with ~ is a network connection.
    """
    _, _, rest = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition(f"\n## One {way}\n")
    diagrams = re.findall(r"```\n(.*?)```", rest.partition("\n## ")[0], re.DOTALL)
    steps = [step for diagram in diagrams for step in steps_of(diagram)]
    assert len(steps) > 20
    assert [f"{before} → {after}" for before, after in steps if not linked(before, after)] == []


def steps_of(diagram: str) -> list[tuple[str, str]]:
    """Pairs of files that follow each other."""
    steps: list[tuple[str, str]] = []
    path: list[str] = []
    for line in diagram.splitlines():
        if line.startswith("~"):
            path = []
            continue
        found = re.match(r"((?:  )*)([\w/]+\.py) +\S", line)
        assert found is not None, line
        depth = len(found[1]) // 2
        assert depth <= len(path), line
        if path:
            steps.append((path[max(depth - 1, 0)], found[2]))
        path[depth:] = [found[2]]
    return steps


def linked(one: str, other: str) -> bool:
    return module_of(one) in imports_of(other) or module_of(other) in imports_of(one)


def module_of(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def imports_of(file: str) -> set[str]:
    """Modules, and what is imported from them, which may be a module too."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_every_document_is_in_the_reading_order() -> None:
    """docs/README.md links to each document beside it."""
    text = (ROOT / "docs" / "README.md").read_text("utf-8")
    names = [path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"]
    assert len(names) > 10
    assert [name for name in names if f"]({name})" not in text] == []


def test_the_evidence_finds_its_table_of_checks() -> None:
    """`make evidence` copies it from docs/simulation.md into docs/reliability.md."""
    made = {
        int(number)
        for path in (ROOT / "dlog" / "testing").rglob("*.py")
        for number in re.findall(r"\bc(\d+)_[a-z]", path.read_text("utf-8"))
    }
    assert re.findall(r"^\| (C\d+)", checks(), re.MULTILINE) == [
        "C1",  # to C11
        *(f"C{number}" for number in sorted(made) if number > 11),
    ]


def test_the_examples_of_testing_are_those_that_are_run() -> None:
    """Each is in a file of examples/testing, word for word."""
    text = (ROOT / "docs" / "testing-your-code.md").read_text("utf-8")
    examples = "".join(path.read_text("utf-8") for path in (ROOT / "examples" / "testing").glob("test_*.py"))
    shown = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(shown) == 3
    assert [each for each in shown if each not in examples] == []


def test_the_types_of_results_have_the_fields_that_are_documented() -> None:
    """And each of their fields is documented."""
    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    section = text.partition("#### Types of the results")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| `([\w.]+)` \| `(\w+)` \| (.*) \|$", section, re.MULTILINE)
    assert len(rows) >= 10
    for module, name, described in rows:
        kind = getattr(importlib.import_module(module), name)
        for field in dataclasses.fields(kind):
            assert f"`{field.name}`" in described, (name, field.name)
