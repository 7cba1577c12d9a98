"""Racks and zones of an ensemble: which bookies fill its places so that every write set spans enough of them. Pure.

The last name of a location is a rack within the others; the first of several is its zone. A bookie without a location
is in a rack of its own kind, shared by all such bookies, unless the caller does not count it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ledger.core.distribution import write_sets
from ledger.model import BookieId, Location, QuorumSizes

_STEPS_MAX = 2000
"""Bounds one search to some milliseconds. Every arrangement of five members over four racks is tried within it."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How many racks and zones a write set must span."""

    racks: int
    zones: int

    def capped(self, write: int) -> Spread:
        """What a write quorum of this size can span."""
        return Spread(min(self.racks, write), min(self.zones, write))

    def relaxed(self) -> Iterator[Spread]:
        """This one, then weaker ones. A rack is given up before a zone; the last one asks for nothing."""
        for zones in range(self.zones, 0, -1):
            for racks in range(max(self.racks, zones), zones - 1, -1):
                yield Spread(racks, zones)


def zone_of(location: Location) -> str:
    """The zone; empty for a rack that is in none."""
    return location[0] if len(location) > 1 else ""


def arrange(
    candidates: Sequence[BookieId],
    slots: Sequence[BookieId | None],
    quorum: QuorumSizes,
    spread: Spread,
    locations: Mapping[BookieId, Location],
    *,
    counts_unknown: bool,
) -> tuple[BookieId, ...] | None:
    """Fill the slots that are None, so that each write set with one of them spans `spread`; None if that is not found.

    Of the candidates earlier ones are preferred, and in each place those of another rack than its neighbours before it.
    `counts_unknown`: whether the bookies without a location count as a rack.
    """
    search = _Search(candidates, slots, quorum, spread, locations, counts_unknown=counts_unknown)
    return search.filled() if search.is_possible() else None


def spans(
    members: Sequence[BookieId | None], spread: Spread, locations: Mapping[BookieId, Location]
) -> bool | None:
    """Whether a write set spans `spread`; None if that depends on members whose location is not known."""
    known = [locations[each] for each in members if each is not None and each in locations]
    unknown = len(members) - len(known)
    racks, zones = len({*known}), len({zone_of(each) for each in known})
    if racks >= spread.racks and zones >= spread.zones:
        return True
    return None if racks + unknown >= spread.racks and zones + unknown >= spread.zones else False


class _Search:
    """Depth first. Bookies of one rack are alike, so that only racks are tried."""

    def __init__(
        self,
        candidates: Sequence[BookieId],
        slots: Sequence[BookieId | None],
        quorum: QuorumSizes,
        spread: Spread,
        locations: Mapping[BookieId, Location],
        *,
        counts_unknown: bool,
    ) -> None:
        self._slots = list(slots)
        self._uncounted: set[Location] = set() if counts_unknown else {()}
        self._quorum = quorum
        self._spread = spread
        self._locations = locations
        self._free = [position for position, member in enumerate(slots) if member is None]
        self._sets = {
            position: [each for each in write_sets(quorum) if position in each] for position in self._free
        }
        self._rank = {candidate: number for number, candidate in enumerate(candidates)}
        self._racks: dict[Location, list[BookieId]] = {}
        for each in reversed(candidates):
            self._racks.setdefault(self._rack(each), []).append(each)
        self._steps = 0

    def is_possible(self) -> bool:
        """Counts what racks and zones can contribute at most, where all places are free."""
        quorum = self._quorum
        if len(self._free) < quorum.ensemble:
            return True
        racks = {rack: len(bookies) for rack, bookies in self._racks.items()}
        zones: dict[str, int] = {}
        for rack, count in racks.items():
            zones[zone_of(rack)] = zones.get(zone_of(rack), 0) + count
        return all(
            sum(min(quorum.ensemble, count * quorum.write) for count in counts) >= quorum.ensemble * needed
            for counts, needed in ((racks.values(), self._spread.racks), (zones.values(), self._spread.zones))
        )

    def filled(self) -> tuple[BookieId, ...] | None:
        return tuple(each for each in self._slots if each is not None) if self._fill(0) else None

    def _fill(self, at: int) -> bool:
        if at == len(self._free):
            return True
        position = self._free[at]
        for rack in self._options(position):
            self._steps += 1
            if self._steps > _STEPS_MAX:
                return False
            chosen = self._slots[position] = self._racks[rack].pop()
            if all(self._can_span(each) for each in self._sets[position]) and self._fill(at + 1):
                return True
            self._slots[position] = None
            self._racks[rack].append(chosen)
        return False

    def _options(self, position: int) -> list[Location]:
        racks = self._before(position, self._spread.racks)
        zones = {zone_of(each) for each in self._before(position, self._spread.zones)}
        return sorted(
            (rack for rack, bookies in self._racks.items() if bookies),
            key=lambda rack: (zone_of(rack) in zones, rack in racks, self._rank[self._racks[rack][-1]]),
        )

    def _before(self, position: int, count: int) -> set[Location]:
        """Racks of the members before this one, as many as must differ from it."""
        neighbours = (self._slots[position - distance] for distance in range(1, count))
        return {self._rack(each) for each in neighbours if each is not None}

    def _can_span(self, write_set: Sequence[int]) -> bool:
        racks = {self._rack(each) for at in write_set if (each := self._slots[at]) is not None}
        racks -= self._uncounted
        blanks = sum(self._slots[at] is None for at in write_set)
        zones = {zone_of(each) for each in racks}
        return len(racks) + blanks >= self._spread.racks and len(zones) + blanks >= self._spread.zones

    def _rack(self, bookie_id: BookieId) -> Location:
        return self._locations.get(bookie_id, ())
