"""A reader's way across ledger borders, as conversations with the machine.

Source: docs/log-semantics.md#rule-26 to #rule-30.
"""

from collections.abc import Callable

import pytest

from dlog.core.commands import ReadRecord
from dlog.core.tailing import (
    CountMessages,
    Finish,
    Gap,
    GapReason,
    OnMissing,
    OpenLedger,
    ReadEntries,
    ReportGap,
    Tailing,
    WaitForEntries,
    WaitForLedger,
)
from dlog.errors import DataLossError, LogNotFoundError, TrimmedError, UnknownPositionError
from dlog.model import EARLIEST_ID, ListedLedger, LogMetadata, LogState, MessageId, SealFacts
from ledger.model import LedgerId
from tests.helpers.log.lists import show, window_of


def listed(ledger_id: int, last_entry: int | None = None) -> ListedLedger:
    seal = None if last_entry is None else SealFacts(last_entry=last_entry, message_count=0, byte_count=0)
    return ListedLedger(ledger_id=LedgerId(ledger_id), epoch=1, created_us=0, seal=seal)


def record(
    *ledgers: ListedLedger | int,
    trim_before: MessageId = EARLIEST_ID,
    state: LogState = LogState.ACTIVE,
    last_ledger_id: int | None = None,
    trimmed_end: MessageId | None = None,
) -> LogMetadata:
    """`trimmed_end`: what the ledgers that are not listed any more ended with; by default up to the trim mark."""
    values = tuple(listed(item) if isinstance(item, int) else item for item in ledgers)
    highest = last_ledger_id if last_ledger_id is not None else max((v.ledger_id for v in values), default=-1)
    return LogMetadata(
        log_uuid="u",
        instance_id="i",
        ledgers=values,
        last_ledger_id=highest,
        trim_before=trim_before,
        trimmed_end=trim_before if trimmed_end is None else trimmed_end,
        state=state,
    )


def tailing(
    position: MessageId = EARLIEST_ID, until: MessageId | None = None, **policies: OnMissing
) -> Tailing:
    return Tailing(
        "orders", position=position, until=until, from_earliest=position == EARLIEST_ID, **policies
    )


def at(ledger_id: int, entry_id: int = 0, batch_index: int = 0) -> MessageId:
    return MessageId(ledger_id, entry_id, batch_index)


# ---- borders (docs/log-semantics.md#rule-26)


def test_an_unsealed_ledger_is_read_to_its_lac_and_then_waited_for() -> None:
    """Never past the LAC, and never to a ledger beyond."""
    machine = tailing()
    assert machine.next_step() == ReadRecord()
    show(machine, record(5))
    assert machine.next_step() == OpenLedger(5)
    machine.on_ledger(5, readable=2, sealed=False)
    assert machine.next_step() == ReadEntries(5, 0, 2)
    machine.on_read(5, 1)
    assert machine.next_step() == ReadEntries(5, 2, 2)
    machine.on_read(5, 2)
    step = machine.next_step()
    assert isinstance(step, WaitForEntries) and (step.ledger_id, step.beyond) == (5, 2)
    assert step.why == "ledger 5 is read up to its last confirmed entry 2"
    assert machine.at_tail
    machine.on_ledger(5, readable=4, sealed=False)
    assert machine.next_step() == ReadEntries(5, 3, 4)


@pytest.mark.parametrize("last_ledger_id", [-1, 4])
def test_an_empty_log_is_not_said_to_be_unwritten(last_ledger_id: int) -> None:
    """A takeover without a ledger has dropped ledger 4, to which nothing was appended."""
    machine = tailing()
    show(machine, record(last_ledger_id=last_ledger_id))
    assert machine.next_step() == WaitForLedger("log orders is empty and has no writer")


def test_a_listed_successor_is_no_permission_to_advance() -> None:
    """Ledger 5 is drained but not sealed: the reader waits there and says why."""
    machine = tailing()
    show(machine, record(5, 6))
    machine.on_ledger(5, readable=0, sealed=False)
    machine.on_read(5, 0)
    step = machine.next_step()
    assert isinstance(step, WaitForEntries)
    assert "ledger 5 is not sealed yet, so ledger 6 may not be read" in step.why
    assert not machine.at_tail


def test_a_successor_that_was_listed_before_the_seal_is_read_without_another_look() -> None:
    """Nothing enters the list below it, so it comes next."""
    machine = tailing()
    show(machine, record(5, 6))
    machine.on_ledger(5, readable=0, sealed=False)
    machine.on_read(5, 0)
    machine.on_ledger(5, readable=0, sealed=True)
    assert machine.next_step() == OpenLedger(6)


