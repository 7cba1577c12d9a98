"""Which bookies a ledger gets."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from ledger.core.placement import (
    Adherence,
    PlacementPolicy,
    Vacancies,
    can_replace,
    choose_ensemble,
    choose_replacements,
)
from ledger.core.spread import Spread
from ledger.errors import NotEnoughBookiesError, NotEnoughRacksError
from ledger.model import (
    BookieId,
    BookieInfo,
    BookieSet,
    Location,
    QuorumSizes,
    check_location,
)


def infos(*names: str) -> tuple[BookieInfo, ...]:
    return tuple(BookieInfo(bookie_id=BookieId(name), host="h", port=1) for name in names)


def ids(*names: str) -> tuple[BookieId, ...]:
    return tuple(BookieId(name) for name in names)


TWO_LOST = Vacancies(ids("a", "b", "c"), (BookieId("a"), None, None), QuorumSizes())
BOOKIES = BookieSet(writable=infos("a", "b", "c", "d", "e"), read_only=infos("r"))


def test_every_writable_bookie_is_chosen_equally_often_and_never_twice() -> None:
    chance, counted = Random(1), Counter[str]()
    for _ in range(2000):
        ensemble = choose_ensemble(BOOKIES, QuorumSizes(), chance)
        assert len(set(ensemble)) == 3
        counted.update(ensemble)
    assert set(counted) == {"a", "b", "c", "d", "e"}
    assert all(1080 < times < 1320 for times in counted.values())


def test_just_enough_bookies_are_enough() -> None:
    assert sorted(choose_ensemble(BOOKIES, QuorumSizes(ensemble=5), Random(1))) == ["a", "b", "c", "d", "e"]


def test_read_only_bookies_do_not_count() -> None:
    with pytest.raises(
        NotEnoughBookiesError, match="needs 6 writable bookies and 5 are registered"
    ) as caught:
        choose_ensemble(BOOKIES, QuorumSizes(ensemble=6), Random(1))
    assert (caught.value.needed, caught.value.available) == (6, 5)


def test_one_bookie_is_registered() -> None:
    with pytest.raises(NotEnoughBookiesError, match="and 1 is registered"):
        choose_ensemble(BookieSet(BOOKIES.writable[:1]), QuorumSizes(), Random(1))


def test_replacements_are_neither_members_nor_avoided() -> None:
    for seed in range(50):
        found = choose_replacements(BOOKIES, TWO_LOST, {BookieId("d")}, 2, Random(seed))
        assert found == ["e"]
    assert choose_replacements(BOOKIES, TWO_LOST, {BookieId("d"), BookieId("e")}, 1, Random(1)) == []


def test_the_same_seed_places_alike_however_bookies_are_listed() -> None:
    turned = BookieSet(writable=tuple(reversed(BOOKIES.writable)))
    assert choose_ensemble(BOOKIES, QuorumSizes(), Random(9)) == choose_ensemble(
        turned, QuorumSizes(), Random(9)
    )


# ---- racks and free space


def racks(**bookies: str) -> dict[BookieId, Location]:
    return {BookieId(name): check_location(location) for name, location in bookies.items()}


TWO_RACKS = racks(a="/r1", b="/r1", c="/r1", d="/r2", e="/r2")
THREE = QuorumSizes()


def policy(
    locations: dict[BookieId, Location], racks_min: int = 2, zones_min: int = 1, *, enforce: bool = False
) -> PlacementPolicy:
    return PlacementPolicy(spread=Spread(racks_min, zones_min), enforce=enforce, locations=locations)


def test_without_a_known_location_the_draws_are_those_of_a_uniform_choice() -> None:
    """Seeds of the simulator stand for runs, and would stand for others."""
    for seed in range(20):
        drawn, expected = Random(seed), Random(seed)
        assert choose_ensemble(BOOKIES, THREE, drawn, policy({})) == tuple(expected.sample("abcde", 3))
        assert choose_replacements(BOOKIES, TWO_LOST, (), 2, drawn, policy({})) == expected.sample("de", 2)
        assert drawn.getstate() == expected.getstate()


def test_every_ensemble_spans_the_racks_and_every_bookie_is_used() -> None:
    rng, used = Random(3), Counter[str]()
    for _ in range(500):
        ensemble = choose_ensemble(BOOKIES, THREE, rng, policy(TWO_RACKS))
        assert {TWO_RACKS[each] for each in ensemble} == {("r1",), ("r2",)}
        assert len({*ensemble}) == 3
        used.update(ensemble)
    assert set(used) == {"a", "b", "c", "d", "e"}


def test_every_write_set_of_a_striped_ledger_spans_the_racks() -> None:
    striped, rng = QuorumSizes(ensemble=4, write=2, ack=1), Random(4)
    for _ in range(200):
        ensemble = choose_ensemble(BOOKIES, striped, rng, policy(TWO_RACKS, enforce=True))
        assert policy(TWO_RACKS).adherence(ensemble, striped) is Adherence.SPREAD


def test_too_few_racks_are_used_as_far_as_they_go() -> None:
    for seed in range(50):
        ensemble = choose_ensemble(BOOKIES, THREE, Random(seed), policy(TWO_RACKS, racks_min=3))
        assert {TWO_RACKS[each] for each in ensemble} == {("r1",), ("r2",)}


def test_too_few_racks_are_an_error_if_they_are_enforced() -> None:
    with pytest.raises(NotEnoughRacksError, match="must span 3 racks and 1 zones; 5 of 5") as caught:
        choose_ensemble(BOOKIES, THREE, Random(1), policy(TWO_RACKS, racks_min=3, enforce=True))
    error = caught.value
    assert (error.needed, error.available) == (3, 5)
    assert (error.racks, error.racks_min, error.zones, error.zones_min) == (2, 3, 1, 1)


def test_enforcement_leaves_out_bookies_without_a_location() -> None:
    known = racks(a="/r1", b="/r1", d="/r2")
    for seed in range(20):
        chosen = choose_ensemble(BOOKIES, THREE, Random(seed), policy(known, enforce=True))
        assert sorted(chosen) == ["a", "b", "d"]
    with pytest.raises(NotEnoughRacksError):
        choose_ensemble(BOOKIES, THREE, Random(1), policy({}, enforce=True))


def test_zones_are_spanned_too() -> None:
    zones = racks(a="/z1/r1", b="/z1/r2", c="/z1/r3", d="/z1/r4", e="/z2/r1")
    for seed in range(30):
        assert "e" in choose_ensemble(BOOKIES, THREE, Random(seed), policy(zones, zones_min=2))


def test_a_replacement_keeps_the_racks() -> None:
    """Of d, the last one of its rack in the ensemble: only e is in that rack."""
    lost = Vacancies(ids("a", "b", "d"), (BookieId("a"), BookieId("b"), None), THREE)
    for seed in range(30):
        assert choose_replacements(BOOKIES, lost, (), 1, Random(seed), policy(TWO_RACKS)) == ["e"]


def test_a_replacement_in_another_rack_is_better_than_none_unless_racks_are_enforced() -> None:
    lost = Vacancies(ids("a", "b", "d"), (BookieId("a"), BookieId("b"), None), THREE)
    avoid = {BookieId("e")}
    assert choose_replacements(BOOKIES, lost, avoid, 1, Random(1), policy(TWO_RACKS)) == ["c"]
    assert choose_replacements(BOOKIES, lost, avoid, 1, Random(1), policy(TWO_RACKS, enforce=True)) == []


def test_two_replacements_are_chosen_for_one_another() -> None:
    """One at a time: the first is for the first vacancy."""
    lost = Vacancies(ids("a", "d", "e"), (BookieId("a"), None, None), THREE)
    only_r1_left = policy(racks(a="/r1", b="/r1", c="/r2", d="/r3", e="/r3"), racks_min=2, enforce=True)
    for seed in range(20):
        (first,) = choose_replacements(BOOKIES, lost, (), 2, Random(seed), only_r1_left)
        then = Vacancies(lost.ensemble, (BookieId("a"), first, None), THREE)
        (second,) = choose_replacements(BOOKIES, then, {first}, 1, Random(seed), only_r1_left)
        assert {first, second} == {"b", "c"}


def test_vacancies_can_be_taken_only_all_together() -> None:
    d, e = BookieId("d"), BookieId("e")
    assert can_replace(BOOKIES, TWO_LOST)
    assert can_replace(BOOKIES, TWO_LOST, policy=policy(TWO_RACKS))
    assert can_replace(BOOKIES, TWO_LOST, policy=policy(TWO_RACKS, enforce=True))
    assert not can_replace(BOOKIES, TWO_LOST, {d})
    assert not can_replace(BOOKIES, TWO_LOST, {d}, policy(TWO_RACKS))
    assert not can_replace(BOOKIES, TWO_LOST, {d}, policy(TWO_RACKS, enforce=True))
    one_lost = Vacancies(ids("a", "b", "d"), (*ids("a", "b"), None), THREE)
    assert can_replace(BOOKIES, one_lost, {e}, policy(TWO_RACKS))
    assert not can_replace(BOOKIES, one_lost, {e}, policy(TWO_RACKS, enforce=True)), "c is in their rack"
    unlocated = racks(a="/r1", b="/r1", d="/r2")
    assert not can_replace(BOOKIES, one_lost, (), policy(unlocated, racks_min=1, enforce=True))


def test_free_space_weighs_also_without_racks() -> None:
    free = {BookieId(name): 100 for name in "abcd"} | {BookieId("e"): 10**6}
    weighing = PlacementPolicy(free_bytes=free, multiple_max=3.0)
    rng = Random(5)
    one = QuorumSizes(ensemble=1, write=1, ack=1)
    chosen = Counter(choose_ensemble(BOOKIES, one, rng, weighing)[0] for _ in range(7000))
    assert 2800 < chosen[BookieId("e")] < 3200  # three of seven, not nearly all
    assert all(850 < chosen[BookieId(name)] < 1150 for name in "abcd")
