"""What the documentation shows is run, and prints what the documentation says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.processes.command import ROOT, Command

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


RECIPES = re.findall(
    r"^## (.*?)\n.*?```python\n(.*?)```\n+```\n(.*?)```",
    (ROOT / "docs" / "recipes.md").read_text("utf-8"),
    re.DOTALL | re.MULTILINE,
)


@pytest.mark.parametrize(
    ("program", "output"), [found[1:] for found in RECIPES], ids=[found[0] for found in RECIPES]
)
def test_the_recipes_print_what_they_show(program: str, output: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "recipe.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env=Command().environment(),
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, output), done.stderr


def test_every_command_of_the_readme_exists(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    shown = set(re.findall(r"^dlog (\w+)|; dlog (\w+)", text, re.MULTILINE))
    for command in sorted({name for pair in shown for name in pair if name}):
        assert Command().here(command, "--help").must_succeed().startswith(f"Usage: dlog {command}")


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
