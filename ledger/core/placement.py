"""Choice of bookies for a ledger: at random among the writable ones, never one twice. Pure.

Where racks are known, every write set spans several of them; where free space is known, it weighs. Where neither is,
the choice is uniform.

Protocol: docs/bookkeeper.md#creating-a-ledger. Decision: docs/decisions/0015-placement-by-racks.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from random import Random

from ledger.core.distribution import write_sets
from ledger.core.spread import Spread, arrange, spans, zone_of
from ledger.core.weighting import weighted_order, weights_of
from ledger.errors import NotEnoughBookiesError, NotEnoughRacksError
from ledger.model import BookieId, BookieSet, Location, QuorumSizes


class Adherence(Enum):
    """Whether the write sets of an ensemble span the racks and zones that a policy asks for."""

    SPREAD = "spread"
    NARROW = "narrow"
    """One of them does not."""
    UNKNOWN = "unknown"
    """It depends on members whose location is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPolicy:
    """What is asked for, and what is known of the bookies."""

    spread: Spread = field(default_factory=partial(Spread, 1, 1))
    enforce: bool = False
    """Whether only what spans `spread` is chosen; bookies without a location then never are."""
    locations: Mapping[BookieId, Location] = field(default_factory=dict)
    free_bytes: Mapping[BookieId, int] = field(default_factory=dict)
    multiple_max: float = 1.0

    def usable(self, candidates: Sequence[BookieId]) -> list[BookieId]:
        """Those that may be chosen."""
        return [each for each in candidates if not self.enforce or each in self.locations]

    def is_uniform(self, candidates: Collection[BookieId]) -> bool:
        """Whether nothing is asked for, or known, that makes one choice better than another."""
        if self.enforce or any(each in self.free_bytes for each in candidates):
            return False
        return self.spread == Spread(1, 1) or not any(each in self.locations for each in candidates)

    def place(
        self,
        candidates: Sequence[BookieId],
        slots: Sequence[BookieId | None],
        quorum: QuorumSizes,
        rng: Random,
    ) -> tuple[BookieId, ...] | None:
        """The slots with candidates where they are None; None if that is impossible."""
        usable = self.usable(candidates)
        order = weighted_order(usable, weights_of(usable, self.free_bytes, self.multiple_max), rng)
        wanted = self.spread.capped(quorum.write)
        for spread in [wanted] if self.enforce else wanted.relaxed():
            found = arrange(order, slots, quorum, spread, self.locations, counts_unknown=not self.enforce)
            if found is not None:
                return found
        return None

    def fits(
        self, candidates: Sequence[BookieId], slots: Sequence[BookieId | None], quorum: QuorumSizes
    ) -> bool:
        """Whether candidates in all free slots can leave each of their write sets as spread as is asked for."""
        usable, wanted = self.usable(candidates), self.spread.capped(quorum.write)
        found = arrange(usable, slots, quorum, wanted, self.locations, counts_unknown=not self.enforce)
        return found is not None

    def adherence(self, ensemble: Sequence[BookieId], quorum: QuorumSizes) -> Adherence:
        """Whether each write set of the ensemble spans what is asked for."""
        wanted = self.spread.capped(quorum.write)
        found = [spans([ensemble[at] for at in each], wanted, self.locations) for each in write_sets(quorum)]
        if False in found:
            return Adherence.NARROW
        return Adherence.UNKNOWN if None in found else Adherence.SPREAD


ANYWHERE = PlacementPolicy()
"""Uniformly at random."""


@dataclass(frozen=True, slots=True)
class Vacancies:
    """An ensemble of which members are to be replaced."""

    ensemble: tuple[BookieId, ...]
    """As metadata names it; none of these is chosen."""
    slots: tuple[BookieId | None, ...]
    """As it will be; None where a bookie is to be chosen."""
    quorum: QuorumSizes

    @classmethod
    def at(cls, ensemble: tuple[BookieId, ...], positions: Collection[int], quorum: QuorumSizes) -> Vacancies:
        """Of the members at these positions."""
        slots = tuple(None if at in positions else member for at, member in enumerate(ensemble))
        return cls(ensemble, slots, quorum)


