"""Half of the seeds of the whole cluster under a swarm of faults."""

from __future__ import annotations

import pytest

from tests.helpers.simulation.seeds import run_group, starts


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", starts(1, 2))
def test_nothing_acknowledged_is_lost_whatever_goes_wrong(first: int) -> None:
    run_group(first)
