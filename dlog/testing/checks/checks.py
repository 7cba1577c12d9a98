"""The properties of every history, by the names they have in the test plan. Each returns what it found wrong.

Messages below the trim id are exempt from whatever they would have to be read for.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from dlog.model import EARLIEST_ID, MessageId
from dlog.testing.checks.history import Append, History, Outcome

Check = Callable[[History], Iterator[str]]

FINDINGS_MAX = 5
"""Of one property: the first few say it all."""


def c1_no_acknowledged_message_is_lost(history: History) -> Iterator[str]:
    """Each is at exactly its id, with the same bytes (docs/log-semantics.md#i4).

    At the level of ledgers: AllAckedEntriesAreReadable.
    """
    final = dict(history.final)
    for append in _acked(history):
        assert append.message_id is not None
        if append.message_id < history.trimmed_before:
            continue
        found = final.get(append.message_id)
        if found is None:
            yield f"acknowledged message {append.message_id} ({append.payload!r} of {append.writer}) is lost"
        elif found != append.payload:
            yield f"acknowledged message {append.message_id} is {found!r}, expected {append.payload!r}"


def c2_no_unsent_message(history: History) -> Iterator[str]:
    sent = {append.payload for append in history.appends}
    for message_id, payload in history.final:
        if payload not in sent:
            yield f"message {message_id} is {payload!r}, which no writer appended"


def c3_no_rejected_message_appears(history: History) -> Iterator[str]:
    """Source: docs/log-semantics.md#i5."""
    rejected = {append.payload for append in history.appends if append.outcome is Outcome.REJECTED}
    for message_id, payload in history.final:
        if payload in rejected:
            yield f"message {message_id} is {payload!r}, whose append was rejected"


def c3_an_indeterminate_message_is_at_its_id_or_nowhere(history: History) -> Iterator[str]:
    found = {payload: message_id for message_id, payload in history.final}
    for append in history.appends:
        if append.outcome is Outcome.INDETERMINATE and append.message_id is not None:
            place = found.get(append.payload, append.message_id)
            if place != append.message_id:
                yield f"indeterminate {append.payload!r} must be at {append.message_id} or nowhere, but is at {place}"


def c3_what_was_resolved_stays_so(history: History) -> Iterator[str]:
    """What could not be read to its end proves no absence (docs/log-semantics.md#i6)."""
    final = dict(history.final)
    for payload, message_id, answer in history.resolutions:
        if message_id < history.trimmed_before:
            continue
        if answer == "committed" and history.complete and message_id not in final:
            yield f"message {message_id} ({payload!r}) was resolved as committed, but is missing"
        if answer == "absent" and final.get(message_id) == payload:
            yield f"message {message_id} ({payload!r}) was resolved as absent, but is in the log"


def c4_no_duplicates(history: History) -> Iterator[str]:
    seen: dict[bytes, object] = {}
    for message_id, payload in history.final:
        if payload in seen:
            yield f"{payload!r} is in the log twice, at {seen[payload]} and at {message_id}"
        seen[payload] = message_id


def c5_all_readers_agree(history: History) -> Iterator[str]:
    """Source: docs/log-semantics.md#i7."""
    final = dict(history.final)
    agreed: dict[MessageId, tuple[bytes, str]] = {}
    for reader, observations in history.readers.items():
        for seen in observations:
            found = final.get(seen.message_id)
            if found is not None and found != seen.payload:
                yield f"{reader} read {seen.payload!r} at {seen.message_id}, the log has {found!r}"
            payload, other = agreed.setdefault(seen.message_id, (seen.payload, reader))
            if payload != seen.payload:
                yield f"{reader} read {seen.payload!r} at {seen.message_id}, {other} read {payload!r}"


def c6_real_time_order(history: History) -> Iterator[str]:
    """Acknowledged before another was invoked: smaller id. A deposed writer's later appends are never acked."""
    highest: MessageId | None = None
    returned = sorted(_acked(history), key=lambda append: append.returned)
    index = 0
    for append in sorted(_acked(history), key=lambda append: append.invoked):
        while index < len(returned) and returned[index].returned < append.invoked:
            candidate = returned[index].message_id
            assert candidate is not None
            highest = candidate if highest is None else max(highest, candidate)
            index += 1
        assert append.message_id is not None
        if highest is not None and append.message_id <= highest:
            yield f"{append.message_id} was appended after {highest} had been acknowledged"
    yield from _acked_after_deposition(history)


def _acked_after_deposition(history: History) -> Iterator[str]:
    order = {takeover.writer: index for index, takeover in enumerate(history.takeovers)}
    deposed_at = [float("inf")] * (len(order) + 1)
    for index in reversed(range(len(order))):
        deposed_at[index] = min(deposed_at[index + 1], history.takeovers[index].returned)
    for append in _acked(history):
        end = deposed_at[order.get(append.writer, len(order) - 1) + 1] if order else float("inf")
        if append.invoked > end:
            yield f"{append.message_id} of {append.writer} was appended after another writer had taken over"


def c7_per_handle_order(history: History) -> Iterator[str]:
    """Source: docs/log-semantics.md#i17."""
    for writer, appends in _by_writer(history).items():
        last = None
        for append in appends:
            if append.outcome is not Outcome.ACKED or append.message_id is None:
                continue
            if last is not None and append.message_id <= last:
                yield f"{writer} got id {append.message_id} after {last}"
            last = append.message_id


def c8_no_holes(history: History) -> Iterator[str]:
    """What survives of one handle, without the rejected, is a prefix of what it submitted."""
    present = {payload for _, payload in history.final}
    for writer, appends in _by_writer(history).items():
        missing, trimmed = None, history.trimmed_before > EARLIEST_ID
        for append in appends:
            if append.outcome in (Outcome.REJECTED, Outcome.CANCELLED):
                continue
            if append.payload not in present:
                missing = missing or append
            elif missing is not None and not trimmed:
                yield f"{writer}: {append.payload!r} is in the log, {missing.payload!r} before it is not"
                break
            else:
                # What is trimmed away is the beginning: behind a survivor nothing may be missing any more.
                trimmed, missing = False, None


def c9_nothing_is_readable_before_it_was_sent(history: History) -> Iterator[str]:
    invoked = {append.payload: append.invoked for append in history.appends}
    for reader, observations in history.readers.items():
        for seen in observations:
            if seen.at < invoked.get(seen.payload, float("inf")):
                yield f"{reader} read {seen.payload!r} at {seen.message_id} before it was appended"


def c9_what_was_acknowledged_is_seen_by_every_later_reader(history: History) -> Iterator[str]:
    """Strict visibility (docs/log-semantics.md#rule-13)."""
    acked = sorted(_acked(history), key=lambda append: append.returned) if history.strict else []
    for read in history.whole_reads:
        first = max(read.start, history.trimmed_before)
        for append in acked:
            if append.returned >= read.opened:
                break
            assert append.message_id is not None
            if append.message_id >= first and append.message_id not in read.message_ids:
                yield f"{read.reader} opened after {append.message_id} was acknowledged and did not see it"


def c10_once_read_always_readable(history: History) -> Iterator[str]:
    """Source: docs/log-semantics.md#i9."""
    final = dict(history.final)
    for reader, observations in history.readers.items():
        for seen in observations:
            if seen.message_id not in final and seen.message_id >= history.trimmed_before:
                yield f"{reader} read {seen.message_id}, which is now missing"


def c11_reader_ids_increase(history: History) -> Iterator[str]:
    """And nothing that is there was left out between two of them (docs/log-semantics.md#i8)."""
    ids = [message_id for message_id, _ in history.final]
    yield from _not_rising("the last reader", ids)
    for reader, observations in history.readers.items():
        found = [seen.message_id for seen in observations]
        yield from _not_rising(reader, found)
        kept = [each for each in found if each >= history.trimmed_before]
        if kept:
            skipped = bisect_right(ids, kept[-1]) - bisect_left(ids, kept[0]) - len(kept)
            if skipped > 0:
                yield f"{reader} skipped {skipped} messages between {kept[0]} and {kept[-1]}"


def _not_rising(reader: str, found: list[MessageId]) -> Iterator[str]:
    for before, after in itertools.pairwise(found):
        if after <= before:
            yield f"{reader} returned {after} after {before}"


CHECKS: tuple[Check, ...] = (
    c1_no_acknowledged_message_is_lost,
    c2_no_unsent_message,
    c3_no_rejected_message_appears,
    c3_an_indeterminate_message_is_at_its_id_or_nowhere,
    c3_what_was_resolved_stays_so,
    c4_no_duplicates,
    c5_all_readers_agree,
    c6_real_time_order,
    c7_per_handle_order,
    c8_no_holes,
    c9_nothing_is_readable_before_it_was_sent,
    c9_what_was_acknowledged_is_seen_by_every_later_reader,
    c10_once_read_always_readable,
    c11_reader_ids_increase,
)


OF_WHOLE_LOGS: tuple[Check, ...] = (
    c1_no_acknowledged_message_is_lost,
    c8_no_holes,
    c9_what_was_acknowledged_is_seen_by_every_later_reader,
    c10_once_read_always_readable,
    c11_reader_ids_increase,
)
"""Not checked if the log could not be read to its end, which was reported as an error."""


def c18_what_was_read_is_what_was_acknowledged(history: History) -> Iterator[str]:
    """Beyond the contract messages may be out of reach, but no reader gets another one in their place."""
    final = dict(history.final)
    for append in _acked(history):
        assert append.message_id is not None
        found = final.get(append.message_id, append.payload)
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


def _acked(history: History) -> list[Append]:
    return [append for append in history.appends if append.outcome is Outcome.ACKED]


def _by_writer(history: History) -> dict[str, list[Append]]:
    writers: dict[str, list[Append]] = defaultdict(list)
    for append in sorted(history.appends, key=lambda append: append.number):
        writers[append.writer].append(append)
    return writers