def test_without_a_listed_successor_the_record_is_read_after_the_seal_was_seen() -> None:
    machine = tailing()
    show(machine, record(5))
    machine.on_ledger(5, readable=0, sealed=True)
    machine.on_newer_record(record(5), window_of(record(5)))
    assert machine.next_step() == ReadRecord(), "that read may have begun before the seal"
    show(machine, record(5, 6))
    machine.on_read(5, 0)
    assert machine.next_step() == OpenLedger(6)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_successor_that_a_takeover_has_dropped_is_passed_by(is_deleted: bool) -> None:
    """Ledger 6 was listed, and was dropped empty by the takeover that sealed 5."""
    machine = tailing()
    show(machine, record(5, 6))
    machine.on_ledger(5, readable=0, sealed=True)
    machine.on_read(5, 0)
    assert machine.next_step() == OpenLedger(6)
    if is_deleted:
        machine.on_ledger_missing(6)
    else:
        machine.on_ledger(6, readable=-1, sealed=True)
    assert machine.next_step() == ReadRecord()
    show(machine, record(listed(5, 0), 9))
    assert machine.next_step() == OpenLedger(9)
    assert machine.position == at(9)


def test_entries_that_appear_with_the_seal_are_read_before_advancing() -> None:
    """Recovery may adopt entries above the LAC that the reader knew."""
    machine = tailing()
    show(machine, record(5))
    machine.on_ledger(5, readable=0, sealed=False)
    machine.on_read(5, 0)
    machine.on_ledger(5, readable=3, sealed=True)
    show(machine, record(listed(5, 3), 6))
    assert machine.next_step() == ReadEntries(5, 1, 3)
    machine.on_read(5, 3)
    assert machine.next_step() == OpenLedger(6)


def test_sealed_ledgers_without_anything_wanted_are_passed_by() -> None:
    """A recorded seal below the position, also that of an empty ledger, needs no open."""
    machine = tailing(at(5, 10))
    show(machine, record(listed(5, 9), listed(6, -1), 7))
    assert machine.next_step() == OpenLedger(7)


def test_a_late_answer_moves_nothing_back() -> None:
    """A LAC from a slow bookie below a known one, or after the seal, is ignored."""
    machine = tailing()
    show(machine, record(5))
    machine.on_ledger(5, readable=5, sealed=False)
    machine.on_ledger(5, readable=3, sealed=False)
    assert machine.next_step() == ReadEntries(5, 0, 5)
    machine.on_ledger(5, readable=6, sealed=True)
    machine.on_ledger(5, readable=9, sealed=False)
    machine.on_ledger(4, readable=9, sealed=False)
    show(machine, record(5))
    assert machine.next_step() == ReadEntries(5, 0, 6)


def test_after_a_seal_without_successor_the_reader_waits_for_one() -> None:
    """Fenced and no CAS yet: anyone may open the log again."""
    machine = tailing()
    show(machine, record(5))
    machine.on_ledger(5, readable=-1, sealed=True)
    show(machine, record(listed(5, -1)))
    step = machine.next_step()
    assert isinstance(step, WaitForLedger) and "no writer" in step.why
    assert machine.at_tail
    machine.on_record_changed()
    assert machine.next_step() == ReadRecord()
    show(machine, record(8))
    assert machine.next_step() == OpenLedger(8)


# ---- the end (docs/log-semantics.md#rule-29, #rule-30)


def test_the_end_of_a_sealed_log_is_normal() -> None:
    """No more will ever come."""
    machine = tailing()
    show(machine, record(listed(5, 0), state=LogState.SEALED))
    assert machine.next_step() == OpenLedger(5)
    machine.on_ledger(5, readable=0, sealed=True)
    show(machine, record(listed(5, 0), state=LogState.SEALED))
    machine.on_read(5, 0)
    assert machine.next_step() == Finish()


def test_a_deleted_log_raises() -> None:
    """DELETING is not an end."""
    with pytest.raises(LogNotFoundError, match="orders"):
        show(tailing(), record(state=LogState.DELETING))


@pytest.mark.parametrize(("until", "last"), [(at(5, 3), 2), (at(5, 3, 1), 3), (at(6), 9), (at(5, 100), 9)])
def test_until_is_exclusive(until: MessageId, last: int) -> None:
    """An `until` inside an entry still needs that entry; one behind the ledger takes all of it."""
    machine = tailing(until=until)
    show(machine, record(5))
    machine.on_ledger(5, readable=9, sealed=False)
    assert machine.next_step() == ReadEntries(5, 0, last)


