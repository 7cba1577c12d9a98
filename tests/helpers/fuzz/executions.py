"""How often each target was run on this code: tests/helpers/evidence/fuzz.json.

Counts of a target are dropped when the code changes that it exercises: its module and what that imports.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path

from tests.helpers.evidence.machine import commit, day
from tests.helpers.evidence.sources import files_of, fingerprint_of, tree_of
from tests.helpers.fuzz.registry import MODULES
from tests.helpers.repository import ROOT

PATH = ROOT / "tests" / "helpers" / "evidence" / "fuzz.json"


@dataclass(frozen=True, slots=True)
class Count:
    """Of one target, on one code."""

    code: str
    """Fingerprint of what the target exercises."""
    commit: str = ""
    day: str = ""
    """Both of the last run."""
    executions: int = 0
    findings: int = 0
    """Number of inputs that failed and are not fixed."""


@dataclass(slots=True)
class Executions:
    targets: dict[str, Count] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path = PATH) -> Executions:
        """Those of this code."""
        found = cls.saved(path).targets
        return cls({name: count for name, count in found.items() if count.code == code_of(name)})

    @classmethod
    def saved(cls, path: Path = PATH) -> Executions:
        """What the file has, of any code."""
        if not path.exists():
            return cls()
        return cls({name: Count(**fields) for name, fields in json.loads(path.read_text("utf-8")).items()})

    def add(self, target: str, executions: int, findings: int) -> None:
        count = self.targets.get(target) or Count(code_of(target))
        self.targets[target] = replace(
            count,
            commit=commit(),
            day=day(),
            executions=count.executions + executions,
            findings=findings,
        )

    @property
    def total(self) -> int:
        return sum(count.executions for count in self.targets.values())

    def save(self, path: Path = PATH) -> None:
        """Whole or not at all."""
        found = {name: asdict(self.targets[name]) for name in sorted(self.targets)}
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        temporary.replace(path)


@cache
def code_of(target: str) -> str:
    """Fingerprint of what the target exercises; empty if there is no such target."""
    module = MODULES.get(target)
    return fingerprint_of(files_of([module], tree_of())) if module else ""
