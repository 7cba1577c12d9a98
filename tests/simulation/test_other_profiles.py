"""No faults at all, faults that nobody promised to survive, and short schedules of faults that belong together."""

from __future__ import annotations

import pytest

from tests.helpers.simulation.seeds import run


@pytest.mark.parametrize("seed", range(1, 4))
def test_nothing_goes_wrong_when_nothing_is_made_to(seed: int) -> None:
    run(seed, "calm")


@pytest.mark.parametrize("seed", range(1, 5))
def test_beyond_the_contract_errors_are_loud_and_bytes_are_right(seed: int) -> None:
    run(seed, "beyond")


@pytest.mark.parametrize("seed", range(1, 6))
def test_short_schedules_made_for_it_lose_nothing(seed: int) -> None:
    run(seed, "scenes")
