"""One member of a closed fragment replaced by another bookie: the choice, and the change of metadata. Pure.

The change is a pair for `update_loop.update_ledger`, decided on what metadata says then: the fragment has the same
entries and is still closed, the old bookie still holds the position, and the new one holds none. Anything else means
that another client was there in the meantime, and raises (docs/pitfalls.md#repair-on-a-stale-view).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from random import Random

from ledger.core.placement import ANYWHERE, PlacementPolicy
from ledger.model import BookieId, BookieSet, Fragment, LedgerId, LedgerMetadata
from ledger.repair.core.fragments import ClosedFragment, closed_fragments
from ledger.repair.errors import FragmentChangedError


@dataclass(frozen=True, slots=True)
class Replacement:
    """`new` has durable copies of all that `old` must hold of the fragment."""

    ledger_id: LedgerId
    fragment: ClosedFragment
    position: int
    old: BookieId
    new: BookieId

    def needed(self, metadata: LedgerMetadata) -> bool:
        """False once `new` is there: the answer to our write was lost.

        Raises:
            FragmentChangedError: the fragment is no longer as it was copied.
        """
        found = next((each for each in closed_fragments(metadata) if each.first == self.fragment.first), None)
        if found is None or found.last != self.fragment.last:
            raise self._changed("has other entries now")
        member = found.ensemble[self.position]
        if member == self.new:
            return False
        if member != self.old:
            raise self._changed(f"has {member} in place of {self.old} already")
        if self.new in found.ensemble:
            raise self._changed(f"has {self.new} at another position")
        return True

    def applied(self, metadata: LedgerMetadata) -> LedgerMetadata:
        """The metadata with `new` at the position."""
        fragments = []
        for each in metadata.fragments:
            if each.first_entry == self.fragment.first:
                ensemble = list(each.ensemble)
                ensemble[self.position] = self.new
                each = Fragment(each.first_entry, tuple(ensemble))
            fragments.append(each)
        return replace(metadata, fragments=tuple(fragments))

    def _changed(self, what: str) -> FragmentChangedError:
        return FragmentChangedError(
            f"the fragment of ledger {self.ledger_id} that begins at entry {self.fragment.first} {what}",
            ledger_id=self.ledger_id,
            first_entry=self.fragment.first,
        )


def choose_target(
    bookies: BookieSet,
    fragment: ClosedFragment,
    position: int,
    avoid: Collection[BookieId],
    preferred: BookieId | None,
    rng: Random,
    policy: PlacementPolicy = ANYWHERE,
) -> BookieId | None:
    """A writable bookie for the position, outside the ensemble and not among `avoid`; None if there is none.

    `preferred`, if it qualifies: what one bookie held of a ledger stays together.
    """
    taken = {*fragment.ensemble, *avoid}
    candidates = sorted(info.bookie_id for info in bookies.writable if info.bookie_id not in taken)
    if not candidates:
        return None
    slots = [None if at == position else member for at, member in enumerate(fragment.ensemble)]
    uniform = policy.is_uniform(candidates)
    if preferred in candidates and (uniform or policy.fits([preferred], slots, fragment.quorum)):
        return preferred
    if uniform:
        return rng.choice(candidates)
    chosen = policy.place(candidates, slots, fragment.quorum, rng)
    return None if chosen is None else chosen[position]