def test_until_ends_the_reader_without_asking_for_more() -> None:
    """At `until` nothing is read, not even the record."""
    machine = tailing(at(5, 2), until=at(5, 2))
    assert machine.next_step() == Finish()
    machine = tailing(until=at(5, 1))
    show(machine, record(5))
    machine.on_ledger(5, readable=9, sealed=False)
    machine.on_read(5, 0)
    assert machine.next_step() == Finish()


@pytest.mark.parametrize("until", [at(5, 7), at(6, 3), at(7)])
def test_a_range_ends_where_no_ledger_can_come_below_its_end(until: MessageId) -> None:
    """Ledger 5 is the last one and sealed, 6 was dropped: the next one gets an id from 7 on."""
    machine = tailing(until=until)
    show(machine, record(listed(5, 2), last_ledger_id=6))
    machine.on_ledger(5, readable=2, sealed=True)
    machine.on_read(5, 2)
    assert machine.next_step() == Finish()
    machine = tailing(at(6), until=max(until, at(6, 3)))
    show(machine, record(listed(5, 2), last_ledger_id=6))
    assert machine.next_step() == Finish()


@pytest.mark.parametrize("until", [at(7, 0, 1), at(7, 1), at(9)])
def test_a_range_that_ends_above_the_last_ledger_waits_for_the_next(until: MessageId) -> None:
    machine = tailing(until=until)
    show(machine, record(listed(5, 2), last_ledger_id=6))
    machine.on_ledger(5, readable=2, sealed=True)
    machine.on_read(5, 2)
    assert isinstance(machine.next_step(), WaitForLedger)


def test_an_empty_log_is_waited_for() -> None:
    """Created, and nobody has written yet."""
    machine = tailing()
    show(machine, record())
    assert isinstance(machine.next_step(), WaitForLedger)
    show(machine, record(3))
    assert machine.next_step() == OpenLedger(3)


# ---- positions that are not there (docs/log-semantics.md#rule-28)


def test_a_trimmed_start_fails_and_names_the_earliest() -> None:
    """By default a reader never skips in silence."""
    machine = tailing(at(5, 1))
    with pytest.raises(TrimmedError, match=r"5:1:0 .* earliest is 7:0:0") as caught:
        show(machine, record(7, trim_before=at(6, 3)))
    assert (caught.value.requested, caught.value.earliest) == (at(5, 1), at(7))


def test_a_trimmed_start_is_skipped_or_reported_if_asked() -> None:
    """Policies skip and gap go on at the first id that is left."""
    for policy in (OnMissing.SKIP, OnMissing.GAP):
        machine = tailing(at(5, 1), on_trimmed=policy)
        show(machine, record(7, trim_before=at(7, 2)))
        if policy is OnMissing.GAP:
            assert machine.next_step() == ReportGap(Gap(at(5, 1), at(7, 2), GapReason.TRIMMED))
        assert machine.next_step() == OpenLedger(7)
        machine.on_ledger(7, readable=3, sealed=False)
        assert machine.next_step() == ReadEntries(7, 2, 3)


def test_earliest_starts_after_the_trim_mark_without_complaint() -> None:
    """Also when the mark rises before anything was read; ids below it are invisible in a kept ledger."""
    machine = tailing()
    show(machine, record(5, trim_before=at(5, 2, 1)))
    machine.on_ledger(5, readable=9, sealed=False)
    show(machine, record(5, trim_before=at(5, 4)))
    assert machine.next_step() == ReadEntries(5, 4, 9)
    machine.on_read(5, 4)
    with pytest.raises(TrimmedError):
        show(machine, record(5, trim_before=at(5, 7)))


def test_a_position_above_the_last_ledger_is_unknown() -> None:
    """Proved by a fresh record; both numbers are named."""
    machine = tailing(at(9))
    with pytest.raises(UnknownPositionError, match=r"9:0:0 .* which is 5"):
        show(machine, record(5))


def test_a_position_in_a_log_without_ledgers_is_unknown() -> None:
    with pytest.raises(UnknownPositionError, match=r"9:0:0 .* log orders, which is empty: ") as caught:
        show(tailing(at(9)), record())
    assert caught.value.last is None


