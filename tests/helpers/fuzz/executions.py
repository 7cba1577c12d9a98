"""How often each target was run on this code: tests/helpers/evidence/fuzz.json.

commit, day    of the last run
code           digest of the packages and the targets: counts of other code are dropped
targets        target: executions
findings       target: number of inputs that failed and are not fixed
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.helpers.evidence.machine import commit, day
from tests.helpers.repository import ROOT

PATH = ROOT / "tests" / "helpers" / "evidence" / "fuzz.json"
_FUZZED = ("ledger", "dlog", "bookie_server", "tests/helpers/fuzz")
_NOT_FUZZED = ("dlog/testing/", "dlog/demo/")


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
        if path.exists():
            found = cls(**json.loads(path.read_text("utf-8")))
            if found.code == digest_of_code():
                return found
        return cls(code=digest_of_code())

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


def digest_of_code() -> str:
    """Of every module that a target can reach, and of the targets."""
    digest = hashlib.sha256()
    for package in _FUZZED:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(_NOT_FUZZED):
                digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
