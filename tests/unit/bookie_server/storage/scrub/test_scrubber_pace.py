"""How long the scrubber waits after a step."""

import pytest

from bookie_server.storage.scrub.scrubber import pause_s


def test_an_idle_bookie_is_read_at_the_rate_that_is_set() -> None:
    assert pause_s(1000, 0.25, bytes_per_s=1000, busy=False) == 0.75
    assert pause_s(1000, 2.0, bytes_per_s=1000, busy=False) == 0.0


def test_while_adds_arrive_a_step_takes_one_fiftieth_of_the_time() -> None:
    assert pause_s(1000, 0.1, bytes_per_s=10**9, busy=True) == pytest.approx(49 * 0.1)
    assert pause_s(1000, 0.25, bytes_per_s=10, busy=True) == 99.75


def test_a_step_during_which_the_process_stood_still_is_not_paid_for_with_minutes() -> None:
    assert pause_s(1000, 600.0, bytes_per_s=10**9, busy=True) == 10.0