def test_the_first_position_after_a_log_is_known_if_all_its_ledgers_are_sealed() -> None:
    """A gap up to the end of the log ends there. With a ledger that is open, messages could come before it."""
    machine = tailing(at(6))
    show(machine, record(listed(4, 2), listed(5, 2)))
    assert isinstance(machine.next_step(), WaitForLedger)
    machine.on_record_changed()
    show(machine, record(listed(4, 2), listed(5, 2), 8))
    assert machine.next_step() == OpenLedger(8)
    for position, ledgers in (
        (at(6), (listed(4, 2), 5)),
        (at(6), (4, listed(5, 2))),
        (at(6, 1), (listed(5, 2),)),
        (at(6, 0, 1), (listed(5, 2),)),
        (at(7), (listed(5, 2),)),
    ):
        with pytest.raises(UnknownPositionError):
            show(tailing(position), record(*ledgers))


def test_a_position_above_every_ledger_is_unknown_also_if_the_range_ends_before_it() -> None:
    """As of a cursor that is ahead of a log whose metadata was restored from a backup."""
    reader = tailing(MessageId(9, 0, 0), until=MessageId(5, 1, 0))
    assert reader.next_step() == ReadRecord()
    with pytest.raises(UnknownPositionError, match=r"9:0:0 .* which is 5"):
        show(reader, record(listed(5, 0)))


def test_a_range_that_is_empty_in_a_log_with_both_ends_has_no_messages() -> None:
    reader = tailing(MessageId(5, 3, 0), until=MessageId(5, 1, 0))
    assert reader.next_step() == Finish()
    reader = tailing(MessageId(7, 0, 0), until=MessageId(5, 1, 0))
    show(reader, record(listed(5, 0), 7))
    assert reader.next_step() == Finish()


def test_a_dropped_empty_ledger_is_passed_by() -> None:
    """Between listed ledgers, before the first and after the last: nothing was in it."""
    for ledgers, expected in (((5, 8), 8), ((8,), 8)):
        machine = tailing(at(6))
        show(machine, record(*ledgers))
        assert machine.next_step() == OpenLedger(expected)
    machine = tailing(at(6))
    show(machine, record(5, last_ledger_id=6))
    assert isinstance(machine.next_step(), WaitForLedger)
    machine = tailing(at(6))
    show(machine, record(listed(5, 0), last_ledger_id=6, state=LogState.SEALED))
    assert machine.next_step() == Finish()


def test_a_missing_ledger_is_data_loss_only_if_a_fresh_record_lists_it() -> None:
    """Dropped meanwhile: go on. Still listed: never skipped."""
    machine = tailing()
    show(machine, record(5, 6))
    machine.on_ledger_missing(5)
    assert machine.next_step() == ReadRecord()
    show(machine, record(6))
    assert machine.next_step() == OpenLedger(6)
    machine.on_ledger_missing(6)
    with pytest.raises(DataLossError, match="of log orders from 6:0:0 to before 7:0:0"):
        show(machine, record(6, 7))


def test_data_loss_becomes_a_gap_if_asked() -> None:
    """A whole ledger, the last ledger, or one entry."""
    machine = tailing(on_data_loss=OnMissing.GAP)
    show(machine, record(5, 6))
    machine.on_ledger_missing(5)
    show(machine, record(5, 6))
    assert machine.next_step() == ReportGap(Gap(at(5), at(6), GapReason.DATA_LOSS))
    assert machine.next_step() == OpenLedger(6)
    machine.on_ledger(6, readable=2, sealed=False)
    machine.on_entry_missing(6)
    show(machine, record(5, 6))
    assert machine.next_step() == ReportGap(Gap(at(6), at(6, 1), GapReason.DATA_LOSS))
    assert machine.next_step() == ReadEntries(6, 1, 2)


@pytest.mark.parametrize("lost", ["entry", "ledger"])
def test_after_a_gap_a_trim_is_reported_to_a_reader_from_the_earliest_message(lost: str) -> None:
    """Only what was trimmed before it has returned anything is no news to it; a gap is something."""
    machine = tailing(on_data_loss=OnMissing.GAP, on_trimmed=OnMissing.GAP)
    ledgers = [listed(5, 3), listed(7, 3), 9]
    show(machine, record(*ledgers))
    assert machine.next_step() == OpenLedger(5)
    if lost == "entry":
        machine.on_ledger(5, readable=3, sealed=True)
        machine.on_entry_missing(5)
        begins = at(5, 1)
    else:
        machine.on_ledger_missing(5)
        begins = at(7)
    show(machine, record(*ledgers))
    assert machine.next_step() == ReportGap(Gap(at(5), begins, GapReason.DATA_LOSS))
    show(machine, record(*ledgers, trim_before=at(7, 2)))
    assert machine.next_step() == ReportGap(Gap(begins, at(7, 2), GapReason.TRIMMED))
    assert machine.position == at(7, 2)


