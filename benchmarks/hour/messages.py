"""The messages of the logs, and the check of what a reader gets. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

MESSAGE_BYTES = 1024
_PATTERN = random.Random(16).randbytes(8 * MESSAGE_BYTES)
_PROBLEMS_MAX = 5


def encode(log: int, number: int) -> bytes:
    """Message `number` of the log: both numbers, and bytes that differ from those of its neighbours."""
    head = b"%d %d " % (log, number)
    start = (log * 331 + number * 17) % (7 * MESSAGE_BYTES)
    return head + _PATTERN[start : start + MESSAGE_BYTES - len(head)]


@dataclass(slots=True)
class ReadCheck:
    """What a reader of one log got so far, compared with what was appended."""

    log: int
    count: int = 0
    next: int = 0
    """Number of the message that comes next, if none is missing."""
    missing: list[int] = field(default_factory=list)
    """Numbers that were passed over."""
    problems: list[str] = field(default_factory=list)

    def take(self, payload: bytes) -> None:
        """The next message of the reader."""
        try:
            number = int(payload.split(b" ", 2)[1])
        except (IndexError, ValueError):
            self._report(f"a message begins with {payload[:20]!r}")
            return
        if payload != encode(self.log, number):
            self._report(f"message {number} has another content")
        if number < self.next:
            self._report(f"message {number} comes after {self.next - 1}")
            return
        self.missing += range(self.next, number)
        self.next = number + 1
        self.count += 1

    def faults(self, acked: set[int] | range) -> list[str]:
        """What is wrong if these were acknowledged; others may be there or not."""
        found = [f"log {self.log}: {problem}" for problem in self.problems]
        absent = sum(number in acked for number in self.missing)
        absent += sum(number >= self.next for number in acked) if self.next <= max(acked, default=-1) else 0
        if absent:
            found.append(f"log {self.log}: {absent} acknowledged messages are missing")
        return found

    def _report(self, problem: str) -> None:
        if len(self.problems) < _PROBLEMS_MAX:
            self.problems.append(problem)