def choose_ensemble(
    bookies: BookieSet, quorum: QuorumSizes, rng: Random, policy: PlacementPolicy = ANYWHERE
) -> tuple[BookieId, ...]:
    """Choose different writable bookies for an ensemble.

    Raises:
        NotEnoughBookiesError: fewer are registered; nothing was written.
        NotEnoughRacksError: they do not span the racks and zones that the policy enforces; nothing was written.
    """
    size = quorum.ensemble
    candidates = sorted(info.bookie_id for info in bookies.writable)
    if len(candidates) < size:
        is_or_are = "is" if len(candidates) == 1 else "are"
        raise NotEnoughBookiesError(
            f"the ensemble needs {size} writable bookies and {len(candidates)} {is_or_are} registered; "
            "start more bookies or ask for a smaller ensemble",
            needed=size,
            available=len(candidates),
        )
    if policy.is_uniform(candidates):
        return tuple(rng.sample(candidates, size))
    chosen = policy.place(candidates, [None] * size, quorum, rng)
    if chosen is None:
        raise _not_enough_racks(candidates, quorum, policy)
    return chosen


def choose_replacements(
    bookies: BookieSet,
    vacancies: Vacancies,
    avoid: Collection[BookieId],
    count: int,
    rng: Random,
    policy: PlacementPolicy = ANYWHERE,
) -> list[BookieId]:
    """Choose up to `count` writable bookies for the first vacancies, neither members nor in `avoid`; maybe none.

    Where racks or free space matter it is one at most, for the first vacancy: which bookie suits another one depends on
    whether this one answers.
    """
    ensemble, slots = vacancies.ensemble, vacancies.slots
    taken = {*ensemble, *avoid}
    candidates = sorted(info.bookie_id for info in bookies.writable if info.bookie_id not in taken)
    if policy.is_uniform(candidates):
        return rng.sample(candidates, min(count, len(candidates)))
    vacant = [position for position, member in enumerate(slots) if member is None]
    for filled in range(min(len(vacant), len(candidates)), 0, -1):
        # If not all can be replaced, the last ones stay as they are.
        tried = [ensemble[at] if at in vacant[filled:] else member for at, member in enumerate(slots)]
        chosen = policy.place(candidates, tried, vacancies.quorum, rng)
        if chosen is not None:
            return [chosen[vacant[0]]]
    return []


def can_replace(
    bookies: BookieSet,
    vacancies: Vacancies,
    avoid: Collection[BookieId] = (),
    policy: PlacementPolicy = ANYWHERE,
) -> bool:
    """Whether writable bookies, neither members nor in `avoid`, can take all vacancies together. Draws nothing."""
    taken = {*vacancies.ensemble, *avoid}
    candidates = sorted(info.bookie_id for info in bookies.writable if info.bookie_id not in taken)
    if not policy.enforce:
        return len(candidates) >= vacancies.slots.count(None)
    return policy.fits(candidates, vacancies.slots, vacancies.quorum)


def _not_enough_racks(
    candidates: Sequence[BookieId], quorum: QuorumSizes, policy: PlacementPolicy
) -> NotEnoughRacksError:
    wanted = policy.spread.capped(quorum.write)
    usable = policy.usable(candidates)
    known = {policy.locations[each] for each in usable}
    zones = {zone_of(each) for each in known}
    return NotEnoughRacksError(
        f"every write set of {quorum.write} of the ensemble of {quorum.ensemble} must span {wanted.racks} racks and "
        f"{wanted.zones} zones; {len(usable)} of {len(candidates)} writable bookies have a location, in {len(known)} "
        f"racks and {len(zones)} zones: start bookies in other racks, give locations, or do not enforce them",
        needed=quorum.ensemble,
        available=len(usable),
        racks=len(known),
        racks_min=wanted.racks,
        zones=len(zones),
        zones_min=wanted.zones,
    )
