"""Crash windows of the log, one by one: whoever acts is interrupted at every callback and every request to the store.

Source: docs/log-semantics.md#crash-windows.
By default at some of them only; `python -m tests.helpers.interruptions` strikes at all.
"""

from __future__ import annotations

import pytest

from tests.helpers.interruptions.runner import REQUESTS, faults_of, run_at_every_point
from tests.helpers.interruptions.scenarios import SCENARIOS

pytestmark = pytest.mark.slow

_EACH = [(name, fault) for name, scenario in SCENARIOS.items() for fault in faults_of(scenario)]
_FIRST_MAX, _STEP = 23, 263
"""Primes, so that the places differ from scenario to scenario; each scenario has at least `_FIRST_MAX` callbacks."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "fault"), _EACH)
def test_nothing_is_lost_wherever_it_is_interrupted(name: str, fault: str) -> None:
    if fault in REQUESTS:
        assert run_at_every_point(SCENARIOS[name], fault, first=1 + len(name) % 4, step=4) >= 2
    else:
        assert run_at_every_point(SCENARIOS[name], fault, first=1 + len(name) % _FIRST_MAX, step=_STEP) >= 1
