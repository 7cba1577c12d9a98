"""What a repair of one ledger did, and what it had to leave."""

from __future__ import annotations

from dataclasses import dataclass, field

from ledger.model import NO_ENTRY, BookieId, EntryId, LedgerId


@dataclass(frozen=True, slots=True)
class Repaired:
    """Copies made. `old` equals `new` where a member got back what it lacked."""

    first_entry: int
    last_entry: int
    old: BookieId
    new: BookieId
    entries: int
    payload_bytes: int


@dataclass(slots=True)
class LedgerOutcome:
    ledger_id: LedgerId
    repaired: list[Repaired] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """What could not be repaired, a sentence each; it may be possible later."""
    open_lost: tuple[BookieId, ...] = ()
    """Lost members of the last fragment of a ledger that is not closed: its writer may replace them."""
    lacking: set[BookieId] = field(default_factory=set)
    """Registered bookies that lack copies, as `look` has found."""
    lost: set[BookieId] = field(default_factory=set)
    """Members of closed fragments that are not registered, as `look` has found."""
    read_through: EntryId = NO_ENTRY
    """Nothing is lacking in the closed fragments up to this entry, of which every copy of the suspects was read."""
    deleted: bool = False

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be lacking."""
        return not self.left and not self.open_lost

    @property
    def missing(self) -> set[BookieId]:
        """Bookies whose copies are missing, as `look` has found. Empty although the outcome is not complete: what is in
        `left` could not be found out.
        """
        return self.lacking.union(self.lost, self.open_lost)

    @property
    def entries(self) -> int:
        return sum(each.entries for each in self.repaired)

    @property
    def payload_bytes(self) -> int:
        return sum(each.payload_bytes for each in self.repaired)

    def add(self, earlier: LedgerOutcome) -> None:
        """What an earlier attempt had repaired counts, what it had left does not."""
        self.repaired[:0] = earlier.repaired


def sentence(outcome: LedgerOutcome) -> str:
    """One line about the ledger, for operators."""
    if outcome.deleted:
        return f"ledger {outcome.ledger_id} was deleted"
    parts = []
    if outcome.repaired:
        moves = {(each.old, each.new): None for each in outcome.repaired}
        where = ", ".join(f"to {new}" if old == new else f"from {old} to {new}" for old, new in moves)
        entries = outcome.entries
        parts.append(f"copied {entries:,} {'entry' if entries == 1 else 'entries'} {where}")
    parts += outcome.left
    if outcome.open_lost:
        parts.append(f"is open, and {', '.join(outcome.open_lost)} is still in its ensemble")
    return f"ledger {outcome.ledger_id}: {'; '.join(parts) or 'lacks nothing'}"
