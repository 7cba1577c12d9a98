"""Histories in which a reader got, or a trim did, what must not be: each is a sound one with one thing wrong."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from dlog.model import EARLIEST_ID, MessageId
from dlog.testing.checks.history import (
    Append,
    History,
    Observation,
    Outcome,
    ReadFrom,
    ReportedGap,
    WholeRead,
)
from tests.helpers.simulation.histories import (
    EVERYTHING,
    Wrong,
    ids,
    one,
    refused_by,
    two,
)

WRONG_READS: Wrong = []


# ---- readers


@refused_by(WRONG_READS, "c5_all_readers_agree")
def a_reader_gets_other_bytes(history: History) -> None:
    history.readers["late"][0] = Observation(one(3), b"i8", 10)


@refused_by(WRONG_READS, "c5_all_readers_agree")
def a_reader_got_other_bytes_of_what_was_trimmed(history: History) -> None:
    history.readers["tail"][0] = Observation(one(0), b"i8", 6)


@refused_by(WRONG_READS, "c5_all_readers_agree")
def two_readers_got_different_bytes_at_an_id_that_is_nowhere(history: History) -> None:
    history.readers["tail"].append(Observation(two(2), b"i8", 11))
    history.readers["late"].append(Observation(two(2), b"i9", 11))


@refused_by(WRONG_READS, "c9_nothing_is_readable_before_it_was_sent")
def a_reader_gets_a_message_before_it_is_appended(history: History) -> None:
    history.readers["tail"][-1] = replace(history.readers["tail"][-1], at=7.9)


@refused_by(WRONG_READS, "c10_once_read_always_readable")
def a_reader_has_read_beyond_the_tail(history: History) -> None:
    history.readers["tail"].append(Observation(two(2), b"i9", 9))


@refused_by(WRONG_READS, "c10_once_read_always_readable")
def what_a_reader_returned_was_not_there_when_it_was_trimmed(history: History) -> None:
    history.readers["tail"].insert(1, Observation(one(0, 1), b"i9", 9))


@refused_by(WRONG_READS, "c10_once_read_always_readable")
def what_a_whole_read_returned_disappears(history: History) -> None:
    history.whole_reads[1] = replace(history.whole_reads[1], message_ids=ids(EVERYTHING) | {one(6)})
    history.resolutions.clear()


@refused_by(WRONG_READS, "c11_reader_ids_increase")
def a_reader_goes_back(history: History) -> None:
    history.readers["late"].append(history.readers["late"][0])


@refused_by(WRONG_READS, "c11_reader_ids_increase")
def a_reader_returns_a_message_twice(history: History) -> None:
    history.readers["late"].insert(1, history.readers["late"][0])


@refused_by(WRONG_READS, "c11_reader_ids_increase")
def a_reader_returns_the_beginning_of_a_batch_and_then_the_next_entry(history: History) -> None:
    del history.readers["tail"][2:4]


@refused_by(WRONG_READS, "c11_reader_ids_increase")
def a_reader_skips_a_message(history: History) -> None:
    del history.readers["late"][1]


@refused_by(WRONG_READS, "c11_reader_ids_increase")
def a_reader_that_may_skip_what_is_trimmed_skips_more(history: History) -> None:
    history.skipping.add("tail")
    del history.readers["tail"][1:5]


@refused_by(WRONG_READS, "c11_reader_ids_increase")
def the_log_is_not_in_order(history: History) -> None:
    history.final[:2] = reversed(history.final[:2])


@refused_by(WRONG_READS, "c11_whole_reads_leave_nothing_out")
def a_whole_read_has_a_gap(history: History) -> None:
    history.whole_reads[1] = replace(history.whole_reads[1], message_ids=ids(EVERYTHING) - {one(5)})


@refused_by(WRONG_READS, "c11_whole_reads_leave_nothing_out")
def a_whole_read_begins_too_late(history: History) -> None:
    """What it leaves out was neither acknowledged nor sealed when it was opened."""
    survivor = Append("zero", 0, b"z0", 0.6, inf, Outcome.INDETERMINATE)
    history.appends.append(survivor)
    history.trims[0] = replace(
        history.trims[0], shadow=((MessageId(6, 0, 0), b"z0"), *history.trims[0].shadow)
    )
    history.readers.clear()
    del history.whole_reads[1:]


@refused_by(WRONG_READS, "c11_whole_reads_leave_nothing_out")
def a_whole_read_begins_before_its_start(history: History) -> None:
    history.whole_reads[2] = replace(history.whole_reads[2], message_ids=ids(EVERYTHING[2:]))


@refused_by(WRONG_READS, "c9_what_was_acknowledged_is_seen_by_every_later_reader")
def a_reader_overlooks_an_acknowledged_message(history: History) -> None:
    history.whole_reads[1] = replace(history.whole_reads[1], message_ids=ids(EVERYTHING[:-1]))


@refused_by(WRONG_READS, "c9_what_was_acknowledged_is_seen_by_every_later_reader")
def a_reader_overlooks_an_acknowledged_message_that_is_trimmed_later(history: History) -> None:
    history.whole_reads.append(WholeRead("blind", 1.6, frozenset(), ended=1.7))


@refused_by(WRONG_READS, "c9_what_was_acknowledged_is_seen_by_every_later_reader")
def a_reader_from_the_middle_overlooks_an_acknowledged_message(history: History) -> None:
    history.whole_reads.append(WholeRead("blind", 8.6, frozenset(), two(1), 8.7))


@refused_by(WRONG_READS, "c9_what_a_takeover_kept_is_seen_by_every_later_reader")
def what_a_reader_has_seen_and_a_takeover_has_sealed_is_missing_from_a_later_whole_read(
    history: History,
) -> None:
    history.whole_reads.append(WholeRead("blind", 6.7, ids(EVERYTHING[:7]), ended=6.8))


@refused_by(WRONG_READS, "c11_whole_reads_leave_nothing_out")
def what_a_reader_has_seen_is_left_out_of_a_later_whole_read(history: History) -> None:
    history.takeovers.clear()
    history.whole_reads.append(WholeRead("blind", 7.6, ids(EVERYTHING) - {one(4), two(1)}, ended=7.7))


@refused_by(WRONG_READS, "c9_what_a_later_append_confirmed_is_seen_by_every_later_reader")
def with_fast_visibility_a_reader_overlooks_what_a_later_append_confirmed(history: History) -> None:
    history.strict = False
    history.whole_reads.append(WholeRead("blind", 8.6, ids(EVERYTHING[:-2]), ended=8.7))


# ---- trims


@refused_by(WRONG_READS, "c10_only_what_was_asked_for_is_trimmed")
def more_is_trimmed_than_was_asked_for(history: History) -> None:
    history.trimmed_before = one(3)
    del history.final[0]


@refused_by(WRONG_READS, "c10_only_what_was_asked_for_is_trimmed")
def something_is_trimmed_that_no_client_asked_for(history: History) -> None:
    history.trims.clear()


@refused_by(WRONG_READS, "c10_only_what_was_asked_for_is_trimmed")
def a_trim_that_succeeded_has_no_effect(history: History) -> None:
    history.trimmed_before = one(1)
    history.final[:0] = EVERYTHING[1:4]


@refused_by(WRONG_READS, "c10_only_what_was_asked_for_is_trimmed")
def what_was_trimmed_is_returned_to_a_later_reader(history: History) -> None:
    history.whole_reads[3] = replace(history.whole_reads[3], message_ids=ids(EVERYTHING[3:]))


@refused_by(WRONG_READS, "c10_only_what_was_asked_for_is_trimmed")
def what_was_trimmed_is_read_at_the_end(history: History) -> None:
    history.final.insert(0, EVERYTHING[3])
    history.trims[0] = replace(history.trims[0], shadow=history.trims[0].shadow[:3])


@refused_by(WRONG_READS, "c11_readers_begin_where_they_were_asked")
def a_read_begins_one_message_too_late(history: History) -> None:
    late = history.readers["late"]
    history.starts["late"] = ReadFrom("id", late[0].message_id, 0, 0.0, 0.0, late[0].message_id)
    del late[0]


@refused_by(WRONG_READS, "c11_readers_begin_where_they_were_asked")
def a_read_after_a_message_returns_it(history: History) -> None:
    first = history.readers["late"][0].message_id
    history.starts["late"] = ReadFrom("after", first, 0, 0.0, 0.0, first)


@refused_by(WRONG_READS, "c11_readers_begin_where_they_were_asked")
def a_read_from_a_time_passes_over_a_message_of_that_time(history: History) -> None:
    _read_from_a_time(history, history.readers["late"][0].message_id, 1000)
    del history.readers["late"][0]


@refused_by(WRONG_READS, "c11_readers_begin_where_they_were_asked")
def a_read_from_a_time_begins_before_it(history: History) -> None:
    _read_from_a_time(history, history.readers["late"][1].message_id, 1001)


def _read_from_a_time(history: History, position: MessageId, time_us: int) -> None:
    """Its messages were appended at 1000, 1001 and so on."""
    history.times_us |= {each.message_id: 1000 + n for n, each in enumerate(history.readers["late"])}
    history.starts["late"] = ReadFrom("time", EARLIEST_ID, 0, 0.0, 0.0, position, time_us=time_us)


@refused_by(WRONG_READS, "c11_readers_begin_where_they_were_asked")
def a_tail_is_opened_below_what_was_acknowledged(history: History) -> None:
    last = history.final[-1][0]
    history.starts["new"] = ReadFrom("latest", EARLIEST_ID, 0, inf, inf, last)


@refused_by(WRONG_READS, "c11_readers_end_where_they_were_asked")
def a_read_until_a_message_returns_it(history: History) -> None:
    late = [each.message_id for each in history.readers["late"]]
    history.starts["late"] = ReadFrom("id", late[0], 0, 0.0, 0.0, late[0], until=late[-1])


@refused_by(WRONG_READS, "c11_readers_end_where_they_were_asked")
def a_read_until_a_message_leaves_out_the_one_before_it(history: History) -> None:
    late = [each.message_id for each in history.readers["late"]]
    start = ReadFrom("id", late[0], 0, 0.0, 0.0, late[0], complete=True, until=late[-1], ended=inf)
    history.starts["late"] = start
    del history.readers["late"][-2:]


# ---- gaps


@refused_by(WRONG_READS, "c11_readers_report_what_they_leave_out")
def a_reader_reports_less_than_it_leaves_out(history: History) -> None:
    _leave_out(history, one(1, 0), one(1, 2))


@refused_by(WRONG_READS, "c11_readers_report_what_they_leave_out")
def a_reader_reports_nothing_before_its_first_message(history: History) -> None:
    _leave_out(history)
    del history.readers["tail"][0]


@refused_by(WRONG_READS, "c11_readers_report_what_they_leave_out")
def a_reader_reports_more_than_was_to_be_trimmed(history: History) -> None:
    _leave_out(history, one(0), one(3))


def _leave_out(history: History, *gap: MessageId) -> None:
    """One reader leaves out b1 to b3, which are trimmed, and reports this gap, if any."""
    tail = history.readers["tail"]
    tail[1:4] = []
    tail[1:] = [replace(seen, at=9.5) for seen in tail[1:]]
    history.skipping.add("tail")
    history.starts["tail"] = ReadFrom("id", one(0), 0, 1.5, 1.6, one(0))
    history.gaps["tail"] = [ReportedGap(*gap, 9.5)] if gap else []
