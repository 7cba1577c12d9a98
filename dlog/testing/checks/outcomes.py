"""C3 and C8: every append ends in one of four ways, and is in the log only as that way allows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from dlog.model import MessageId
from dlog.testing.checks.history import Append, History, Outcome, Resolved


def c3_no_rejected_message_appears(history: History) -> Iterator[str]:
    """Source: docs/log-semantics.md#i5."""
    rejected = {append.payload for append in history.appends if append.outcome is Outcome.REJECTED}
    for message_id, payload in history.log:
        if payload in rejected:
            yield f"message {message_id} is {payload!r}, whose append was rejected"


def c3_an_indeterminate_message_is_at_its_id_or_nowhere(history: History) -> Iterator[str]:
    """Source: docs/log-semantics.md#i6."""
    found = {payload: message_id for message_id, payload in history.log}
    for append in history.appends:
        if append.outcome is Outcome.INDETERMINATE and append.message_id is not None:
            place = found.get(append.payload, append.message_id)
            if place != append.message_id:
                yield f"indeterminate {append.payload!r} must be at {append.message_id} or nowhere, but is at {place}"


def c3_an_id_belongs_to_one_message(history: History) -> Iterator[str]:
    """An id that an append got, or would have, is never that of another message (docs/log-semantics.md#rule-7)."""
    owners = {append.message_id: append for append in history.appends if append.message_id is not None}
    for append in history.appends:
        owner = append if append.message_id is None else owners[append.message_id]
        if owner is not append:
            yield f"{append.message_id} is the id of {append.payload!r} and of {owner.payload!r}"
    for message_id, payload in history.log:
        owner_of_id = owners.get(message_id)
        if owner_of_id is not None and owner_of_id.payload != payload:
            yield f"message {message_id} is {payload!r}, but the id belongs to {owner_of_id.payload!r}"


def c3_what_was_resolved_stays_so(history: History) -> Iterator[str]:
    """Committed and absent are final, for every client and however often it asks (docs/log-semantics.md#i6).

    What could not be read to its end proves no absence.
    """
    log = dict(history.log)
    acked = {append.message_id for append in history.appends if append.outcome is Outcome.ACKED}
    seen: dict[MessageId, str] = {
        each.message_id: reader for reader, observations in history.observed() for each in observations
    }
    seen |= {message_id: read.reader for read in history.whole_reads for message_id in read.message_ids}
    answers: dict[MessageId, set[str]] = defaultdict(set)
    for each in history.resolutions:
        answers[each.message_id].add(each.answer)
        if each.answer == "committed" and history.complete and log.get(each.message_id) != each.payload:
            yield f"{_described(each)}, but is missing"
        elif each.answer == "absent" and each.message_id in log:
            yield f"{_described(each)}, but is in the log"
        elif each.answer == "absent" and each.message_id in seen:
            yield f"{_described(each)}, but {seen[each.message_id]} has read it"
        elif each.answer == "absent" and each.message_id in acked:
            yield f"{_described(each)}, but was acknowledged"
        elif each.answer == "trimmed" and each.message_id >= history.trim_asked_until(each.returned):
            yield f"{_described(each)}, but no trim up to it had been asked for"
    for message_id, given in answers.items():
        if {"committed", "absent"} <= given:
            yield f"message {message_id} was resolved as committed and as absent"


def _described(each: Resolved) -> str:
    return f"message {each.message_id} ({each.payload!r}) was resolved as {each.answer}"


def c8_no_holes(history: History) -> Iterator[str]:
    """What survives of one handle, without the rejected, is a prefix of what it submitted.

    A conditional append that has not ended may be rejected still: it reads the tail of the log first, if the handle has
    appended nothing, and later appends do not wait for that.
    """
    present = {payload for _, payload in history.log}
    for writer, appends in by_writer(history).items():
        missing = None
        for append in appends:
            if append.outcome in (Outcome.REJECTED, Outcome.CANCELLED):
                continue
            if append.payload not in present:
                if append.payload in history.expected and append.message_id is None:
                    continue
                missing = missing or append
            elif missing is not None:
                yield f"{writer}: {append.payload!r} is in the log, {missing.payload!r} before it is not"
                break


def c8_batches_are_all_or_nothing(history: History) -> Iterator[str]:
    """The messages of one `append_many` are one entry with one outcome (docs/log-semantics.md#rule-6)."""
    found = {payload: message_id for message_id, payload in history.log}
    batches: dict[tuple[str, int], list[Append]] = defaultdict(list)
    for append in sorted(history.appends, key=lambda append: append.number):
        if append.batch is not None:
            batches[append.writer, append.batch].append(append)
    for (writer, number), batch in batches.items():
        if len({append.outcome for append in batch}) > 1:
            yield f"batch {number} of {writer} has several outcomes: {[each.outcome.value for each in batch]}"
        places = [found.get(append.payload) for append in batch]
        ids = [place for place in places if place is not None]
        if 0 < len(ids) < len(places):
            yield f"batch {number} of {writer} is half in the log: {', '.join(map(str, places))}"
        elif any(after != _next_in_entry(before) for before, after in pairwise(ids)):
            yield f"batch {number} of {writer} is not one entry in order: {', '.join(map(str, ids))}"


def _next_in_entry(message_id: MessageId) -> MessageId:
    return message_id._replace(batch_index=message_id.batch_index + 1)


def by_writer(history: History) -> dict[str, list[Append]]:
    """The appends of each handle, in the order of its calls."""
    writers: dict[str, list[Append]] = defaultdict(list)
    for append in sorted(history.appends, key=lambda append: append.number):
        writers[append.writer].append(append)
    return writers
