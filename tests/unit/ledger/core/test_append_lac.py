"""To whom the append machine sends an explicit LAC, and what it remembers of headers."""

from __future__ import annotations

from ledger.config import Visibility
from ledger.core.append import AppendCommand, AppendMachine, ReleaseThrough, Resend, WriteLac
from ledger.model import EntryId, QuorumSizes

THREE = QuorumSizes(ensemble=3, write=3, ack=2)


def strict() -> AppendMachine:
    return AppendMachine(THREE, Visibility.STRICT)


def lac_writes(commands: list[AppendCommand]) -> list[WriteLac]:
    return [command for command in commands if isinstance(command, WriteLac)]


def with_lac_in_flight() -> AppendMachine:
    """Entry 0 is on members 1 and 2, which are asked to store its LAC."""
    machine = strict()
    machine.on_sent(0, -1)
    assert lac_writes(machine.on_adds_acked(1, 0, 0)) == []
    assert lac_writes(machine.on_adds_acked(2, 0, 0)) == [WriteLac((1, 2), 0)]
    return machine


def test_the_fastest_members_are_asked() -> None:
    """Not the first ones: member 0 has not even acknowledged the entry."""
    with_lac_in_flight()


def test_another_member_is_asked_in_place_of_one_that_fails() -> None:
    machine = with_lac_in_flight()
    assert lac_writes(machine.on_bookie_failed(2)) == [WriteLac((0,), 0)]


def test_a_member_that_failed_and_returned_is_asked_again() -> None:
    machine = with_lac_in_flight()
    assert lac_writes(machine.on_bookie_failed(1)) == [WriteLac((0,), 0)]
    assert lac_writes(machine.on_bookie_returned(1)) == []
    assert lac_writes(machine.on_bookie_failed(0)) == [WriteLac((1,), 0)], "it owes no answer any more"


def test_a_member_that_was_replaced_in_place_is_asked_again() -> None:
    machine = with_lac_in_flight()
    assert lac_writes(machine.on_ensemble_changed([1], 0)) == [WriteLac((0,), 0)]
    assert lac_writes(machine.on_bookie_failed(0)) == [WriteLac((1,), 0)], "it owes no answer any more"


def test_a_member_that_was_not_reached_is_asked_again() -> None:
    machine = with_lac_in_flight()
    assert machine.publish_lac(even_if_busy=True) == [WriteLac((0,), 0)]
    machine.on_lac_failed(1)
    assert machine.publish_lac(even_if_busy=True) == [WriteLac((1,), 0)]


def test_an_answer_of_a_failed_member_means_nothing() -> None:
    machine = with_lac_in_flight()
    machine.on_bookie_failed(1)
    assert machine.on_lac_stored(1, 0) == []
    assert machine.visible == -1


def test_a_late_acknowledgement_asks_no_further_member() -> None:
    """Two members were asked, which is enough: neither the third one's answer nor the first LAC's changes that."""
    machine = with_lac_in_flight()
    assert lac_writes(machine.on_adds_acked(0, 0, 0)) == []
    assert lac_writes(machine.on_lac_stored(1, 0)) == []
    assert machine.publish_lac(even_if_busy=True) == [WriteLac((0,), 0)], "but the ticker may ask it"


def test_the_ticker_asks_nobody_when_everything_is_visible() -> None:
    machine = with_lac_in_flight()
    machine.on_lac_stored(1, 0)
    machine.on_lac_stored(2, 0)
    assert machine.visible == 0
    assert machine.publish_lac(even_if_busy=True) == []


def test_what_a_member_owes_is_what_it_was_sent_and_has_not_answered() -> None:
    machine = strict()
    machine.on_sent(4, -1)
    assert [machine.unanswered(position) for position in range(3)] == [5, 5, 5]
    machine.on_adds_acked(0, 0, 1)
    machine.on_adds_acked(2, 3, 3)
    assert [machine.unanswered(position) for position in range(3)] == [3, 5, 4]
    machine.on_adds_acked(1, 0, 1)
    assert machine.lac == 1
    assert [machine.unanswered(position) for position in range(3)] == [3, 3, 2]


def test_of_a_striped_ledger_a_member_owes_only_the_entries_of_its_write_sets() -> None:
    machine = AppendMachine(QuorumSizes(ensemble=3, write=2, ack=2), Visibility.STRICT)
    machine.on_sent(3, -1)
    assert [machine.unanswered(position) for position in range(3)] == [3, 3, 2]


def test_headers_of_entries_in_flight_are_remembered_however_many_came_before() -> None:
    """Three entries are on their way at any time; each makes the LAC visible that its header carries."""
    machine = strict()
    machine.on_sent(0, -1)
    machine.on_sent(1, -1)
    for entry_id in range(300):
        machine.on_sent(entry_id + 2, machine.lac)
        header_lac = max(-1, entry_id - 3)
        machine.on_adds_acked(0, entry_id, entry_id)
        machine.on_adds_acked(1, entry_id, entry_id)
        assert (machine.lac, machine.visible) == (entry_id, header_lac)


def test_a_late_answer_to_an_entry_whose_header_is_forgotten_says_nothing_of_later_ones() -> None:
    machine = strict()
    for entry_id in range(200):
        machine.on_sent(entry_id, machine.lac)
        machine.on_adds_acked(0, entry_id, entry_id)
        machine.on_adds_acked(1, entry_id, entry_id)
    assert (machine.lac, machine.visible) == (199, 198)
    machine.on_sent(200, 199)
    machine.on_adds_acked(0, 200, 200)
    machine.on_adds_acked(2, 0, 0)
    assert machine.visible == 198, "entry 200, which carries LAC 199, is on one member"


def test_what_is_before_the_last_fragment_is_visible_without_an_explicit_lac() -> None:
    """A reader's LAC is never below the start of the last fragment: docs/log-semantics.md#rule-13."""
    machine = with_lac_in_flight()
    assert machine.on_bookie_failed(0) == []
    assert machine.on_ensemble_changed([0], 1) == [Resend(0), ReleaseThrough(EntryId(0))]
    assert machine.visible == 0
