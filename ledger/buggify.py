"""Points at which the simulator forces behaviour that is legal but rare: a slow step, a small batch, a cache miss.

FoundationDB's habit and word. In production `fires` is None and a point does nothing. No point is on a path that runs
for each entry. The points are listed in docs/simulation.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

fires: Callable[[str], float] | None = None
"""Set by the simulator for the time of a run."""


def buggify(point: str) -> float:
    """How much of the point's behaviour is forced now, above 0 and at most 1; 0 if nothing is forced."""
    return 0.0 if fires is None else fires(point)


async def linger(point: str) -> None:
    """Wait up to a second if that is forced."""
    if share := buggify(point):
        await asyncio.sleep(share)
