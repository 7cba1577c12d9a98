"""One entry's replicas: which to ask next, and what the answers prove. Pure.

Answers have three values: a bookie has the entry, has proved that it does not, or nothing is known. Only an explicit
denial is a no; an error, a timeout or a damaged copy is not (docs/bookkeeper.md#reads, #recovery-reads).
One intact copy decides for yes. A no takes Qw - Qa + 1 denials, so that no ack quorum can exist; and for an entry
that is known to be confirmed, a denial by every replica, since one of them must have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ledger.core.quorum import absence_proved
from ledger.model import BookieId, QuorumSizes
from ledger.wire.status import Answer


class Verdict(Enum):
    PENDING = "pending"
    FOUND = "found"
    ABSENT = "absent"
    UNDECIDED = "undecided"
    """Every replica was asked, none has it intact, and absence is not proved."""


class EntryRead:
    """Ask `replicas` in order, the next one after every answer that is no copy, or when one is slow."""

    def __init__(self, replicas: Sequence[BookieId], quorum: QuorumSizes, *, confirmed: bool = False) -> None:
        self._quorum = quorum
        self._confirmed = confirmed
        self._replica_count = len(replicas)
        self._unasked = list(replicas)
        self._waiting: set[BookieId] = set()
        self._denied: set[BookieId] = set()
        self.verdict = Verdict.PENDING

    def ask_next(self) -> BookieId | None:
        """The replica to ask now: at the start, after an answer, or because the last one is slow."""
        if self.verdict is not Verdict.PENDING or not self._unasked:
            return None
        replica = self._unasked.pop(0)
        self._waiting.add(replica)
        return replica

    def on_answer(self, replica: BookieId, answer: Answer) -> Verdict:
        """An intact copy is YES; a damaged one, an error or a timeout is UNKNOWN."""
        self._waiting.discard(replica)
        if self.verdict is not Verdict.PENDING:
            return self.verdict
        if answer is Answer.YES:
            self.verdict = Verdict.FOUND
        elif answer is Answer.PROVED_NO:
            self._denied.add(replica)
            if self._absent():
                self.verdict = Verdict.ABSENT
        if self.verdict is Verdict.PENDING and not self._unasked and not self._waiting:
            self.verdict = Verdict.UNDECIDED
        return self.verdict

    def _absent(self) -> bool:
        if self._confirmed:
            return len(self._denied) == self._replica_count
        return absence_proved(len(self._denied), self._quorum)