def test_damaged_metadata_of_a_ledger_is_a_gap_up_to_the_next_one_or_an_error_that_names_it() -> None:
    for ledgers in ((5, 6), (listed(5, 2), 6)):
        machine = tailing(on_data_loss=OnMissing.GAP)
        show(machine, record(*ledgers))
        machine.on_ledger_damaged(5)
        assert machine.next_step() == ReadRecord()
        show(machine, record(*ledgers))
        assert machine.next_step() == ReportGap(Gap(at(5), at(6), GapReason.DATA_LOSS))
        assert machine.next_step() == OpenLedger(6)
        machine = tailing()
        show(machine, record(*ledgers))
        machine.on_ledger_damaged(5)
        with pytest.raises(
            DataLossError, match=r"the metadata of ledger 5 is damaged.* start at 6:0:0"
        ) as raised:
            show(machine, record(*ledgers))
        assert (raised.value.ledger_id, raised.value.log) == (5, "orders")


@pytest.mark.parametrize(
    ("lose", "why"),
    [
        (
            Tailing.on_ledger_missing,
            "cannot be read because ledger 5 does not exist: restore the metadata store",
        ),
        (
            Tailing.on_ledger_damaged,
            "cannot be read because the metadata of ledger 5 is damaged: restore the metadata store",
        ),
        (Tailing.on_entry_missing, "are missing on all bookies: restore them"),
    ],
)
@pytest.mark.parametrize("cursor", [None, "c"])
def test_the_error_of_a_loss_names_what_is_lost_and_how_to_pass_it(
    lose: Callable[[Tailing, int], None], why: str, cursor: str | None
) -> None:
    """A reader with a cursor does not begin at `start`, so that the cursor must be moved."""
    machine = Tailing("orders", position=at(5), cursor=cursor)
    show(machine, record(listed(5, 0), 6))
    machine.on_ledger(5, readable=0, sealed=True)
    lose(machine, 5)
    with pytest.raises(DataLossError) as raised:
        show(machine, record(listed(5, 0), 6))
    after = raised.value.resume_at
    go_on = (
        f"start at {after}"
        if cursor is None
        else f"move the cursor to {after} with set_cursor or `dlog cursor set orders c {after}`"
    )
    assert why in str(raised.value)
    assert str(raised.value).endswith(
        f", {go_on}, or read past it with on_data_loss='gap' or `dlog read --on-data-loss gap`"
    )


def test_damaged_metadata_of_the_last_ledger_is_passed_only_if_the_record_has_its_seal() -> None:
    """Of one that may be written the end is not known: the reader would miss what is appended to it, or read it after
    what follows."""
    machine = tailing(on_data_loss=OnMissing.GAP)
    show(machine, record(listed(5, 2)))
    machine.on_ledger_damaged(5)
    show(machine, record(listed(5, 2)))
    assert machine.next_step() == ReportGap(Gap(at(5), at(6), GapReason.DATA_LOSS))
    assert isinstance(machine.next_step(), WaitForLedger)
    for position, policy in ((at(5), OnMissing.GAP), (at(5, 2), OnMissing.GAP), (at(5), OnMissing.FAIL)):
        machine = tailing(position, on_data_loss=policy)
        show(machine, record(5))
        machine.on_ledger_damaged(5)
        with pytest.raises(DataLossError, match="where that ledger ends is not known") as raised:
            show(machine, record(5))
        assert (raised.value.ledger_id, raised.value.resume_at) == (5, None)


def test_an_unsealed_last_ledger_that_is_lost_is_passed_by_no_reader() -> None:
    """Its writer needs no metadata to append. Once it is given up a ledger follows it, and the gap ends there."""
    for position, policy in ((at(5), OnMissing.GAP), (at(5, 2), OnMissing.GAP), (at(5), OnMissing.FAIL)):
        machine = tailing(position, on_data_loss=policy)
        show(machine, record(5))
        machine.on_ledger_missing(5)
        with pytest.raises(
            DataLossError, match=r"ledger 5, .* does not exist, and where .* given_up=\[5\]"
        ) as raised:
            show(machine, record(5))
        assert (raised.value.ledger_id, raised.value.first, raised.value.resume_at) == (5, position, None)
    machine = tailing(at(5, 2), on_data_loss=OnMissing.GAP)
    show(machine, record(5, 8))
    machine.on_ledger_missing(5)
    show(machine, record(5, 8))
    assert machine.next_step() == ReportGap(Gap(at(5, 2), at(8), GapReason.DATA_LOSS))
    assert machine.next_step() == OpenLedger(8)


def test_damaged_metadata_of_a_ledger_that_was_trimmed_since_is_no_loss() -> None:
    machine = tailing()
    show(machine, record(listed(5, 2), 6))
    machine.on_ledger_damaged(5)
    show(machine, record(6, trim_before=at(6)))
    assert machine.next_step() == OpenLedger(6)


def test_a_lost_last_ledger_leaves_the_reader_waiting_for_the_next() -> None:
    """Its successor is read as soon as it is listed."""
    machine = tailing(on_data_loss=OnMissing.GAP)
    show(machine, record(listed(5, 2)))
    machine.on_ledger_missing(5)
    show(machine, record(listed(5, 2)))
    assert machine.next_step() == ReportGap(Gap(at(5), at(6), GapReason.DATA_LOSS))
    assert isinstance(machine.next_step(), WaitForLedger)
    machine.on_record_changed()
    show(machine, record(listed(5, 2), 8))
    assert machine.next_step() == OpenLedger(8)


def test_a_range_that_ends_in_a_lost_last_ledger_ends_after_the_gap() -> None:
    machine = tailing(until=at(5, 5), on_data_loss=OnMissing.GAP)
    show(machine, record(listed(5, 4)))
    machine.on_ledger_missing(5)
    show(machine, record(listed(5, 4)))
    assert machine.next_step() == ReportGap(Gap(at(5), at(6), GapReason.DATA_LOSS))
    assert machine.next_step() == Finish()


def test_an_absent_entry_of_a_trimmed_ledger_is_trimmed_not_lost() -> None:
    """Deletion follows Shrink, so the record explains what the bookies no longer have."""
    machine = tailing()
    show(machine, record(listed(5, 9), 6))
    machine.on_ledger(5, readable=9, sealed=True)
    show(machine, record(listed(5, 9), 6))
    machine.on_read(5, 3)
    machine.on_entry_missing(5)
    with pytest.raises(TrimmedError):
        show(machine, record(6, trim_before=at(6)))


# ---- a position inside an entry, below the trim id


def test_a_lost_entry_at_the_position_is_reported_before_the_trim_mark_is_applied() -> None:
    """What lay in the entry cannot be told; what was trimmed behind it is reported as well."""
    trimmed = record(listed(5, last_entry=9), 6, trim_before=at(5, 7))
    machine = tailing(at(5, 3, 1), on_trimmed=OnMissing.GAP, on_data_loss=OnMissing.GAP)
    show(machine, trimmed)
    assert machine.next_step() == OpenLedger(5)
    machine.on_ledger(5, readable=9, sealed=True)
    show(machine, trimmed)
    assert machine.next_step() == CountMessages(5, 3)
    machine.on_entry_missing(5)
    show(machine, trimmed)
    assert machine.next_step() == ReportGap(Gap(at(5, 3, 1), at(5, 4), GapReason.DATA_LOSS))
    show(machine, trimmed)
    assert machine.next_step() == ReportGap(Gap(at(5, 4), at(5, 7), GapReason.TRIMMED))
    assert machine.next_step() == ReadEntries(5, 7, 9)


def test_a_lost_ledger_at_the_position_is_not_counted() -> None:
    trimmed = record(listed(5, last_entry=9), trim_before=at(5, 7))
    machine = tailing(at(5, 3, 1), on_data_loss=OnMissing.GAP)
    show(machine, trimmed)
    assert machine.next_step() == OpenLedger(5)
    machine.on_ledger_missing(5)
    show(machine, trimmed)
    assert machine.next_step() == ReportGap(Gap(at(5, 3, 1), at(6), GapReason.DATA_LOSS))
    show(machine, trimmed)
    assert isinstance(machine.next_step(), WaitForLedger)


def test_a_count_that_comes_late_changes_nothing() -> None:
    machine = tailing(at(5, 3, 1))
    show(machine, record(5))
    machine.on_ledger(5, readable=9, sealed=False)
    machine.on_count(5, 3, 1)
    assert machine.position == at(5, 3, 1)


# ---- what is known on the way


def test_the_successor_of_an_open_ledger_is_known_before_it_may_be_read() -> None:
    machine = tailing(at(5))
    assert machine.successor is None
    show(machine, record(5, 6, 7))
    assert machine.successor is None, "5 is not open yet"
    machine.on_ledger(5, readable=0, sealed=False)
    assert machine.successor == 6
    show(machine, record(5))
    assert machine.successor is None
    show(machine, record(5, listed(6, 0), 7))
    assert machine.successor is None, "what is sealed is read ahead"
    show(machine, record(5, 6, 7))
    machine.on_ledger(5, readable=0, sealed=True)
    assert machine.successor is None, "it is opened in its turn"


@pytest.mark.parametrize(("until", "expected"), [(at(6), None), (at(6, 1), 6), (at(5, 9), None)])
def test_a_successor_that_is_not_wanted_is_none(until: MessageId, expected: int | None) -> None:
    machine = tailing(at(5), until=until)
    show(machine, record(5, 6))
    machine.on_ledger(5, readable=0, sealed=False)
    assert machine.successor == expected


def test_a_reader_knows_how_much_is_ahead_of_it() -> None:
    machine = tailing(at(5))
    assert (machine.at_tail, machine.readable_entry, machine.readable_ahead) == (False, -1, 0)
    assert machine.listed_after(5, ()) == 0
    show(machine, record(4, 5, 6, 7))
    assert (machine.at_tail, machine.readable_entry, machine.readable_ahead) == (False, -1, 0)
    assert machine.listed_after(5, ()) == 2
    machine = tailing(at(7))
    show(machine, record(5, 7))
    assert (machine.at_tail, machine.listed_after(7, ())) == (False, 0)
    machine.on_ledger(7, readable=0, sealed=False)
    assert (machine.at_tail, machine.readable_entry) == (False, 0)
    machine.on_read(7, 0)
    assert machine.at_tail


def test_what_is_readable_ahead_is_known_from_the_ledger_and_from_seals() -> None:
    machine = tailing(at(5, 2))
    show(machine, record(listed(5, 3), listed(6, -1), listed(7, 4), 8, listed(9, 9)))
    assert machine.readable_ahead == 2 + 0 + 5  # what follows the open ledger 8 is not confirmed
    machine.on_ledger(5, readable=3, sealed=True)
    assert machine.readable_ahead == 2 + 0 + 5
    machine.on_read(5, 3)
    assert machine.readable_ahead == 5
    machine = tailing(at(7, 1))
    show(machine, record(7, listed(8, 4)))
    machine.on_ledger(7, readable=2, sealed=False)
    assert machine.readable_ahead == 2
    machine.on_read(7, 2)
    assert machine.readable_ahead == 0
    machine = tailing(at(7, 9))
    show(machine, record(listed(7, 2), listed(8, 0)))
    assert machine.readable_ahead == 1


def test_listed_ledgers_are_counted_from_behind_the_position() -> None:
    machine = tailing(at(6))
    show(machine, record(4, 5, 6, 7))
    assert [machine.listed_after(one, {4, 5}) for one in (3, 4, 5, 6, 7)] == [4, 3, 2, 1, 0]
    assert machine.listed_after(5, {6}) == 2
    show(machine, record(last_ledger_id=9))
    assert machine.listed_after(3, {4, 5}) == 2


def test_a_reader_is_not_at_the_tail_while_it_enters_a_ledger() -> None:
    """Nothing is known of the next ledger between the end of one and the opening of the next."""
    machine = tailing(at(5))
    show(machine, record(5))
    machine.on_ledger(5, readable=0, sealed=True)
    machine.on_read(5, 0)
    show(machine, record(listed(5, 0), 6))
    assert machine.next_step() == OpenLedger(6)
    assert not machine.at_tail
    machine.on_ledger(6, readable=-1, sealed=False)
    assert machine.at_tail


def test_a_reader_after_the_last_sealed_ledger_is_at_the_tail() -> None:
    """It does not open the ledger, whose end the record has."""
    machine = tailing(at(5, 3))
    show(machine, record(listed(5, 2)))
    assert isinstance(machine.next_step(), WaitForLedger)
    assert machine.at_tail


def test_an_absent_entry_is_judged_by_a_fresh_record() -> None:
    machine = tailing(at(5))
    show(machine, record(5))
    machine.on_ledger(5, readable=3, sealed=False)
    machine.on_entry_missing(5)
    assert machine.next_step() == ReadRecord()


# ---- positions below the trim mark (docs/log-semantics.md#rule-28)


def counting(count: int, *, readable: int = 2) -> Tailing:
    """At message 3 of entry 2, which lies below the mark, in an open ledger: its entry has been counted."""
    machine = tailing(at(5, 2, 3), on_trimmed=OnMissing.GAP)
    log = record(5, trim_before=at(5, 3), trimmed_end=at(4, 9))
    show(machine, log)
    assert machine.next_step() == OpenLedger(5)
    machine.on_ledger(5, readable=readable, sealed=False)
    assert machine.next_step() == ReadRecord(), "only now it is known how far the ledger goes"
    show(machine, log)
    assert machine.next_step() == CountMessages(5, 2)
    machine.on_count(5, 2, count)
    return machine


