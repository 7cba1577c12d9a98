"""Histories in which a writer got or left what must not be: each is a sound one with one thing wrong."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

from dlog.testing.checks.history import (
    Append,
    History,
    Observation,
    Outcome,
    Resolved,
    Takeover,
    WholeRead,
)
from tests.helpers.simulation.histories import (
    FINAL,
    ONE,
    Wrong,
    change,
    ids,
    one,
    refused_by,
    two,
    unseen,
)

WRONG_APPENDS: Wrong = []


def commit_late(history: History, **fields: Any) -> None:
    """The first handle is given one more message after the other has taken over, and it is in the log."""
    lost = (b"i8", b"i9")  # and so would be what follows
    history.appends[:] = [append for append in history.appends if append.payload not in lost]
    history.resolutions.clear()
    late = Append(ONE, 11, b"late", 6.2, inf, Outcome.INDETERMINATE)
    history.appends.append(replace(late, **fields))
    history.final.append((two(2), b"late"))


# ---- takeovers


@refused_by(WRONG_APPENDS, "c6_nothing_of_a_deposed_writer_is_committed", "c6_writers_follow_one_another")
def an_append_to_a_deposed_handle_is_committed_after_the_new_writers(history: History) -> None:
    commit_late(history)


@refused_by(WRONG_APPENDS, "c6_nothing_of_a_deposed_writer_is_committed")
def an_indeterminate_append_to_a_deposed_handle_is_committed(history: History) -> None:
    commit_late(history, returned=9, message_id=two(2))


@refused_by(WRONG_APPENDS, "c6_nothing_of_a_deposed_writer_is_committed")
def a_cancelled_append_to_a_deposed_handle_is_committed(history: History) -> None:
    commit_late(history, returned=6.3, outcome=Outcome.CANCELLED)


@refused_by(WRONG_APPENDS, "c6_nothing_of_a_deposed_writer_is_committed")
def an_append_to_a_deposed_handle_is_committed_before_the_new_writers(history: History) -> None:
    commit_late(history)
    history.final[4:] = [(one(6), b"late"), *FINAL[4:]]
    unseen(history)


@refused_by(WRONG_APPENDS, "c6_nothing_of_a_deposed_writer_is_committed")
def an_append_to_a_deposed_handle_is_acknowledged(history: History) -> None:
    commit_late(history, returned=7, outcome=Outcome.ACKED, message_id=two(2))


@refused_by(WRONG_APPENDS, "c6_writers_follow_one_another")
def an_append_in_flight_at_the_takeover_is_committed_after_the_new_writers(history: History) -> None:
    change(history, b"i8", outcome=Outcome.CANCELLED)
    history.final.append((two(2), b"i9"))


@refused_by(WRONG_APPENDS, "c6_each_takeover_has_a_higher_epoch")
def two_takeovers_get_the_same_epoch(history: History) -> None:
    history.takeovers[1] = replace(history.takeovers[1], epoch=1)


@refused_by(WRONG_APPENDS, "c6_each_takeover_has_a_higher_epoch")
def a_later_takeover_gets_a_lower_epoch(history: History) -> None:
    history.takeovers.insert(0, Takeover("three", 9, 0, 8.9))


# ---- order


@refused_by(WRONG_APPENDS, "c7_per_handle_order")
def two_appends_in_flight_survive_in_swapped_order(history: History) -> None:
    for payload in (b"i6", b"i7"):
        change(history, payload, message_id=None, returned=inf)
    history.final[2:4] = [(one(4), b"i7"), (one(5), b"i6")]
    unseen(history)


@refused_by(WRONG_APPENDS, "c7_per_handle_order")
def a_cancelled_append_is_after_a_later_acknowledged_one(history: History) -> None:
    change(history, b"a5", message_id=one(2))
    history.final[:2] = [(one(2), b"a5"), (one(3), b"c4")]
    unseen(history)


@refused_by(WRONG_APPENDS, "c7_per_handle_order")
def a_later_append_gets_a_lower_id(history: History) -> None:
    change(history, b"t0", message_id=two(1))
    change(history, b"t1", message_id=two(0))


@refused_by(WRONG_APPENDS, "c6_real_time_order")
def a_survivor_is_below_an_id_that_was_acknowledged_before_it_was_invoked(history: History) -> None:
    """By another handle, so that no order of calls forbids it."""
    history.takeovers.clear()
    change(history, b"c4", writer="three", invoked=4.6, outcome=Outcome.INDETERMINATE, returned=inf)
    unseen(history)


@refused_by(WRONG_APPENDS, "c6_real_time_order")
def a_cancelled_survivor_is_below_what_a_reader_had_returned_before_it_was_invoked(history: History) -> None:
    history.takeovers.clear()
    change(history, b"i6", writer="three", message_id=None, outcome=Outcome.CANCELLED, invoked=6.7)
    change(history, b"i7", writer="four")
    history.whole_reads.clear()
    history.resolutions.clear()
    del history.readers["tail"][6]


@refused_by(WRONG_APPENDS, "c6_real_time_order")
def a_survivor_is_below_what_was_resolved_as_committed_before_it_was_invoked(history: History) -> None:
    unseen(history)
    history.takeovers.clear()
    change(history, b"i6", writer="three", message_id=None, outcome=Outcome.CANCELLED, invoked=7.5)
    history.resolutions.append(Resolved(b"i7", one(5), "committed", 7, 7.2))


@refused_by(WRONG_APPENDS, "c6_real_time_order")
def an_acknowledged_message_is_below_an_earlier_acknowledged_one(history: History) -> None:
    history.takeovers.clear()
    change(history, b"a5", invoked=9, returned=9.5)


# ---- outcomes


@refused_by(WRONG_APPENDS, "c3_no_rejected_message_appears")
def a_rejected_message_is_in_the_log(history: History) -> None:
    history.final.append((two(2), b"r10"))


@refused_by(WRONG_APPENDS, "c3_an_indeterminate_message_is_at_its_id_or_nowhere")
def an_indeterminate_message_is_at_another_id(history: History) -> None:
    change(history, b"i7", message_id=one(7))


@refused_by(WRONG_APPENDS, "c3_an_id_belongs_to_one_message")
def two_appends_get_the_same_would_be_id(history: History) -> None:
    change(history, b"i8", message_id=one(5))


@refused_by(WRONG_APPENDS, "c3_an_id_belongs_to_one_message")
def an_id_is_given_again_to_other_bytes(history: History) -> None:
    change(history, b"t1", message_id=two(0))


@refused_by(WRONG_APPENDS, "c3_an_id_belongs_to_one_message")
def another_message_is_at_the_only_id_of_an_indeterminate_one(history: History) -> None:
    change(history, b"i7", message_id=None)
    change(history, b"i8", message_id=one(5))
    history.resolutions.clear()


@refused_by(WRONG_APPENDS, "c3_what_was_resolved_stays_so")
def what_was_resolved_as_absent_is_committed(history: History) -> None:
    history.resolutions.append(Resolved(b"i7", one(5), "absent"))


@refused_by(WRONG_APPENDS, "c3_what_was_resolved_stays_so")
def what_was_resolved_as_absent_was_trimmed_as_committed(history: History) -> None:
    history.resolutions.append(Resolved(b"b2", one(1, 1), "absent"))


@refused_by(WRONG_APPENDS, "c3_what_was_resolved_stays_so")
def what_was_resolved_as_absent_was_seen_by_a_reader(history: History) -> None:
    history.readers["late"].append(Observation(one(6), b"i8", 11))


@refused_by(WRONG_APPENDS, "c3_what_was_resolved_stays_so")
def what_was_resolved_as_absent_is_in_a_whole_read(history: History) -> None:
    history.whole_reads.append(WholeRead("odd", 9.6, ids(FINAL) | {one(6)}, ended=9.8))


@refused_by(WRONG_APPENDS, "c3_what_was_resolved_stays_so")
def what_was_resolved_as_absent_is_acknowledged(history: History) -> None:
    change(history, b"i8", outcome=Outcome.ACKED)


@refused_by(WRONG_APPENDS, "c3_what_was_resolved_stays_so")
def what_was_resolved_as_committed_is_missing(history: History) -> None:
    history.resolutions.append(Resolved(b"i9", one(7), "committed"))


@refused_by(WRONG_APPENDS, "c3_what_was_resolved_stays_so")
def what_was_resolved_as_committed_is_missing_below_the_trim_position(history: History) -> None:
    history.resolutions.append(Resolved(b"i9", one(1, 3), "committed"))


@refused_by(WRONG_APPENDS, "c3_what_was_resolved_stays_so")
def what_was_resolved_as_committed_is_another_message(history: History) -> None:
    history.resolutions.append(Resolved(b"i9", one(5), "committed"))


@refused_by(WRONG_APPENDS, "c3_what_was_resolved_stays_so")
def an_outcome_is_committed_and_absent(history: History) -> None:
    history.complete = False
    history.resolutions.append(Resolved(b"i8", one(6), "committed"))


@refused_by(WRONG_APPENDS, "c3_what_was_resolved_stays_so")
def an_outcome_is_trimmed_before_any_trim(history: History) -> None:
    history.resolutions.append(Resolved(b"a0", one(0), "trimmed", 7, 8))


@refused_by(WRONG_APPENDS, "c8_no_holes")
def an_append_survives_without_the_one_before_it(history: History) -> None:
    change(history, b"a5", outcome=Outcome.INDETERMINATE)
    del history.final[1]
    unseen(history)


@refused_by(WRONG_APPENDS, "c8_no_holes")
def an_append_is_missing_before_the_last_one_of_a_shadow(history: History) -> None:
    change(history, b"a0", outcome=Outcome.INDETERMINATE)
    history.trims[0] = replace(history.trims[0], shadow=history.trims[0].shadow[1:])
    unseen(history)


# ---- batches


@refused_by(WRONG_APPENDS, "c8_batches_are_all_or_nothing")
def half_a_batch_survives(history: History) -> None:
    """Its end is missing, so the handle's survivors are a prefix."""
    change(history, b"i6", batch=6)
    change(history, b"i7", batch=6, message_id=one(4, 1))
    del history.final[3]
    unseen(history)


