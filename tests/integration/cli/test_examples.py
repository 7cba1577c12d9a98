"""What the documentation shows is run, and prints what the documentation says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.processes.command import ROOT, Command
from tests.helpers.recipes import RECIPES, Recipe

pytestmark = pytest.mark.integration


def run(*arguments: str, directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        env=Command().environment(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_readme_examples_print_what_they_show(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    program, output = re.findall(r"```python\n(.*?)```\n+```\n(.*?)```", text, re.DOTALL)[0]
    (tmp_path / "readme.py").write_text(program)
    assert run("readme.py", directory=tmp_path) == output


API_EXAMPLES = re.findall(
    r"```python\n([^`]*)```\n+```\n([^`]*)```", (ROOT / "docs" / "api.md").read_text("utf-8")
)


@pytest.mark.parametrize("at", range(len(API_EXAMPLES)))
def test_the_examples_of_the_api_print_what_they_show(at: int, tmp_path: Path) -> None:
    program, output = API_EXAMPLES[at]
    (tmp_path / "example.py").write_text(program)
    assert run("example.py", directory=tmp_path) == output


def test_the_page_on_arrow_prints_what_it_shows(tmp_path: Path) -> None:
    for package in ("pyarrow", "pandas", "polars", "duckdb"):
        pytest.importorskip(package, reason=f"{package} is missing: pip install '.[arrow,dev]'")
    text = (ROOT / "docs" / "arrow.md").read_text("utf-8")
    [(program, output)] = re.findall(r"```python\n(.*?)```\n+```\n(.*?)```", text, re.DOTALL)
    (tmp_path / "arrow.py").write_text(program)
    assert run("arrow.py", directory=tmp_path) == output


WITHOUT_SPARK = [recipe for recipe in RECIPES if not recipe.needs_spark]
"""The others are run in tests/spark."""


@pytest.mark.parametrize("recipe", WITHOUT_SPARK, ids=lambda recipe: recipe.title)
def test_the_recipes_print_what_they_show(recipe: Recipe, tmp_path: Path) -> None:
    recipe.run(tmp_path)


def test_every_recipe_is_run() -> None:
    text = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    assert len(RECIPES) == text.count("```python\n") == text.count("\n## ") >= 7


def test_every_command_of_the_readme_exists(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    shown = set(re.findall(r"^dlog (\w+)|; dlog (\w+)", text, re.MULTILINE))
    for command in sorted({name for pair in shown for name in pair if name}):
        assert Command().here(command, "--help").must_succeed().startswith(f"Usage: dlog {command}")


def test_the_asyncio_example_asks_for_its_directory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "follow.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env=Command().environment(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "usage: python examples/follow.py DIRECTORY\n")


def test_the_asyncio_example_follows_its_own_writer(tmp_path: Path) -> None:
    printed = run(str(ROOT / "examples" / "follow.py"), str(tmp_path / "data"), directory=tmp_path)
    lines = printed.splitlines()
    ids = [line.removeprefix("durable: ") for line in lines if line.startswith("durable")]
    assert [line for line in lines if line.startswith("seen")] == [
        f"seen: {message_id} b'kitchen' b'{celsius}'"
        for message_id, celsius in zip(ids, (19, 20, 21), strict=True)
    ]


def test_every_decision_is_in_the_index() -> None:
    directory = ROOT / "docs" / "decisions"
    index = (directory / "README.md").read_text("utf-8")
    assert [path.name for path in directory.glob("0*.md") if f"({path.name})" not in index] == []


def test_relative_links_of_the_documentation_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []
