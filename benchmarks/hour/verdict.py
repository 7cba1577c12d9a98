"""Whether anything was lost. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


class LostError(Exception):
    """An acknowledged message was not read, or an entry lacks copies at the end."""


@dataclass(slots=True, kw_only=True)
class LogResult:
    """One log that was not deleted, at the end."""

    log: int
    acked: int
    read: int
    faults: list[str] = field(default_factory=list)
    """What a new reader found wrong."""
    entries: int = 0
    complete: int = 0
    """Entries with a write quorum of intact, equal copies; all copies were read."""
    damaged: int = 0
    """Ledgers with a damaged copy."""
    smaller_quorum: int = 0
    """Entries of ledgers that were begun with fewer bookies than the log's settings ask for."""


@dataclass(slots=True, kw_only=True)
class Verdict:
    logs: list[LogResult] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Appends and other operations that failed."""
    tail_faults: list[str] = field(default_factory=list)
    """What was wrong at the tailing reader, deleted logs included."""
    tail_ends: list[str] = field(default_factory=list)
    """Tailing readers that ended although their log was not deleted."""

    def lost(self) -> list[str]:
        """What the benchmark fails for; failed appends are no loss."""
        unread = [] if self.logs else ["no log was read"]
        return [*unread, *self._of_logs(), *self.tail_faults, *self.tail_ends]

    def _of_logs(self) -> Iterator[str]:
        for each in self.logs:
            yield from each.faults
            if each.complete < each.entries:
                yield f"log {each.log}: {each.entries - each.complete} of {each.entries} entries lack copies"
            if each.damaged:
                yield f"log {each.log}: {each.damaged} ledgers have a damaged copy"

    def lines(self) -> list[str]:
        """For the terminal."""
        read, acked = sum(each.read for each in self.logs), sum(each.acked for each in self.logs)
        entries, complete = sum(each.entries for each in self.logs), sum(each.complete for each in self.logs)
        smaller = sum(each.smaller_quorum for each in self.logs)
        lines = [
            f"{len(self.logs)} logs read back: {read:,} messages, {acked:,} acknowledged",
            f"{complete:,} of {entries:,} entries have their write quorum of intact copies",
            f"{smaller:,} of them are in ledgers of a smaller write quorum, begun while a bookie was missing",
            f"{len(self.failures)} operations failed",
        ]
        lines += [f"failed: {each}" for each in self.failures[:10]]
        return lines + [f"LOST: {each}" for each in self.lost()]
