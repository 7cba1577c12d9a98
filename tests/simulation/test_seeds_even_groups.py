"""Seeds of the whole cluster under a swarm of faults: the groups with even numbers.

pytest distributes files over the cores, so the two halves are two files.
"""

from __future__ import annotations

import pytest

from tests.helpers.simulation.seeds import run_group, starts


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", starts(0, 2))
def test_no_acknowledged_message_is_lost_under_any_fault(first: int) -> None:
    run_group(first)
