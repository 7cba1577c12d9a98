"""Free space as the probability of being chosen."""

from __future__ import annotations

from collections import Counter
from random import Random

from ledger.core.weighting import weighted_order, weights_of
from ledger.model import BookieId

A, B, C, D = (BookieId(name) for name in "abcd")


def test_weights_are_free_bytes_up_to_a_multiple_of_the_median() -> None:
    assert weights_of([A, B, C], {A: 10, B: 20, C: 1000}, 3) == {A: 10, B: 20, C: 60}


def test_a_full_bookie_weighs_as_the_least_other_one_and_an_unknown_one_as_the_median() -> None:
    assert weights_of([A, B, C, D], {A: 0, B: 20, C: 30}, 3) == {A: 20, B: 20, C: 30, D: 25}


def test_nothing_known_or_all_full_weighs_nothing() -> None:
    assert weights_of([A], {}, 3) == {}
    assert weights_of([A, B], {A: 0, B: 0}, 3) == {}


def test_the_first_is_chosen_in_proportion_to_its_weight() -> None:
    rng = Random(1)
    first = Counter(weighted_order([A, B, C], {A: 1.0, B: 2.0, C: 5.0}, rng)[0] for _ in range(8000))
    assert 850 < first[A] < 1150
    assert 1850 < first[B] < 2150
    assert 4800 < first[C] < 5200


def test_without_weights_every_order_is_as_likely() -> None:
    rng = Random(2)
    orders = Counter(tuple(weighted_order([A, B, C], {}, rng)) for _ in range(6000))
    assert len(orders) == 6
    assert all(850 < count < 1150 for count in orders.values())