@refused_by(WRONG_APPENDS, "c8_batches_are_all_or_nothing")
def half_a_batch_was_trimmed_and_the_other_half_never_there(history: History) -> None:
    history.trims[0] = replace(history.trims[0], shadow=history.trims[0].shadow[:2])


@refused_by(WRONG_APPENDS, "c8_batches_are_all_or_nothing")
def a_batch_is_two_entries(history: History) -> None:
    change(history, b"i6", batch=6)
    change(history, b"i7", batch=6)


@refused_by(WRONG_APPENDS, "c8_batches_are_all_or_nothing")
def another_message_is_in_the_middle_of_a_batch(history: History) -> None:
    change(history, b"b2", batch=None)
    change(history, b"b1", batch=1)


@refused_by(WRONG_APPENDS, "c8_batches_are_all_or_nothing")
def a_batch_has_two_outcomes(history: History) -> None:
    change(history, b"b3", outcome=Outcome.INDETERMINATE)


# ---- contents


@refused_by(WRONG_APPENDS, "c1_no_acknowledged_message_is_lost")
def an_acknowledged_message_is_lost(history: History) -> None:
    del history.final[1]


@refused_by(WRONG_APPENDS, "c1_no_acknowledged_message_is_lost")
def an_acknowledged_message_was_lost_before_it_was_trimmed(history: History) -> None:
    history.trims[0] = replace(history.trims[0], shadow=history.trims[0].shadow[1:])
    unseen(history)


