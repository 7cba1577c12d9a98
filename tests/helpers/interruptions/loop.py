"""A loop that does something to a process at the n-th callback that is scheduled for it.

A process of one thread can be met by kill -9, SIGSTOP or a power cut between any two of its callbacks, and what it
does within one is seen by nobody before: so these are all the places there are. One that strikes itself goes on to
the end of the callback that runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple

from dlog.testing.kernel.limits import Limits
from dlog.testing.kernel.loop import SimulatedLoop
from dlog.testing.kernel.nodes import NODE
from dlog.testing.kernel.seeds import Seeds

Ts = TypeVarTuple("Ts")


class InterruptingLoop(SimulatedLoop):
    """Counts the callbacks from `watch` on."""

    def __init__(self, seeds: Seeds, point: int) -> None:
        super().__init__(seeds, Limits(steps_max=1_000_000, virtual_s_max=5000.0))
        self.point = point
        self._count = 0
        self._name = ""
        self._interrupt: Callable[[], None] = _nothing
        self.interrupted = False

    def watch(self, name: str, interrupt: Callable[[], None]) -> None:
        """Call `interrupt` at the callback `point` of the process, counted from one."""
        self._name, self._interrupt = name, interrupt

    def unwatch(self) -> None:
        """It has done what it was to be interrupted at."""
        self._name = ""

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = super().call_soon(callback, *args, context=context)
        node = self.node if context is None else context.get(NODE, self.world)
        if node.name == self._name:
            self._count += 1
            if self._count == self.point:
                self.interrupted = True
                self._interrupt()
        return handle


def _nothing() -> None:
    pass
