"""The properties of every history, by the names they have in the test plan. Each returns what it found wrong."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator

from dlog.model import MessageId
from dlog.testing.checking.history import Append, History, Outcome

Check = Callable[[History], Iterator[str]]


def c1_no_acknowledged_message_is_lost(history: History) -> Iterator[str]:
    """Each is at exactly its id, with the same bytes."""
    final = dict(history.final)
    for append in _acked(history):
        assert append.message_id is not None
        found = final.get(append.message_id)
        if found is None:
            yield f"acknowledged {append.message_id} ({append.payload!r} of {append.writer}) is lost"
        elif found != append.payload:
            yield f"acknowledged {append.message_id} holds {found!r}, not {append.payload!r}"


def c2_no_message_nobody_sent(history: History) -> Iterator[str]:
    sent = {append.payload for append in history.appends}
    for message_id, payload in history.final:
        if payload not in sent:
            yield f"{message_id} holds {payload!r}, which nobody sent"


def c3_no_rejected_message_appears(history: History) -> Iterator[str]:
    rejected = {append.payload for append in history.appends if append.outcome is Outcome.REJECTED}
    for message_id, payload in history.final:
        if payload in rejected:
            yield f"{message_id} holds {payload!r}, whose append was rejected"


def c4_no_duplicates(history: History) -> Iterator[str]:
    seen: dict[bytes, object] = {}
    for message_id, payload in history.final:
        if payload in seen:
            yield f"{payload!r} is at {seen[payload]} and at {message_id}"
        seen[payload] = message_id


def c5_all_readers_agree(history: History) -> Iterator[str]:
    final = dict(history.final)
    for reader, observations in history.readers.items():
        for seen in observations:
            found = final.get(seen.message_id, seen.payload)
            if found != seen.payload:
                yield f"{reader} read {seen.payload!r} at {seen.message_id}, others {found!r}"


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
            yield f"{append.message_id} was invoked after {highest} had been acknowledged"
    yield from _acked_after_deposition(history)


def _acked_after_deposition(history: History) -> Iterator[str]:
    order = {takeover.writer: index for index, takeover in enumerate(history.takeovers)}
    for append in _acked(history):
        for later in history.takeovers[order.get(append.writer, len(order)) + 1 :]:
            if append.invoked > later.returned:
                yield f"{append.message_id} of {append.writer} was invoked after {later.writer} had taken over"


def c7_per_handle_order(history: History) -> Iterator[str]:
    for writer, appends in _by_writer(history).items():
        last = None
        for append in appends:
            if append.outcome is not Outcome.ACKED or append.message_id is None:
                continue
            if last is not None and append.message_id <= last:
                yield f"{writer} got {append.message_id} after {last}"
            last = append.message_id


def c8_no_holes(history: History) -> Iterator[str]:
    """What survives of one handle, without the rejected, is a prefix of what it submitted."""
    present = {payload for _, payload in history.final}
    for writer, appends in _by_writer(history).items():
        missing = None
        for append in appends:
            if append.outcome is Outcome.REJECTED:
                continue
            if append.payload not in present:
                missing = missing or append
            elif missing is not None:
                yield f"{writer}: {append.payload!r} survives, {missing.payload!r} before it does not"
                break


def c9_nothing_is_readable_before_it_was_sent(history: History) -> Iterator[str]:
    invoked = {append.payload: append.invoked for append in history.appends}
    for reader, observations in history.readers.items():
        for seen in observations:
            if seen.at < invoked.get(seen.payload, float("inf")):
                yield f"{reader} read {seen.payload!r} at {seen.message_id} before it was appended"


def c10_once_read_always_readable(history: History) -> Iterator[str]:
    final = dict(history.final)
    for reader, observations in history.readers.items():
        for seen in observations:
            if seen.message_id not in final:
                yield f"{reader} read {seen.message_id}, which is gone"


def c11_reader_ids_increase(history: History) -> Iterator[str]:
    sequences = {reader: [o.message_id for o in seen] for reader, seen in history.readers.items()}
    sequences["final"] = [message_id for message_id, _ in history.final]
    ids = sequences["final"]
    for reader, found in sequences.items():
        for before, after in itertools.pairwise(found):
            if after <= before:
                yield f"{reader} returned {after} after {before}"
        if found and reader != "final":
            skipped = len([i for i in ids if found[0] <= i <= found[-1]]) - len(found)
            if skipped > 0:
                yield f"{reader} skipped {skipped} messages between {found[0]} and {found[-1]}"


CHECKS: tuple[Check, ...] = (
    c1_no_acknowledged_message_is_lost,
    c2_no_message_nobody_sent,
    c3_no_rejected_message_appears,
    c4_no_duplicates,
    c5_all_readers_agree,
    c6_real_time_order,
    c7_per_handle_order,
    c8_no_holes,
    c9_nothing_is_readable_before_it_was_sent,
    c10_once_read_always_readable,
    c11_reader_ids_increase,
)


def check(history: History) -> None:
    """AssertionError that names each property violated, with the first few findings."""
    wrong = [
        f"{verify.__name__}: {finding}"
        for verify in CHECKS
        for finding, _ in zip(verify(history), range(5), strict=False)
    ]
    assert not wrong, "\n".join(wrong)


def _acked(history: History) -> list[Append]:
    return [append for append in history.appends if append.outcome is Outcome.ACKED]


def _by_writer(history: History) -> dict[str, list[Append]]:
    writers: dict[str, list[Append]] = defaultdict(list)
    for append in sorted(history.appends, key=lambda append: append.number):
        writers[append.writer].append(append)
    return writers