@refused_by(WRONG_APPENDS, "c1_no_acknowledged_message_is_lost", "c18_what_was_read_is_what_was_acknowledged")
def an_acknowledged_message_is_changed(history: History) -> None:
    history.final[1] = (one(3), b"i9")


@refused_by(WRONG_APPENDS, "c1_no_acknowledged_message_is_lost")
def an_append_is_acknowledged_without_an_id(history: History) -> None:
    change(history, b"a5", message_id=None)


@refused_by(WRONG_APPENDS, "c2_no_unsent_message")
def a_message_is_in_the_log_that_was_not_appended(history: History) -> None:
    history.final.append((two(2), b"who?"))


@refused_by(WRONG_APPENDS, "c2_no_unsent_message")
def a_message_was_trimmed_that_was_not_appended(history: History) -> None:
    history.trims[0] = replace(history.trims[0], shadow=(*history.trims[0].shadow, (one(1, 3), b"who?")))


@refused_by(WRONG_APPENDS, "c4_no_duplicates")
def a_message_is_in_the_log_twice(history: History) -> None:
    history.final.append((two(2), b"t1"))


@refused_by(WRONG_APPENDS, "c4_no_duplicates")
def a_trimmed_message_comes_back(history: History) -> None:
    history.final.append((two(2), b"a0"))


@refused_by(WRONG_APPENDS, "c6_conditional_appends_follow_what_they_expect")
def a_conditional_append_follows_another_message_than_it_expects(history: History) -> None:
    history.expected[b"t1"] = one(5)
