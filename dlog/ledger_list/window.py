"""A part of the list of a log's ledgers, as a reader needs it: from its position on. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from dlog.errors import HistoryPageError
from dlog.model import ListedLedger, MessageId


@dataclass(frozen=True, slots=True)
class ListWindow:
    """Consecutive listed ledgers, ascending."""

    ledgers: tuple[ListedLedger, ...]
    after: int
    """Number of listed ledgers that follow."""
    earliest: MessageId
    """The first id of the log that is not trimmed; if the window begins after it, the trim id.

    If that is in a page that cannot be read, the trim id, or where the page begins.
    """
    lost: HistoryPageError | None = None
    """The page that follows, if it cannot be read. Its first and its last ledger are listed, others may be."""
    _ids: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ids", tuple(listed.ledger_id for listed in self.ledgers))

    @property
    def ends(self) -> bool:
        """Whether no listed ledger follows."""
        return not self.after

    def covers(self, ledger_id: int) -> bool:
        """Whether `at_or_after` answers for the whole list, from where the window begins."""
        return self.ends or (bool(self.ledgers) and self.ledgers[-1].ledger_id >= ledger_id)

    def at_or_after(self, ledger_id: int) -> ListedLedger | None:
        """The listed ledger with the lowest id that is not below this one."""
        assert self.covers(ledger_id)
        at = bisect_left(self._ids, ledger_id)
        return self.ledgers[at] if at < len(self.ledgers) else None

    def lost_from(self, ledger_id: int) -> HistoryPageError | None:
        """The page that cannot be read, if the next listed ledger from this id on is in it."""
        if self.lost is None or self.covers(ledger_id) or ledger_id > self.lost.last:
            return None
        return self.lost

    def next_from(self, ledger_id: int) -> int | None:
        """The lowest listed id that is not below this one, as far as it is known here; None if none is."""
        if (lost := self.lost_from(ledger_id)) is not None:
            return max(ledger_id, lost.first)
        listed = self.at_or_after(ledger_id) if self.covers(ledger_id) else None
        return None if listed is None else listed.ledger_id

    def from_(self, ledger_id: int) -> Iterator[ListedLedger]:
        """The ledgers of this window with ids that are not below this one."""
        at = bisect_left(self._ids, ledger_id)
        return islice(self.ledgers, at, None)

    def find(self, ledger_id: int) -> ListedLedger | None:
        """The ledger of this id; None if it is not listed."""
        found = self.at_or_after(ledger_id)
        return found if found is not None and found.ledger_id == ledger_id else None

    def count_above(self, ledger_id: int) -> int:
        """Number of listed ledgers with a higher id."""
        return len(self.ledgers) - bisect_left(self._ids, ledger_id + 1) + self.after
