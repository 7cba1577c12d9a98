"""When a bookie that is away counts as lost."""

from __future__ import annotations

from ledger.model import BookieId
from ledger.repair.core.absences import Absences

B1, B2, B3 = (BookieId(f"b{number}:3181") for number in range(1, 4))


def seen(*bookie_ids: BookieId) -> Absences:
    absences = Absences()
    absences.see(bookie_ids, 0.0)
    return absences


def test_a_bookie_is_due_after_the_delay_and_not_before() -> None:
    absences = seen(B1, B2)
    absences.see([B1], 10.0)
    assert absences.due(10.0, 60) == absences.due(69.9, 60) == set()
    assert absences.next_due(60) == 70.0
    assert absences.due(70.0, 60) == {B2}


def test_without_a_delay_it_is_due_at_once() -> None:
    absences = seen(B1, B2)
    absences.see([B1], 10.0)
    assert absences.due(10.0, 0) == {B2}


def test_a_bookie_that_is_back_is_not_away_and_its_delay_begins_anew() -> None:
    absences = seen(B1, B2)
    absences.see([B1], 10.0)
    absences.see([B1, B2], 20.0)
    assert absences.due(100.0, 60) == set() and absences.next_due(60) is None
    absences.see([B1], 100.0)
    assert absences.next_due(60) == 160.0


def test_a_second_one_that_goes_makes_both_due() -> None:
    absences = seen(B1, B2, B3)
    absences.see([B1, B2], 10.0)
    absences.see([B1], 20.0)
    assert absences.due(20.0, 60) == {B2, B3}


def test_one_that_is_marked_already_does_not_hurry_the_next() -> None:
    absences = seen(B1, B2, B3)
    absences.see([B1, B2], 10.0)
    absences.on_marked({B3})
    absences.see([B1], 100.0)
    assert absences.lost == {B3} and absences.due(100.0, 60) == set()
    assert absences.due(160.0, 60) == {B2}
    absences.see([B1, B3], 200.0)
    assert absences.lost == set()


def test_named_bookies_that_were_never_seen_have_the_whole_delay() -> None:
    """After a start of the whole cluster bookies register one after the other."""
    absences = seen(B1)
    absences.expect({B1, B2, B3}, 5.0)
    assert absences.due(6.0, 60) == set() and absences.next_due(60) == 65.0
    absences.see([B1, B2], 30.0)
    assert absences.due(65.0, 60) == {B3}


def test_a_bookie_that_no_ledger_names_is_forgotten() -> None:
    absences = seen(B1, B2)
    absences.see([B1], 10.0)
    absences.expect({B1}, 11.0)
    assert absences.waiting() == set() and absences.next_due(60) is None
