"""Planted bugs are found again: by the short run that table.json holds for each, or else by a search as it was made.

A change of anything gives a seed other luck, so what counts is that few seeds are enough. By default one bug in
24; `PLANTED_BUGS=all` or `python -m tests.helpers.mutations --replay` runs every one.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.helpers.mutations.search import run_planted, search
from tests.helpers.mutations.table import Table, stale
from tests.simulation.mutations.catalogue import MUTATIONS, UNPROVED

LIMIT_S = 300
pytestmark = [pytest.mark.slow, pytest.mark.timeout(LIMIT_S)]

TABLE = Table.load()
STEP = 1 if os.environ.get("PLANTED_BUGS") == "all" else 24
SHORT_RUNS = 10
"""With the plan in the table, and the seeds after its own."""
SEARCHES_MIN, SEARCH_FACTOR = 40, 3
"""How many seeds a new search may take, by itself and of what the last one took."""
SEARCH_S_MAX = 0.6 * LIMIT_S
"""Processor time after which a new search gives up, so that it and not the limit ends the test."""
FOCUSED_SEEDS_MAX = 60
"""A bug that took more needs a sharper plan: a new search would hardly have the time for it.

A seed takes a second on average, and up to five.
"""


def test_the_table_has_every_planted_bug_as_it_is() -> None:
    assert list(TABLE.rows) == [name for name in MUTATIONS if name not in UNPROVED]
    assert set(UNPROVED) < set(MUTATIONS)
    written_before = [name for name, row in TABLE.rows.items() if stale(MUTATIONS[name], row)]
    assert not written_before, f"python -m tests.helpers.mutations --write --only {written_before}"


def test_a_new_search_for_a_planted_bug_takes_few_seeds() -> None:
    above = {
        name: row.focused.seeds for name, row in TABLE.rows.items() if row.focused.seeds > FOCUSED_SEEDS_MAX
    }
    assert not above


@pytest.mark.parametrize("name", list(TABLE.rows)[::STEP])
def test_a_planted_bug_is_found(name: str) -> None:
    mutation, row = MUTATIONS[name], TABLE.rows[name]
    plan = row.run()
    bugs = (*mutation.given, *mutation.edits)
    if any(run_planted(replace(plan, seed=plan.seed + more), bugs).findings for more in range(SHORT_RUNS)):
        return
    seeds = max(SEARCHES_MIN, SEARCH_FACTOR * row.focused.seeds)
    found = search(mutation, range(seeds), seconds_max=SEARCH_S_MAX)
    assert found.plan is not None, (
        f"not in {found.seeds} seeds, in {found.seconds:.0f} s; python -m tests.helpers.mutations --write --only {name}"
    )
