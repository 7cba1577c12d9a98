"""What the parts of the simulated machine ask of the loop that runs them."""

from __future__ import annotations

import asyncio
from contextvars import Context

from dlog.testing.kernel.trace import Trace


class Scheduler(asyncio.AbstractEventLoop):
    """The simulated loop as its handles and the network know it."""

    now: float
    """What `time` returns."""
    trace: Trace

    def kernel_context(self) -> Context:
        """A context for work that belongs to no process, so that none can be paused in the middle of it."""
        raise NotImplementedError

    def next_number(self) -> int:
        """For a task or a future that is hashed for the first time."""
        raise NotImplementedError

    def timer_cancelled(self) -> None:
        """One more timer in the heap will never fire."""
        raise NotImplementedError
