"""The last add confirmed, collected from the last ensemble. Pure.

A reader takes the highest verified LAC among answers that cover every write set: whatever LAC an ack quorum
holds, one of them has it (docs/log-semantics.md#rule-14, docs/bookkeeper.md#coverage). All entries of a ledger
before its last fragment are confirmed, so its start is a floor.
"""

from __future__ import annotations

from ledger.core.quorum import covered
from ledger.model import EntryId, LedgerMetadata


class LacCollector:
    def __init__(self, metadata: LedgerMetadata) -> None:
        self._quorum = metadata.quorum
        self._known: set[int] = set()
        self._answered: set[int] = set()
        self.lac = EntryId(metadata.last_fragment.first_entry - 1)
        self.length = 0
        """Ledger length in the header with the highest LAC; 0 if none had one."""

    def on_answer(self, position: int, lac: int, length: int = 0) -> None:
        """The member has this LAC, verified; -1 if it has proved that it holds none."""
        self._known.add(position)
        self._answered.add(position)
        if lac > self.lac:
            self.lac = EntryId(lac)
            self.length = length

    def on_part(self, position: int, lac: int) -> None:
        """The member has at least this LAC, verified, and may have a higher one that it could not show.

        It counts for the maximum and not for coverage: the LAC of its last entry may be the highest one promised.
        """
        self._answered.add(position)
        self.lac = EntryId(max(self.lac, lac))

    def on_failure(self, position: int) -> None:
        """The member did not answer, or nothing follows from its answer."""
        self._answered.add(position)

    @property
    def covered(self) -> bool:
        return covered(self._known, self._quorum)

    @property
    def exhausted(self) -> bool:
        """Whether every member has answered or failed."""
        return len(self._answered) == self._quorum.ensemble
