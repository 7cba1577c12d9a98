"""Detects that the active ledger is due for replacement: after every run of acks, and when time alone decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dlog.config import LogConfig
from dlog.core.rotation_triggers import LedgerUse, at_hard_limit, is_full, next_check, reason_to_rotate
from dlog.write.task_scope import TaskScope
from ledger.buggify import buggify
from ledger.model import BookieSet

_DEGRADED_CHECK_S = 0.5
_CHECK_MIN_S = 0.05
_DUE_CHECK_S = 5.0
"""Of a ledger that is due and is not replaced yet: whatever keeps it from that is tried again without this check."""


class RotationMonitor:
    """Follows one ledger at a time. One timer, and a few comparisons for each run of acks."""

    __slots__ = (
        "_bookies",
        "_ensemble",
        "_forced",
        "_full_noted",
        "_limits",
        "_on_check",
        "_on_due",
        "_on_hard_limit",
        "_tasks",
        "_timer",
        "_use",
    )

    def __init__(
        self,
        config: LogConfig,
        bookies: Callable[[], BookieSet],
        tasks: TaskScope,
        *,
        on_due: Callable[[], None],
        on_hard_limit: Callable[[], None],
        on_check: Callable[[], None],
    ) -> None:
        """`on_check`: called at each check that time alone brings about: of an idle log every `idle_s`."""
        self._limits = config.rotation
        self._ensemble = config.quorum.ensemble
        self._bookies = bookies
        self._tasks = tasks
        self._on_due = on_due
        self._on_hard_limit = on_hard_limit
        self._on_check = on_check
        self._use: LedgerUse | None = None
        self._full_noted = False
        self._forced = False
        """Whether the next check finds the ledger full, unless it is empty."""
        self._timer: asyncio.TimerHandle | None = None

    def follow(self, use: LedgerUse) -> None:
        """The active ledger is another one now."""
        self._use = use
        self._full_noted = False
        self._schedule(use)

    def on_acks(self) -> None:
        """A ledger that has not reached a limit is due by time only, which the timer sees."""
        use, limits = self._use, self._limits
        if use is not None and (use.degraded or is_full(use, limits)):
            self.look()

    def look(self) -> None:
        use = self._use
        if use is None:
            return
        limits = self._limits
        if at_hard_limit(use, limits):
            self._on_hard_limit()
        now = asyncio.get_running_loop().time()
        available = len(self._bookies().writable) >= self._ensemble
        if reason_to_rotate(use, limits, now, ensemble_available=available) is not None:
            self._on_due()
        elif not self._full_noted and is_full(use, limits):
            self._full_noted = True  # but too young: check again when it is old enough
            self._schedule(use)

    def _schedule(self, use: LedgerUse) -> None:
        if self._timer is not None:
            self._tasks.cancel(self._timer)
        now = asyncio.get_running_loop().time()
        at = now + _DEGRADED_CHECK_S if use.degraded else next_check(use, self._limits)
        if at <= now:
            # Time alone makes no empty ledger due; an append may have come by then.
            at = now + (_DUE_CHECK_S if use.entries_taken else self._limits.idle_s)
        if (share := buggify("writer.early-rotation")) and not self._forced:
            self._forced, at = True, now + share
        self._timer = self._tasks.later(max(at - now, _CHECK_MIN_S), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._forced and self._use is not None and self._use.entries_taken > 0:
            self._forced = False
            self._on_due()
        self.look()
        self._on_check()
        if self._use is not None and self._timer is None:
            self._schedule(self._use)
