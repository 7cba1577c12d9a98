"""How long a writer holds appends that it cannot get acknowledged, and what it reports until then.

Source: docs/log-semantics.md#rule-19.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from dlog.config import LogConfig
from dlog.core.rotation import Phase, Rotation
from dlog.errors import AppendAbortedError
from dlog.metadata.log_ref import LogRef
from dlog.write.active_ledger import ActiveLedger
from dlog.write.append_deadline import AppendDeadline, DeadlineClock
from dlog.write.append_queue import AppendQueue
from dlog.write.task_scope import TaskScope
from ledger.errors import LogStoreError
from ledger.model import LedgerId

_log = logging.getLogger(__name__)


class HoldLimit:
    """Ends a writer whose appends wait for longer than `hold_limit_s`, and says what they wait for."""

    def __init__(
        self,
        ref: LogRef,
        config: LogConfig,
        tasks: TaskScope,
        rotation: Rotation,
        queue: AppendQueue,
        active_ledgers: Mapping[LedgerId, ActiveLedger],
        clock: DeadlineClock,
        *,
        give_up: Callable[[LogStoreError], None],
    ) -> None:
        self._ref = ref
        self._limit_s = config.hold_limit_s
        self._tasks = tasks
        self._rotation = rotation
        self._queue = queue
        self._active_ledgers = active_ledgers
        self._give_up = give_up
        self._error: LogStoreError | None = None
        """The last one that kept a ledger from taking appends; named to callers that wait."""
        self._reported = ""
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._stall: asyncio.TimerHandle | None = None
        self._stalled_at = 0.0
        """In loop time; without the time in which this process was stopped."""
        self._deadline = AppendDeadline(
            self._limit_s,
            clock,
            oldest=queue.oldest_at,
            on_slow=self._on_slow,
            on_overdue=self._on_overdue,
        )
        queue.deadline = self._deadline

    def report(self, what: str, error: LogStoreError) -> None:
        """Log a warning once, until the text changes or a ledger takes appends again."""
        self._error = error
        text = f"{what}: {error}"
        if text != self._reported:
            self._reported = text
            _log.warning("log %s: %s", self._ref, text)

    def on_progress(self) -> None:
        """A ledger takes appends."""
        self._error = None
        self._reported = ""

    def update(self) -> None:
        """Limit the time that appends wait for a ledger, and that a close waits for the store.

        Source: docs/log-semantics.md#rule-19.
        """
        rotation, queue = self._rotation, self._queue
        stuck = queue.active_ledger is None or rotation.phase in (Phase.CLOSING, Phase.RECOVERING)
        stuck = (stuck and not rotation.merely_full) or (rotation.closing and not queue.in_flight)
        stalled = stuck and not rotation.over
        if not stalled and self._stall is not None:
            self._tasks.cancel(self._stall)
            self._stall = None
        elif stalled and self._stall is None:
            self._stalled_at = self._loop.time()
            self._stall = self._tasks.later(self._limit_s, self._on_stall)

    def stop(self) -> None:
        self._deadline.stop()

    def _on_slow(self, waited_s: float) -> None:
        _log.warning(
            "log %s: an append has waited %.0f s, still trying up to %g s: %s",
            self._ref,
            waited_s,
            self._limit_s,
            self._reason(),
        )

    def _on_overdue(self) -> None:
        """In-flight appends end indeterminate, held ones rejected; nothing waits for longer.

        Source: docs/log-semantics.md#rule-19.
        """
        if self._rotation.over:
            return  # deposed or closed: its appends get their outcome anyway
        self._give_up(
            AppendAbortedError(
                f"log {self._ref}: an append was not acknowledged within {self._limit_s:g} s "
                f"({self._reason()}): restore its bookies and the metadata store, then open a new writer, or raise "
                "hold_limit_s (`dlog append --timeout`)",
                log=str(self._ref),
            )
        )

    def _on_stall(self) -> None:
        now = self._loop.time()
        self._clock.note_timer(now, self._stalled_at + self._limit_s)
        resumed_at = self._clock.resumed_at
        if resumed_at > self._stalled_at:
            self._stalled_at = resumed_at
            self._stall = self._tasks.later(max(0.001, resumed_at + self._limit_s - now), self._on_stall)
            return
        because = "" if self._error is None else f" ({self._error})"
        self._give_up(
            AppendAbortedError(
                f"log {self._ref} could not be written for {self._limit_s} s{because}; "
                "open a new writer when its bookies and the metadata store are available",
                log=str(self._ref),
            )
        )

    def _reason(self) -> str:
        """What keeps appends waiting: members that do not respond, and the last error."""
        found = [
            f"ledger {active_ledger.ledger_id}: {', '.join(troubles)}"
            for active_ledger in self._active_ledgers.values()
            if not active_ledger.detached and (troubles := active_ledger.handle.troubles())
        ]
        if self._error is not None:
            found.append(str(self._error))
        return "; ".join(found) or "its bookies respond slowly"
