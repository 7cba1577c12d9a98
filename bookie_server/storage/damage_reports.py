"""Reports what reads could not get from entry logs: clients only get EIO, and an operator must learn of it.

Counting costs a read nothing that is formatted; sentences are made when they are logged.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bookie_server.errors import LimboError, StorageError, TooManyFilesError
from bookie_server.journal.record import SUFFIX as JOURNAL_SUFFIX
from bookie_server.storage.entry_logs.format import SUFFIX
from ledger.errors import LogStoreError

logger = logging.getLogger(__name__)

REPORT_S = 60.0
"""The first failed read of an entry log is logged immediately, those after it as a number, and no more often."""
WAY_OUT = (
    "clients read the copies on other bookies, and `dlog verify LOG` shows what is left of them; check the disk: "
    "docs/operations.md#a-damaged-entry-log"
)


@dataclass(slots=True)
class DamageReports:
    """Failed reads by entry log; None for entries that index and entry logs together have lost."""

    _known: set[Path | None] = field(default_factory=set)
    _more: Counter[Path | None] = field(default_factory=Counter)
    _due: float = 0.0
    failed_reads: int = 0
    """All that were reported."""

    def note(self, error: LogStoreError) -> None:
        """A read ended with this error. What other modules report is left to them: index, limbo, no descriptors."""
        if not isinstance(error, StorageError) or isinstance(error, LimboError):
            return
        if isinstance(error.__cause__, TooManyFilesError):
            return
        self.failed_reads += 1
        path = error.path
        if path in self._known:
            self._more[path] += 1
        elif path is None or path.suffix in (SUFFIX, JOURNAL_SUFFIX):
            self._known.add(path)
            logger.warning("%s; %s", error, WAY_OUT)

    def report_due(self, now: float) -> None:
        """Log the reads that failed since the last report, if that was long enough ago. `now`: seconds, monotonic."""
        if self._more and now >= self._due:
            self._due = now + REPORT_S
            self.report()

    def report(self) -> None:
        """The same, whenever the last report was."""
        for path, count in self._more.items():
            where = "of lost entries" if path is None else f"of entry log {path}"
            logger.warning(
                "%d more failed %s %s; %s", count, "read" if count == 1 else "reads", where, WAY_OUT
            )
        self._more.clear()
