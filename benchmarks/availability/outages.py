"""The outages of the benchmark, and what a trial of one found. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

BOOKIES = 4
QUORUM = "E3 Qw3 Qa2"
OPERATIONS = ("Create", "Open", "Append", "Read", "Shrink", "Rotate")
PAUSES = ("Appender", "Reader")
"""Longest time without an acknowledgement, and without a message at a tailing reader."""


@dataclass(frozen=True, slots=True)
class Outage:
    """What is down: some bookies of the active ledger's ensemble, the writer's process, or both."""

    bookies: int = 0
    client: bool = False
    hung: bool = False
    """Stopped (SIGSTOP): connections stay open and no response comes. Otherwise killed (SIGKILL)."""

    @property
    def name(self) -> str:
        parts = {0: [], 1: ["one bookie"], 2: ["two bookies"]}[self.bookies]
        parts += ["client"] if self.client else []
        return f"{' and '.join(parts)} {'hung' if self.hung else 'killed'}" if parts else "none"


OUTAGES = (
    Outage(),
    *(
        Outage(bookies, client, hung)
        for bookies, client in ((1, False), (0, True), (1, True), (2, False))
        for hung in (False, True)
    ),
)


@dataclass(slots=True)
class Durations:
    """One operation in all trials of an outage."""

    ms: list[float] = field(default_factory=list)
    """Of successful ones. Appends: of each; of the others one a trial."""
    worked: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def trials(self) -> int:
        return self.worked + len(self.failures)
