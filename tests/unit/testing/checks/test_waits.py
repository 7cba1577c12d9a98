"""An append that waits beyond its writer's limit is found; what its process slept through is not counted."""

from __future__ import annotations

import math

import pytest

from dlog.testing.checks.history import Append, Outcome
from dlog.testing.checks.waits import Pause, c17_appends_end_in_time


@pytest.mark.parametrize(
    ("returned", "outcome", "pauses", "found"),
    [
        (108.0, Outcome.ACKED, (), False),
        (110.0, Outcome.ACKED, (), True),
        (110.0, Outcome.INDETERMINATE, (), True),
        (110.0, Outcome.CANCELLED, (), False),
        (math.inf, Outcome.INDETERMINATE, (), False),
        (120.0, Outcome.ACKED, (Pause("writer-0", 101.0, 10.0),), False),
        (125.0, Outcome.ACKED, (Pause("writer-0", 101.0, 10.0),), True),
        (110.0, Outcome.ACKED, (Pause("writer-1", 101.0, 10.0),), True),
        (110.0, Outcome.ACKED, (Pause("writer-0", 80.0, 10.0),), True),
    ],
)
@pytest.mark.parametrize("writer", ["writer-0.1", "writer-0#2.1"])
def test_waits(
    returned: float, outcome: Outcome, pauses: tuple[Pause, ...], found: bool, writer: str
) -> None:
    """Limit 2 s: twice that and the margin, 9 s in all. A process that was killed and started again is paused, too."""
    append = Append(writer, 0, b"", 100.0, returned, outcome)
    assert bool(list(c17_appends_end_in_time([append], 2.0, pauses))) == found
