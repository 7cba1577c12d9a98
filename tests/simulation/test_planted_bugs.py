"""Planted bugs are found again: by the short run that table.json holds for each, or else by a search as it was made.

A change of anything gives a seed other luck, so what counts is that few seeds are enough. By default one bug in
three; `PLANTED_BUGS=all` or `python -m tests.helpers.mutations --replay` runs every one.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.helpers.mutations.search import run_planted, search
from tests.helpers.mutations.table import Table, stale
from tests.simulation.mutations.catalogue import MUTATIONS, UNPROVED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TABLE = Table.load()
STEP = 1 if os.environ.get("PLANTED_BUGS") == "all" else 3
SHORT_RUNS = 10
"""With the plan in the table, and the seeds after its own."""
SEARCHES_MIN, SEARCH_FACTOR = 40, 3
"""How many seeds a new search may take, by itself and of what the last one took."""


def test_the_table_has_every_planted_bug_as_it_is() -> None:
    assert list(TABLE.rows) == [name for name in MUTATIONS if name not in UNPROVED]
    assert set(UNPROVED) < set(MUTATIONS)
    written_before = [name for name, row in TABLE.rows.items() if stale(MUTATIONS[name], row)]
    assert not written_before, f"python -m tests.helpers.mutations --write --only {written_before}"


@pytest.mark.parametrize("name", list(TABLE.rows)[::STEP])
def test_a_planted_bug_is_found(name: str) -> None:
    mutation, row = MUTATIONS[name], TABLE.rows[name]
    plan = row.run()
    bugs = (*mutation.given, *mutation.edits)
    if any(run_planted(replace(plan, seed=plan.seed + more), bugs).findings for more in range(SHORT_RUNS)):
        return
    seeds = max(SEARCHES_MIN, SEARCH_FACTOR * row.focused.seeds)
    assert search(mutation, range(seeds)).plan is not None, (
        f"not in {seeds} seeds; python -m tests.helpers.mutations --write --only {name}"
    )
