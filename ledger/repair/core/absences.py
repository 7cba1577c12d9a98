"""Which bookies have been away for long enough to count as lost. Pure: told of time and registrations.

A bookie is away from the first look that misses it, and due once the delay is over. If another one goes meanwhile, both
are due at once, as BookKeeper's auditor has it: the next failure could be one too many.
"""

from __future__ import annotations

from collections.abc import Collection

from ledger.model import BookieId


class Absences:
    def __init__(self) -> None:
        self._known: set[BookieId] = set()
        self._away_since: dict[BookieId, float] = {}
        self._never_seen: set[BookieId] = set()
        """Away, and never registered since the first look: after a start of the whole cluster that is no loss yet."""
        self.lost: set[BookieId] = set()
        """Away for the delay, and their ledgers are marked."""

    def see(self, registered: Collection[BookieId], now: float) -> None:
        """What is registered now; a bookie that was once and is not any more is away."""
        for bookie_id in self._known.difference(registered):
            self._away_since.setdefault(bookie_id, now)
        self._known.update(registered)
        for bookie_id in registered:
            self._away_since.pop(bookie_id, None)
            self._never_seen.discard(bookie_id)
            self.lost.discard(bookie_id)

    def expect(self, named: Collection[BookieId], now: float) -> None:
        """The bookies that ledgers name. One that has not been seen is away from now on, one that no ledger names any
        more is of no interest.
        """
        for bookie_id in set(named) - self._known:
            self._known.add(bookie_id)
            self._never_seen.add(bookie_id)
            self._away_since[bookie_id] = now
        for bookie_id in set(self._away_since).difference(named):
            del self._away_since[bookie_id]
            self._known.discard(bookie_id)
            self._never_seen.discard(bookie_id)
            self.lost.discard(bookie_id)

    def due(self, now: float, delay_s: float) -> set[BookieId]:
        """Those that are to be marked now."""
        waiting = {each: since for each, since in self._away_since.items() if each not in self.lost}
        gone = waiting.keys() - self._never_seen
        over = {each for each, since in waiting.items() if now >= since + delay_s}
        return over | (gone if len(gone) > 1 else set())

    def waiting(self) -> set[BookieId]:
        """Those that are away and not lost yet."""
        return set(self._away_since) - self.lost

    def on_marked(self, bookie_ids: Collection[BookieId]) -> None:
        self.lost.update(each for each in bookie_ids if each in self._away_since)

    def doubt(self) -> None:
        """Marks of lost bookies may have been cleared, with reason: those that are away are due again."""
        self.lost.clear()

    def next_due(self, delay_s: float) -> float | None:
        """When the next one will be due; None if none is waited for."""
        return min((self._away_since[each] + delay_s for each in self.waiting()), default=None)