def test_a_position_after_the_last_message_of_a_trimmed_entry_has_missed_nothing() -> None:
    machine = counting(3, readable=4)
    assert machine.position == at(5, 3)
    assert machine.next_step() == ReadEntries(5, 3, 4)


def test_a_position_within_a_trimmed_entry_has_missed_the_rest_of_it() -> None:
    machine = counting(4)
    assert machine.next_step() == ReportGap(Gap(at(5, 2, 3), at(5, 3), GapReason.TRIMMED))


def test_a_position_at_the_trim_mark_is_read_from_even_within_an_entry() -> None:
    machine = tailing(at(5, 2, 3))
    show(machine, record(listed(5, 9), trim_before=at(5, 2, 3), trimmed_end=at(4, 9)))
    machine.on_ledger(5, readable=9, sealed=True)
    show(machine, record(listed(5, 9), trim_before=at(5, 2, 3), trimmed_end=at(4, 9)))
    assert machine.next_step() == ReadEntries(5, 2, 9)


@pytest.mark.parametrize("seal", [None, 9])
def test_the_end_of_what_was_removed_followed_by_nothing_trimmed_has_missed_nothing(seal: int | None) -> None:
    machine = tailing(at(4, 7))
    show(machine, record(listed(5, seal), trim_before=at(5), trimmed_end=at(4, 7)))
    assert machine.position == at(5)


@pytest.mark.parametrize("mark", [at(5, 2), at(5, 0, 1)])
def test_the_end_of_what_was_removed_followed_by_a_trimmed_part_has_missed_that(mark: MessageId) -> None:
    machine = tailing(at(4, 7), on_trimmed=OnMissing.GAP)
    show(machine, record(listed(5, 0), trim_before=mark, trimmed_end=at(4, 7)))
    assert machine.next_step() == ReportGap(Gap(at(4, 7), mark, GapReason.TRIMMED))


def test_whether_a_part_of_an_open_ledger_was_missed_is_known_once_it_is_open() -> None:
    machine = tailing(at(4, 7), on_trimmed=OnMissing.GAP)
    log = record(5, trim_before=at(5, 3), trimmed_end=at(4, 7))
    show(machine, log)
    assert (machine.position, machine.next_step()) == (at(5), OpenLedger(5))
    machine.on_ledger(5, readable=2, sealed=False)
    assert machine.next_step() == ReadRecord()
    show(machine, log)
    assert machine.next_step() == ReportGap(Gap(at(5), at(5, 3), GapReason.TRIMMED))


def test_ledgers_below_the_position_decide_nothing() -> None:
    """Ledger 5 is kept since the record does not hold its seal yet."""
    machine = tailing(at(6, 2), on_trimmed=OnMissing.GAP)
    show(machine, record(5, listed(6, 9), trim_before=at(6, 4), trimmed_end=at(4, 7)))
    assert machine.next_step() == ReportGap(Gap(at(6, 2), at(6, 4), GapReason.TRIMMED))
    assert machine.position == at(6, 4)


def test_empty_ledgers_before_the_trim_mark_are_passed_by() -> None:
    """None of them has to be opened to see that nothing of it was missed."""
    machine = tailing(at(4, 7))
    show(machine, record(listed(5, -1), 6, trim_before=at(6, 3), trimmed_end=at(4, 7)))
    assert (machine.position, machine.next_step()) == (at(6), OpenLedger(6))


# ---- borders of what is known


def test_a_log_without_ledgers_has_no_position_above_the_first_id() -> None:
    machine = tailing(at(0, 4))
    show(machine, record())
    assert isinstance(machine.next_step(), WaitForLedger)
    with pytest.raises(UnknownPositionError):
        show(tailing(at(1)), record())


def test_the_last_entry_of_a_sealed_ledger_can_be_lost() -> None:
    machine = tailing(at(5, 3))
    show(machine, record(listed(5, 3)))
    machine.on_entry_missing(5)
    with pytest.raises(DataLossError, match="from 5:3:0 to before 5:4:0"):
        show(machine, record(listed(5, 3)))


def test_after_a_lost_ledger_the_very_next_one_is_read() -> None:
    machine = tailing(at(5), on_data_loss=OnMissing.GAP)
    log = record(listed(5, 2), listed(6, 1), 7)
    show(machine, log)
    machine.on_ledger_missing(5)
    show(machine, log)
    assert machine.next_step() == ReportGap(Gap(at(5), at(6), GapReason.DATA_LOSS))
    assert machine.position == at(6)
