"""How often each target was run on this code: tests/helpers/evidence/fuzz.json.

commit, day    of the last run
code           fingerprint of the targets and of what they import: counts of other code are dropped
targets        target: executions
findings       target: number of inputs that failed and are not fixed
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.helpers.evidence.machine import commit, day
from tests.helpers.evidence.sources import fingerprint
from tests.helpers.repository import ROOT

PATH = ROOT / "tests" / "helpers" / "evidence" / "fuzz.json"


@dataclass(slots=True)
class Executions:
    commit: str = ""
    day: str = ""
    code: str = ""
    targets: dict[str, int] = field(default_factory=dict)
    findings: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path = PATH) -> Executions:
        """Those of this code; none if the file has those of another."""
        saved, code = cls.saved(path), fingerprint("fuzz")
        return saved if saved is not None and saved.code == code else cls(code=code)

    @classmethod
    def saved(cls, path: Path = PATH) -> Executions | None:
        """What the file has, of whatever code."""
        return cls(**json.loads(path.read_text("utf-8"))) if path.exists() else None

    def add(self, target: str, executions: int, findings: int) -> None:
        self.targets[target] = self.targets.get(target, 0) + executions
        if findings:
            self.findings[target] = findings
        else:
            self.findings.pop(target, None)

    def save(self, path: Path = PATH) -> None:
        """Whole or not at all."""
        self.commit, self.day = commit(), day()
        self.targets = dict(sorted(self.targets.items()))
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(self), indent=1) + "\n", "utf-8")
        temporary.replace(path)
