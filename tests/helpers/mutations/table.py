"""What has been found, as it stands in table.json: per planted bug the rule, the plan, the seeds it took, the check,
and a short run that shows it, with every field of its plan, so that it outlives a change of what seeds draw.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dlog.testing.swarm.actions import Action
from dlog.testing.swarm.plan import Plan
from tests.helpers.mutations.mutation import Mutation
from tests.helpers.mutations.search import SearchResult
from tests.simulation.mutations.catalogue import MUTATIONS

PATH = Path(__file__).parents[2] / "simulation" / "mutations" / "table.json"
_FINDING_CHARACTERS_MAX = 200
_FILLING = re.compile(r"\.{4,}")
"""What makes payloads long."""


@dataclass(frozen=True, slots=True)
class Search:
    """Seeds from 0 on that were run with a bug planted."""

    seeds: int
    """How many; the last one found it."""
    seed: int | None
    """Which one found it; None if none did."""


@dataclass(frozen=True, slots=True)
class Row:
    """One planted bug and what became of it."""

    rule: str
    profile: str
    focus: Mapping[str, Any]
    """The fields of the plan that were fixed for the search; empty: the seed alone decided."""
    circumstances: bool
    """Whether something else was changed, under which sound code is safe."""
    focused: Search
    check: str
    finding: str
    seed: int
    """Of the short run that shows it."""
    plan: Mapping[str, Any]
    """Of the short run: all fields that are not as in a plan without a seed."""

    def run(self) -> Plan:
        """The short run that shows it."""
        fields = {name: _value(name, value) for name, value in self.plan.items()}
        return Plan(seed=self.seed, **fields)


def _value(name: str, value: Any) -> Any:
    if name == "actions":
        return tuple(Action(**each) for each in value)
    return tuple(value) if isinstance(value, list) else value


def row_of(found: SearchResult, short: Plan) -> Row:
    """What a successful search is written down as."""
    assert found.plan is not None
    mutation = found.mutation
    return Row(
        rule=mutation.rule,
        profile=mutation.profile,
        focus=dict(mutation.plan),
        circumstances=bool(mutation.given),
        focused=Search(found.seeds, found.plan.seed),
        check=found.verdict.check,
        finding=_FILLING.sub("...", found.verdict.finding)[:_FINDING_CHARACTERS_MAX],
        seed=short.seed,
        plan=short.changed(),
    )


@dataclass(slots=True)
class Table:
    """All rows, by the names of their bugs."""

    rows: dict[str, Row] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path = PATH) -> Table:
        if not path.exists():
            return cls()
        found = json.loads(path.read_text("utf-8"))
        return cls({name: _row(fields) for name, fields in found.items()})

    def save(self, path: Path = PATH) -> None:
        """In the order of the catalogue; rows of bugs that are in it no more go away."""
        rows = {name: asdict(self.rows[name]) for name in MUTATIONS if name in self.rows}
        path.write_text(json.dumps(rows, indent=1, sort_keys=False) + "\n", "utf-8")


def _row(fields: dict[str, Any]) -> Row:
    return Row(**fields | {"focused": Search(**fields["focused"])})


def stale(mutation: Mutation, row: Row) -> bool:
    """Whether the row was written for another version of the bug's description."""
    described = (mutation.rule, mutation.profile, _plain(mutation.plan))
    return described != (row.rule, row.profile, _plain(row.focus))


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON gives it back."""
    plain = json.loads(json.dumps(fields, default=asdict))
    assert isinstance(plain, dict)
    return plain
