"""Counts of one kind of test, with the commit and the fingerprint of the code that was run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.helpers.evidence.machine import commit, day, machine
from tests.helpers.evidence.sources import fingerprint

FOLDER = Path(__file__).parent
Rows = Mapping[str, Mapping[str, int | float | str]]
"""What was counted, by the name of the row and of the column."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One table of docs/reliability.md."""

    fingerprint: str
    commit: str
    day: str
    machine: str
    rows: Rows

    @classmethod
    def now(cls, result: str, rows: Rows) -> Measurement:
        """Of the current code; `result` is a name in `sources.ROOTS`."""
        return cls(fingerprint(result), commit(), day(), machine(), rows)

    @classmethod
    def load(cls, path: Path) -> Measurement:
        return cls(**json.loads(path.read_text("utf-8")))

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", "utf-8")
