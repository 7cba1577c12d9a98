"""The nemesis sees what it claims to see: with a bug planted into its writers and readers the run is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.nemesis.planted_bugs import PLANTED_BUGS
from tests.helpers.nemesis.run import Plan, run

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

FOUND_BY = {
    "reader-starts-late": "c9_what_was_acknowledged_is_seen_by_every_later_reader",
    "acked-when-sent": "c9_what_was_acknowledged_is_seen_by_every_later_reader",
    "committed-resolved-as-absent": "c3_what_was_resolved_stays_so",
}


def test_each_planted_bug_has_its_check() -> None:
    assert set(FOUND_BY) == set(PLANTED_BUGS)


@pytest.mark.parametrize("bug", FOUND_BY)
async def test_a_planted_bug_is_found(bug: str, tmp_path: Path) -> None:
    done = await run(
        Plan(seed=1, bookies=3, options=(bug,), seconds=2.0, only=("_depose_unheard",)), tmp_path
    )
    print(done.summary(), sorted({found.partition(":")[0] for found in done.wrong}))
    assert any(found.startswith(FOUND_BY[bug]) for found in done.wrong), done.wrong
