"""Every write set spans enough racks and zones where any choice of bookies can do that."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.core.distribution import write_sets
from ledger.core.spread import Spread, arrange, spans, zone_of
from ledger.model import BookieId, Location, QuorumSizes

LOCATIONS: list[Location] = [("a", "1"), ("a", "2"), ("b", "1"), ("c",), ()]


def is_spread(
    ensemble: tuple[BookieId, ...],
    positions: set[int],
    quorum: QuorumSizes,
    spread: Spread,
    locations: dict[BookieId, Location],
) -> bool:
    """As `arrange` promises, written down once more: each write set with one of the positions."""
    for write_set in write_sets(quorum):
        racks = {locations.get(ensemble[at], ()) for at in write_set}
        if positions & {*write_set} and (
            len(racks) < spread.racks or len({zone_of(each) for each in racks}) < spread.zones
        ):
            return False
    return True


@st.composite
def problems(
    draw: st.DrawFn,
) -> tuple[list[BookieId], list[BookieId | None], QuorumSizes, Spread, dict[BookieId, Location]]:
    ensemble = draw(st.integers(1, 4))
    write = draw(st.integers(1, ensemble))
    names = [BookieId(name) for name in "abcdefgh"]
    locations = {
        name: location
        for name in names
        if (location := draw(st.sampled_from(LOCATIONS[: draw(st.integers(2, 5))])))
    }
    candidates = names[: draw(st.integers(1, 4))]
    slots: list[BookieId | None] = [None if draw(st.booleans()) else name for name in names[4 : 4 + ensemble]]
    spread = Spread(draw(st.integers(1, write)), draw(st.integers(1, write)))
    return candidates, slots, QuorumSizes(ensemble=ensemble, write=write, ack=1), spread, locations


@given(problems())
@settings(max_examples=300, deadline=None)
def test_an_arrangement_is_found_exactly_if_there_is_one(
    problem: tuple[list[BookieId], list[BookieId | None], QuorumSizes, Spread, dict[BookieId, Location]],
) -> None:
    candidates, slots, quorum, spread, locations = problem
    free = [at for at, member in enumerate(slots) if member is None]
    possible = set()
    for chosen in permutations(candidates, len(free)):
        placed = dict(zip(free, chosen, strict=True))
        ensemble = tuple(placed.get(at) or member or BookieId("") for at, member in enumerate(slots))
        if is_spread(ensemble, {*free}, quorum, spread, locations):
            possible.add(ensemble)
    found = arrange(candidates, slots, quorum, spread, locations, counts_unknown=True)
    assert (found in possible) if possible else (found is None)


def test_a_large_cluster_is_arranged_within_the_bound_of_steps() -> None:
    """Striped over nine of ninety bookies in thirty racks of three zones."""
    names = [BookieId(f"b{number}") for number in range(90)]
    locations = {name: (f"z{number % 3}", f"r{number // 3}") for number, name in enumerate(names)}
    quorum = QuorumSizes(ensemble=9, write=4, ack=2)
    spread = Spread(4, 3)
    found = arrange(names, [None] * 9, quorum, spread, locations, counts_unknown=True)
    assert found is not None
    assert is_spread(found, {*range(9)}, quorum, spread, locations)


def test_what_no_arrangement_can_do_is_given_up_without_trying_all() -> None:
    """Twenty bookies, of which nineteen share a rack: a search of all would not end."""
    names = [BookieId(f"b{number}") for number in range(20)]
    locations: dict[BookieId, Location] = {
        name: ("r0" if number else "r1",) for number, name in enumerate(names)
    }
    quorum = QuorumSizes(ensemble=12, write=3, ack=2)
    assert arrange(names, [None] * 12, quorum, Spread(2, 1), locations, counts_unknown=True) is None


def test_bookies_without_a_location_count_only_if_asked_for() -> None:
    locations: dict[BookieId, Location] = {BookieId("a"): ("r",)}
    slots = [BookieId("x"), None]
    for counts, found in ((True, (BookieId("x"), BookieId("a"))), (False, None)):
        quorum = QuorumSizes(ensemble=2, write=2, ack=1)
        given = arrange([BookieId("a")], slots, quorum, Spread(2, 1), locations, counts_unknown=counts)
        assert given == found


def test_weaker_demands_give_up_racks_before_zones() -> None:
    assert [(each.racks, each.zones) for each in Spread(3, 2).relaxed()] == [
        (3, 2),
        (2, 2),
        (3, 1),
        (2, 1),
        (1, 1),
    ]


def test_a_member_of_unknown_location_leaves_it_open_whether_a_set_is_spread() -> None:
    locations: dict[BookieId, Location] = {BookieId("a"): ("z", "1"), BookieId("b"): ("z", "2")}
    a, b, x = BookieId("a"), BookieId("b"), BookieId("x")
    assert spans([a, b, x], Spread(2, 1), locations) is True
    assert spans([a, x, None], Spread(2, 1), locations) is None
    assert spans([a, a], Spread(2, 1), locations) is False
    assert spans([a, b], Spread(2, 2), locations) is False
