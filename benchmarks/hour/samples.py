"""What is measured during the hour, and what follows from it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.histogram import percentile

MB = 1e6
JOURNAL_AT_REST_MB = 2 * 32 * 1024 * 1024 / MB
"""Two preallocated files."""


@dataclass(slots=True)
class Seconds:
    """Acknowledged appends of each second, and how long they took from when they were due."""

    acked: list[int] = field(default_factory=list)
    p50_ms: list[float | None] = field(default_factory=list)
    p99_ms: list[float | None] = field(default_factory=list)
    """None: nothing was acknowledged in this second."""
    largest_ms: list[float | None] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)
    """Messages that the tailing reader got and checked."""
    _current: list[float] = field(default_factory=list)

    def add(self, at_s: float, ms: float) -> None:
        """An append, acknowledged at this time; calls come in the order of times."""
        self.finish(int(at_s))
        self._current.append(ms)

    def finish(self, second: int) -> None:
        """All before this second is known."""
        while len(self.acked) < second:
            ordered, self._current = sorted(self._current), []
            self.acked.append(len(ordered))
            for column, share in ((self.p50_ms, 0.5), (self.p99_ms, 0.99), (self.largest_ms, 1)):
                column.append(round(percentile(ordered, share), 2) if ordered else None)

    def columns(self) -> dict[str, list[int] | list[float | None]]:
        return {
            "acked": self.acked,
            "p50_ms": self.p50_ms,
            "p99_ms": self.p99_ms,
            "largest_ms": self.largest_ms,
            "delivered": self.delivered,
        }


@dataclass(slots=True, kw_only=True)
class SpaceSample:
    """Files of each bookie, and what the metadata store and the scrubbers say."""

    at_s: float
    entry_logs_mb: dict[str, float]
    """By bookie: bytes that its entry logs take on the disk."""
    journal_mb: dict[str, float]
    """Preallocated files included."""
    marks: int
    """Ledgers that are marked as under-replicated."""
    damaged_blocks: int
    """That scrubbers have found, in the pass under way or in the last one."""
    load: float
    """Of the machine, over a minute."""

    @property
    def entry_logs_total_mb(self) -> float:
        return sum(self.entry_logs_mb.values())

    @property
    def stored_mb(self) -> float:
        """What bookies have stored: entry logs, and journals without the two files that each has at rest."""
        journals = sum(max(0.0, size - JOURNAL_AT_REST_MB) for size in self.journal_mb.values())
        return self.entry_logs_total_mb + journals


@dataclass(slots=True, kw_only=True)
class CopiesSample:
    """Copies of entries."""

    at_s: float
    by_copies: dict[str, int]
    """Entries by number of registered bookies that metadata names for them: where a reader finds them."""
    short_fragments: int
    """Fragments with fewer such bookies than their write quorum."""
    short_entries: int
    smaller_quorum: int
    """Entries of ledgers whose write quorum is below that of the log's settings."""
    read: int
    """Entries of which all copies were read, chosen at random."""
    least_intact: int
    """Fewest intact copies of one of these."""
    mean_intact: float
    flipped: int
    """Entries in the blocks with a flipped bit, of ledgers that are still there."""
    flipped_intact: int
    """Of these, those with a write quorum of intact copies."""

    @property
    def mean_copies(self) -> float:
        entries = sum(self.by_copies.values())
        return (
            sum(int(copies) * count for copies, count in self.by_copies.items()) / entries if entries else 0.0
        )

    @property
    def least_copies(self) -> int:
        return min((int(copies) for copies, count in self.by_copies.items() if count), default=0)


@dataclass(frozen=True, slots=True)
class Event:
    at_s: float
    name: str
    detail: str = ""


FOUND_UNDER_REPLICATED, REPLICATED = "loss marked", "copies restored"
SPACE_BACK, DAMAGE_FOUND, DAMAGE_REPAIRED = "space returned", "scrub found it", "damage repaired"
SPACE_PART = 0.9
"""Part of the deleted bytes that must be back."""


def first_after(
    at_s: float,
    samples: Sequence[SpaceSample] | Sequence[CopiesSample],
    holds: Callable[[SpaceSample], bool] | Callable[[CopiesSample], bool],
) -> float | None:
    """When the first sample after `at_s` was taken for which this holds."""
    return next((each.at_s for each in samples if each.at_s > at_s and holds(each)), None)  # type: ignore[arg-type]  # the kind of the samples


def damage_repaired_at(samples: Sequence[CopiesSample]) -> float | None:
    """When all copies of entries with flipped bits were intact, after some were not; None if that was never seen.

    Until their blocks leave the bookie's caches, damaged copies are read as they were.
    """
    damaged = [each.at_s for each in samples if each.flipped_intact < each.flipped]
    if not damaged:
        return None
    return first_after(damaged[-1], samples, lambda each: each.flipped_intact == each.flipped)


def longest_gap_s(seconds: Seconds) -> int:
    """Most seconds in sequence without an acknowledgement."""
    busy = [-1, *(at for at, count in enumerate(seconds.acked) if count), len(seconds.acked)]
    return max(later - earlier - 1 for earlier, later in pairwise(busy))


def deleted_mb(samples: Sequence[SpaceSample], at_s: float, part: float) -> float:
    """What deleted logs took at the last sample before: `part` of all, as logs are equal."""
    before = [each for each in samples if each.at_s <= at_s]
    return before[-1].stored_mb * part if before else 0.0


def space_returned_at(
    samples: Sequence[SpaceSample], at_s: float, part: float, grows_mb_per_s: float
) -> float | None:
    """When SPACE_PART of the deleted bytes had left the disks, with what is appended since taken out."""
    size = deleted_mb(samples, at_s, part)
    before = size / part if part else 0.0
    return first_after(
        at_s,
        samples,
        lambda each: each.stored_mb - (each.at_s - at_s) * grows_mb_per_s <= before - SPACE_PART * size,
    )
