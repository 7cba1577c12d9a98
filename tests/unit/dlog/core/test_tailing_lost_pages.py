"""A reader that comes to a page of the list that cannot be read, as conversations with the machine.

Source: docs/log-semantics.md#rule-28.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from dlog.core.commands import ReadRecord
from dlog.core.tailing import (
    Finish,
    Gap,
    GapReason,
    OnMissing,
    OpenLedger,
    ReadEntries,
    ReportGap,
    Tailing,
    WaitForEntries,
)
from dlog.errors import HistoryPageError, TrimmedError
from dlog.ledger_list.window import ListWindow
from dlog.model import EARLIEST_ID, ListedLedger, LogMetadata, MessageId, SealFacts
from ledger.model import LedgerId

LOST = HistoryPageError("lost", log="orders", key="k", first=5, last=9)


def at(ledger_id: int, entry_id: int = 0, batch_index: int = 0) -> MessageId:
    return MessageId(ledger_id, entry_id, batch_index)


def listed(ledger_id: int, last_entry: int = 2) -> ListedLedger:
    seal = SealFacts(last_entry=last_entry, message_count=0, byte_count=0)
    return ListedLedger(ledger_id=LedgerId(ledger_id), epoch=1, created_us=0, seal=seal)


def record(trim_before: MessageId = EARLIEST_ID) -> LogMetadata:
    """Of a log whose newest ledger is 12; pages have the others."""
    return LogMetadata(
        log_uuid="u", instance_id="i", ledgers=(listed(12),), last_ledger_id=12, trim_before=trim_before
    )


def show(
    machine: Tailing,
    *ledger_ids: int,
    lost: HistoryPageError | None = LOST,
    after: int = 6,
    trim_before: MessageId = EARLIEST_ID,
) -> None:
    window = ListWindow(tuple(map(listed, ledger_ids)), after, trim_before, lost)
    machine.on_record(record(trim_before), window)


def show_rest(machine: Tailing) -> None:
    show(machine, 12, lost=None, after=0)


def gap(first: MessageId, resume_at: MessageId) -> ReportGap:
    return ReportGap(Gap(first, resume_at, GapReason.DATA_LOSS))


def tailing(
    position: MessageId = EARLIEST_ID,
    until: MessageId | None = None,
    on_data_loss: OnMissing = OnMissing.GAP,
    on_trimmed: OnMissing = OnMissing.FAIL,
) -> Tailing:
    return Tailing(
        "orders",
        position=position,
        until=until,
        from_earliest=position == EARLIEST_ID,
        on_data_loss=on_data_loss,
        on_trimmed=on_trimmed,
    )


def read_ledger(machine: Tailing, ledger_id: int) -> None:
    assert machine.next_step() == OpenLedger(ledger_id)
    machine.on_ledger(ledger_id, readable=2, sealed=True)
    assert machine.next_step() == ReadEntries(ledger_id, 0, 2)
    machine.on_read(ledger_id, 2)


@pytest.mark.parametrize("on_data_loss", [OnMissing.FAIL, OnMissing.GAP])
def test_what_is_before_the_page_is_read_and_then_the_list_again(on_data_loss: OnMissing) -> None:
    """It may have been restored, or trimmed, while the reader read what is before it."""
    machine = tailing(on_data_loss=on_data_loss)
    show(machine, 3)
    read_ledger(machine, 3)
    assert not machine.at_tail
    assert machine.next_step() == ReadRecord()
    show(machine, 3)
    if on_data_loss is OnMissing.FAIL:
        with pytest.raises(HistoryPageError, match="lost"):
            machine.next_step()
        return
    assert machine.next_step() == gap(at(5), at(10))
    assert machine.next_step() == ReadRecord()
    show_rest(machine)
    read_ledger(machine, 12)


def test_a_page_that_was_restored_in_the_meantime_is_read() -> None:
    machine = tailing()
    show(machine, 3)
    read_ledger(machine, 3)
    assert machine.next_step() == ReadRecord()
    show(machine, 3, 5, 6, lost=None, after=4)
    read_ledger(machine, 5)


def test_a_page_that_was_trimmed_in_the_meantime_is_not_lost() -> None:
    machine = tailing()
    show(machine, 3)
    read_ledger(machine, 3)
    trimmed = replace(record(at(12)), trimmed_end=at(12))
    with pytest.raises(TrimmedError):
        machine.on_record(trimmed, ListWindow((listed(12),), after=0, earliest=at(12)))


def test_a_ledger_of_the_page_that_is_open_is_read_to_its_end() -> None:
    """Of an older record the reader knows that it is listed."""
    machine = tailing(at(5))
    show(machine, 5, 6, 7, lost=None)
    assert machine.next_step() == OpenLedger(5)
    machine.on_ledger(5, readable=0, sealed=False)
    machine.on_record_changed()
    show(machine)
    assert machine.next_step() == ReadEntries(5, 0, 0)
    machine.on_read(5, 0)
    step = machine.next_step()
    assert isinstance(step, WaitForEntries) and "ledger 6" in step.why
    machine.on_ledger(5, readable=1, sealed=True)
    assert machine.next_step() == ReadRecord()
    show(machine)
    assert machine.next_step() == ReadEntries(5, 1, 1)
    machine.on_read(5, 1)
    assert machine.next_step() == ReadRecord()
    show(machine)
    assert machine.next_step() == gap(at(6), at(10))


def test_what_is_missing_of_an_open_ledger_is_lost_with_the_page() -> None:
    machine = tailing(at(5))
    show(machine, 5, 6, 7, lost=None)
    machine.on_ledger(5, readable=3, sealed=False)
    machine.on_read(5, 1)
    machine.on_entry_missing(5)
    show(machine)
    assert machine.next_step() == gap(at(5, 2), at(10))


def test_a_lost_ledger_before_the_page_is_a_gap_of_its_own() -> None:
    machine = tailing()
    show(machine, 3)
    machine.on_ledger_missing(3)
    show(machine, 3)
    assert machine.next_step() == gap(EARLIEST_ID._replace(ledger_id=3), at(5))
    assert machine.next_step() == ReadRecord()
    show(machine)
    assert machine.next_step() == gap(at(5), at(10))


@pytest.mark.parametrize(("until", "expected"), [(at(7, 3), at(7, 3)), (at(10), at(10)), (at(12), at(10))])
def test_the_gap_ends_where_the_range_does(until: MessageId, expected: MessageId) -> None:
    machine = tailing(at(6, 1), until)
    show(machine)
    assert machine.next_step() == gap(at(6, 1), expected)
    assert machine.next_step() == (Finish() if until == expected else ReadRecord())


@pytest.mark.parametrize("on_data_loss", [OnMissing.FAIL, OnMissing.GAP])
def test_a_range_that_ends_before_the_page_does_not_meet_it(on_data_loss: OnMissing) -> None:
    machine = tailing(at(3), at(5), on_data_loss)
    show(machine, 3)
    read_ledger(machine, 3)
    show(machine, 3)
    assert machine.next_step() == Finish()


@pytest.mark.parametrize(
    ("position", "trim", "trimmed"),
    [(at(4), at(5), False), (at(4), at(5, 1), True), (at(5), at(5, 1), True), (at(6, 1, 1), at(7), True)],
)
def test_a_position_below_a_trim_into_the_page_counts_as_trimmed(
    position: MessageId, trim: MessageId, trimmed: bool
) -> None:
    """Unless no ledger of the page is below the trim: what they have is not known."""
    machine = tailing(position, on_trimmed=OnMissing.GAP)
    machine.on_record(record(trim), ListWindow((), after=6, earliest=trim, lost=LOST))
    if trimmed:
        assert machine.next_step() == ReportGap(Gap(position, trim, GapReason.TRIMMED))
    assert machine.next_step() == gap(trim, at(10))


def test_a_trim_beyond_the_page_leaves_nothing_of_it_to_report() -> None:
    machine = tailing()
    machine.on_record(record(at(11)), ListWindow((), after=6, earliest=at(11), lost=LOST))
    assert machine.next_step() == ReadRecord()
    show_rest(machine)
    assert machine.next_step() == OpenLedger(12)


@pytest.mark.parametrize("on_data_loss", [OnMissing.FAIL, OnMissing.GAP])
def test_an_empty_ledger_before_the_page_is_passed_and_the_page_is_not(on_data_loss: OnMissing) -> None:
    machine = tailing(at(3), on_data_loss=on_data_loss)
    window = ListWindow((listed(3, last_entry=-1),), after=6, earliest=EARLIEST_ID, lost=LOST)
    machine.on_record(record(), window)
    if on_data_loss is OnMissing.FAIL:
        with pytest.raises(HistoryPageError, match="lost"):
            machine.next_step()
        return
    assert machine.next_step() == gap(at(5), at(10))


def test_an_empty_ledger_after_the_page_is_passed() -> None:
    machine = tailing(at(5))
    show(machine)
    assert machine.next_step() == gap(at(5), at(10))
    assert machine.next_step() == ReadRecord()
    machine.on_record(
        record(), ListWindow((listed(11, last_entry=-1), listed(12)), after=0, earliest=EARLIEST_ID)
    )
    read_ledger(machine, 12)


def test_a_position_after_the_last_entry_before_the_page_meets_all_of_it() -> None:
    machine = tailing(at(3, 3))
    show(machine, 3)
    assert machine.next_step() == gap(at(5), at(10))


@pytest.mark.parametrize("on_data_loss", [OnMissing.FAIL, OnMissing.GAP])
@pytest.mark.parametrize("trim", [at(10), at(11), at(12, 1)])
def test_a_page_of_trimmed_ledgers_that_are_still_listed_is_not_lost(
    trim: MessageId, on_data_loss: OnMissing
) -> None:
    """A trim leaves the newest ledger with entries in the list, and those after it."""
    machine = tailing(on_data_loss=on_data_loss)
    earliest = max(trim, at(12))
    machine.on_record(record(trim), ListWindow((), after=6, earliest=earliest, lost=LOST))
    assert machine.next_step() == ReadRecord()
    machine.on_record(record(trim), ListWindow((listed(12),), after=0, earliest=earliest))
    assert machine.next_step() == OpenLedger(12)
