"""How far repair has come: what was copied, and what is being copied. Read while it runs, on the same event loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ledger.model import LedgerId


@dataclass(slots=True)
class LedgerProgress:
    """A ledger that is being repaired, or checked."""

    ledger_id: LedgerId
    began_ms: int
    """When that began (ms since 1970), for display."""
    entries_total: int = 0
    """Entries to copy, as far as is known: what a registered member lacks counts once its copies were read."""
    entries: int = 0
    """Sent to their new bookies; all but the last few of them are acknowledged."""
    payload_bytes: int = 0
    copies_total: int = 0
    """Copies to read, as far as is known: all of a member once a sample shows that it lacks some."""
    copies_read: int = 0

    def add(self, entries: int, payload_bytes: int) -> None:
        self.entries += entries
        self.payload_bytes += payload_bytes

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """One copy. If it raises, what it has added does not count: it is copied again, or left."""
        entries, payload_bytes = self.entries, self.payload_bytes
        try:
            yield
        except BaseException:
            self.entries, self.payload_bytes = entries, payload_bytes
            raise


class CopyProgress:
    """All that one process, or one command, copies."""

    def __init__(self) -> None:
        self.current: dict[LedgerId, LedgerProgress] = {}
        """In the order in which they were begun."""
        self._entries = 0
        self._payload_bytes = 0

    @property
    def entries(self) -> int:
        """Of all ledgers so far."""
        return self._entries + sum(each.entries for each in self.current.values())

    @property
    def payload_bytes(self) -> int:
        return self._payload_bytes + sum(each.payload_bytes for each in self.current.values())

    @contextmanager
    def of(self, ledger_id: LedgerId, began_ms: int) -> Iterator[LedgerProgress]:
        """The progress of a ledger, which is current for the length of the block."""
        progress = self.current[ledger_id] = LedgerProgress(ledger_id, began_ms)
        try:
            yield progress
        finally:
            if self.current.get(ledger_id) is progress:
                del self.current[ledger_id]
            self._entries += progress.entries
            self._payload_bytes += progress.payload_bytes


def copied_so_far(progress: LedgerProgress) -> str:
    """For operators, without the ledger's id."""
    if not progress.entries_total:
        if not progress.copies_total:
            return "reading copies"
        return f"read {progress.copies_read:,} of {progress.copies_total:,} copies"
    return f"copied {progress.entries:,} of {progress.entries_total:,} entries, {megabytes(progress.payload_bytes)}"


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


@dataclass(slots=True)
class DrainProgress:
    """Of `bookie recover` and `bookie decommission`."""

    ledgers: int = 0
    """Those that name the bookie, as far as is known; 0 until the metadata of all was read."""
    ledgers_done: int = 0
    copies: CopyProgress = field(default_factory=CopyProgress)


@dataclass(slots=True)
class CheckProgress:
    """Of `bookie check-copies`."""

    ledgers: int = 0
    """Those that were checked."""
    copies: CopyProgress = field(default_factory=CopyProgress)


@dataclass(slots=True)
class WorkerProgress:
    """What a worker does, and has done since it began."""

    ledgers: int = 0
    """Ledgers of which nothing is lacking any more."""
    waiting: int = 0
    """Ledgers that could not be repaired and are tried again."""
    copies: CopyProgress = field(default_factory=CopyProgress)
