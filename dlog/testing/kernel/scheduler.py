"""What the parts of the simulated machine ask of the loop that runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context

from dlog.testing.kernel.trace import Trace


class Scheduler(asyncio.AbstractEventLoop):
    """The simulated loop as its handles and the network know it."""

    now: float
    """The time of the simulation. `time` returns it as the clock of the running node shows it."""
    trace: Trace

    def at(self, when: float, callback: Callable[[], object], *, context: Context) -> None:
        """As `call_at`, at a time of the simulation, whatever the clock of the node shows then."""
        raise NotImplementedError

    def kernel_context(self) -> Context:
        """A context for work that belongs to no process, so that none can be paused in the middle of it."""
        raise NotImplementedError

    def next_number(self) -> int:
        """For a task or a future that is hashed for the first time."""
        raise NotImplementedError

    def timer_cancelled(self) -> None:
        """One more timer in the heap will never fire."""
        raise NotImplementedError
