"""The programs of docs/recipes.md, and what each prints."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.processes.command import ROOT, Command
from tests.helpers.spark import QUICK_JAVA

_PARTS = re.compile(r"^## (.*?)\n.*?```python\n(.*?)```\n+```\n(.*?)```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Recipe:
    title: str
    program: str
    output: str

    @property
    def needs_spark(self) -> bool:
        return "pyspark" in self.program

    def run(self, directory: Path, timeout_s: float = 60) -> None:
        """Run it in a process of its own, and compare what it prints."""
        (directory / "recipe.py").write_text(self.program)
        done = subprocess.run(
            [sys.executable, "recipe.py"],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=Command().environment() | ({"JDK_JAVA_OPTIONS": QUICK_JAVA} if self.needs_spark else {}),
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, self.output), done.stderr


RECIPES = [Recipe(*found) for found in _PARTS.findall((ROOT / "docs" / "recipes.md").read_text("utf-8"))]
