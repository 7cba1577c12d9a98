"""Each planted bug is found again, by the short run that table.json holds for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.mutations.catalogue import MUTATIONS, UNPROVED
from tests.simulation.mutations.hunt import judge
from tests.simulation.mutations.table import Table, stale

TABLE = Table.load()
SEEDS = 10
"""A change of anything gives a seed other luck: the next seeds of the same plan count as well."""


def test_the_table_tells_of_every_planted_bug_as_it_is() -> None:
    assert list(TABLE.rows) == [name for name in MUTATIONS if name not in UNPROVED]
    assert set(UNPROVED) < set(MUTATIONS)
    written_before = [name for name, row in TABLE.rows.items() if stale(MUTATIONS[name], row)]
    assert not written_before, f"python -m tests.simulation.mutations --write --only {written_before}"


@pytest.mark.parametrize("name", TABLE.rows)
def test_a_planted_bug_is_found(name: str) -> None:
    mutation, plan = MUTATIONS[name], TABLE.rows[name].run()
    bugs = (*mutation.given, *mutation.edits)
    plans = (replace(plan, seed=plan.seed + more) for more in range(SEEDS))
    assert any(judge(each, bugs).findings for each in plans), (
        f"python -m tests.simulation.mutations --write --only {name}"
    )
