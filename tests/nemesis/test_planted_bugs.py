"""The nemesis sees what it claims to see: with a bug planted into its writers and readers the run is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.nemesis.planted_bugs import PLANTED_BUGS
from tests.helpers.nemesis.run import Plan, run

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

FOUND_BY = {
    "reader-starts-late": "c9_what_was_acknowledged_is_seen_by_every_later_reader: ",
    "acked-when-sent": "c9_what_was_acknowledged_is_seen_by_every_later_reader: ",
    "committed-resolved-as-absent": "c3_what_was_resolved_stays_so: ",
    "last-of-a-batch-dropped": "c8_batches_are_all_or_nothing: ",
    "trims-one-entry-more": "c10_only_what_was_asked_for_is_trimmed: the log is trimmed to ",
}
RUNS = [
    ("committed-resolved-as-absent", "last-of-a-batch-dropped", "trims-one-entry-more"),
    ("reader-starts-late",),
    ("acked-when-sent",),
]
"""Those that share a run concern different calls, and no check of the one can refuse what another does."""
FIRST, *OTHERS = RUNS


def test_each_planted_bug_has_its_check_and_its_run() -> None:
    assert set(FOUND_BY) == set(PLANTED_BUGS)
    assert sorted(FOUND_BY) == sorted(bug for bugs in RUNS for bug in bugs)


@pytest.mark.parametrize(
    "bugs", [FIRST, *(pytest.param(bugs, marks=pytest.mark.nightly) for bugs in OTHERS)], ids=" ".join
)
async def test_planted_bugs_are_found(bugs: tuple[str, ...], tmp_path: Path) -> None:
    done = await run(Plan(seed=1, bookies=3, options=bugs, seconds=2.0, only=("_depose_unheard",)), tmp_path)
    print(done.summary(), sorted({found.partition(":")[0] for found in done.wrong}))
    for bug in bugs:
        assert any(found.startswith(FOUND_BY[bug]) for found in done.wrong), (bug, done.wrong)
