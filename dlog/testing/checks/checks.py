"""The properties of every history, by the names they have in the test plan. Each returns what it found wrong.

Here: what is in the log (C1, C2, C4, C5). The others are in `outcomes.py`, `order.py` and `visibility.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

from dlog.model import MessageId
from dlog.testing.checks.history import History, Outcome
from dlog.testing.checks.order import (
    c6_conditional_appends_follow_what_they_expect,
    c6_each_takeover_has_a_higher_epoch,
    c6_nothing_of_a_deposed_writer_is_committed,
    c6_real_time_order,
    c6_writers_follow_one_another,
    c7_per_handle_order,
    c11_reader_ids_increase,
)
from dlog.testing.checks.outcomes import (
    c3_an_id_belongs_to_one_message,
    c3_an_indeterminate_message_is_at_its_id_or_nowhere,
    c3_no_rejected_message_appears,
    c3_what_was_resolved_stays_so,
    c8_batches_are_all_or_nothing,
    c8_no_holes,
)
from dlog.testing.checks.reading import (
    c11_readers_begin_where_they_were_asked,
    c11_readers_end_where_they_were_asked,
    c11_readers_report_what_they_leave_out,
)
from dlog.testing.checks.visibility import (
    c9_nothing_is_readable_before_it_was_sent,
    c9_what_a_later_append_confirmed_is_seen_by_every_later_reader,
    c9_what_a_takeover_kept_is_seen_by_every_later_reader,
    c9_what_was_acknowledged_is_seen_by_every_later_reader,
    c10_once_read_always_readable,
    c10_only_what_was_asked_for_is_trimmed,
    c11_whole_reads_leave_nothing_out,
)

Check = Callable[[History], Iterator[str]]

FINDINGS_MAX = 5
"""Of one property: the first few say it all."""


def c1_no_acknowledged_message_is_lost(history: History) -> Iterator[str]:
    """Each is at exactly its id, with the same bytes (docs/log-semantics.md#i4), also if it was trimmed later.

    At the level of ledgers: AllAckedEntriesAreReadable.
    """
    log = dict(history.log)
    for append in history.appends:
        if append.outcome is not Outcome.ACKED:
            continue
        if append.message_id is None:
            yield f"{append.payload!r} of {append.writer} was acknowledged without an id"
            continue
        found = log.get(append.message_id)
        if found is None:
            yield f"acknowledged message {append.message_id} ({append.payload!r} of {append.writer}) is lost"
        elif found != append.payload:
            yield f"acknowledged message {append.message_id} is {found!r}, expected {append.payload!r}"


def c2_no_unsent_message(history: History) -> Iterator[str]:
    sent = {append.payload for append in history.appends}
    for message_id, payload in history.log:
        if payload not in sent:
            yield f"message {message_id} is {payload!r}, which no writer appended"


def c4_no_duplicates(history: History) -> Iterator[str]:
    seen: dict[bytes, object] = {}
    for message_id, payload in history.log:
        if payload in seen:
            yield f"{payload!r} is in the log twice, at {seen[payload]} and at {message_id}"
        seen[payload] = message_id


def c5_all_readers_agree(history: History) -> Iterator[str]:
    """Source: docs/log-semantics.md#i7."""
    log = dict(history.log)
    agreed: dict[MessageId, tuple[bytes, str]] = {}
    for reader, observations in history.observed():
        for seen in observations:
            found = log.get(seen.message_id)
            if found is not None and found != seen.payload:
                yield f"{reader} read {seen.payload!r} at {seen.message_id}, the log has {found!r}"
            payload, other = agreed.setdefault(seen.message_id, (seen.payload, reader))
            if payload != seen.payload:
                yield f"{reader} read {seen.payload!r} at {seen.message_id}, {other} read {payload!r}"


CHECKS: tuple[Check, ...] = (
    c1_no_acknowledged_message_is_lost,
    c2_no_unsent_message,
    c3_no_rejected_message_appears,
    c3_an_indeterminate_message_is_at_its_id_or_nowhere,
    c3_an_id_belongs_to_one_message,
    c3_what_was_resolved_stays_so,
    c4_no_duplicates,
    c5_all_readers_agree,
    c6_real_time_order,
    c6_nothing_of_a_deposed_writer_is_committed,
    c6_writers_follow_one_another,
    c6_each_takeover_has_a_higher_epoch,
    c6_conditional_appends_follow_what_they_expect,
    c7_per_handle_order,
    c8_no_holes,
    c8_batches_are_all_or_nothing,
    c9_nothing_is_readable_before_it_was_sent,
    c9_what_was_acknowledged_is_seen_by_every_later_reader,
    c9_what_a_later_append_confirmed_is_seen_by_every_later_reader,
    c9_what_a_takeover_kept_is_seen_by_every_later_reader,
    c10_once_read_always_readable,
    c10_only_what_was_asked_for_is_trimmed,
    c11_reader_ids_increase,
    c11_whole_reads_leave_nothing_out,
    c11_readers_begin_where_they_were_asked,
    c11_readers_end_where_they_were_asked,
    c11_readers_report_what_they_leave_out,
)


OF_WHOLE_LOGS: tuple[Check, ...] = (
    c1_no_acknowledged_message_is_lost,
    c6_conditional_appends_follow_what_they_expect,
    c8_no_holes,
    c8_batches_are_all_or_nothing,
    c9_what_was_acknowledged_is_seen_by_every_later_reader,
    c9_what_a_later_append_confirmed_is_seen_by_every_later_reader,
    c9_what_a_takeover_kept_is_seen_by_every_later_reader,
    c10_once_read_always_readable,
    c11_reader_ids_increase,
    c11_whole_reads_leave_nothing_out,
    c11_readers_begin_where_they_were_asked,
    c11_readers_end_where_they_were_asked,
    c11_readers_report_what_they_leave_out,
)
"""Not checked if the log could not be read to its end, which was reported as an error."""


def c18_what_was_read_is_what_was_acknowledged(history: History) -> Iterator[str]:
    """Beyond the contract messages may be out of reach, but no reader gets another one in their place."""
    log = dict(history.log)
    for append in history.appends:
        if append.outcome is Outcome.ACKED and append.message_id is not None:
            found = log.get(append.message_id, append.payload)
            if found != append.payload:
                yield f"acknowledged message {append.message_id} is {found!r}, expected {append.payload!r}"


def findings(history: History) -> list[str]:
    """Each property that is violated, with the first few instances."""
    checks = [each for each in CHECKS if history.complete or each not in OF_WHOLE_LOGS]
    checks += [c18_what_was_read_is_what_was_acknowledged]
    return [found for verify in checks for found in first_findings(verify.__name__, verify(history))]


def first_findings(name: str, found: Iterable[str]) -> list[str]:
    return [f"{name}: {each}" for each in itertools.islice(found, FINDINGS_MAX)]


def check(history: History) -> None:
    """AssertionError that names each property violated, with the first few instances."""
    wrong = findings(history)
    assert not wrong, "\n".join(wrong)
