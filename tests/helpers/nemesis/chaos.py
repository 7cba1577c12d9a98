"""What all kinds of faults need: the seed's randomness, an end for each fault, a record of what was done."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

Action = Callable[[], Awaitable[None]]


class Chaos:
    """One run's faults, as far as they have begun, and what will end them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.steps: list[str] = []
        """What was done, in words, for the report of a failure."""
        self.counts: Counter[str] = Counter()
        """Faults that took place, by kind."""
        self._tasks: set[asyncio.Task[None]] = set()

    def fault(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        self.note(f"{kind}: {text}")

    def note(self, text: str) -> None:
        self.steps.append(f"{asyncio.get_running_loop().time():.2f} {text}")

    def later(self, delay_s: float, action: Action) -> None:
        """What ends a fault. `settled` waits for it."""

        async def run() -> None:
            await asyncio.sleep(delay_s)
            await action()

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)

    async def settled(self) -> None:
        """Return when all that was to happen later has happened; raises what it raised."""
        while self._tasks:
            tasks, self._tasks = self._tasks, set()
            await asyncio.gather(*tasks)
