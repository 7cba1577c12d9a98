"""Whether the writer's epoch was confirmed recently enough to deliver an ack (docs/log-semantics.md#rule-25).

After a takeover the writer's ledgers may be deleted once the log's grace has passed, and bookies that forget
deletions would accept its adds again. So an ack counts only within half a grace of the last proof, on a clock that
counts suspend. Without a grace there is nothing to guard. The grace is that of the record as this owner knows it: the
next owner keeps the ledgers for as long, or longer.

Pitfall: docs/pitfalls.md#paused-writer.
"""

from __future__ import annotations

from collections.abc import Callable

from ledger.environment import Environment


class EpochGuard:
    def __init__(self, environment: Environment, grace_s: Callable[[], float], confirmed_at: float) -> None:
        self._environment = environment
        self._grace_s = grace_s
        self._confirmed_at = confirmed_at

    def now(self) -> float:
        """To be read before a read or compare-and-set that may confirm the epoch."""
        return self._environment.boot_s()

    def confirm(self, asked_at: float) -> None:
        """A linearizable read, or our own change, begun after `asked_at` has proved that we own the log."""
        self._confirmed_at = max(self._confirmed_at, asked_at)

    @property
    def stale(self) -> bool:
        half_s = self._grace_s() / 2
        return half_s > 0 and self._environment.boot_s() - self._confirmed_at > half_s
