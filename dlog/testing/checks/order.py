"""C6, C7, C11: order along the log, of a handle's calls, of what happened before what, and of takeovers.

Of every message that is in the log, and not only of the acknowledged: an append that ended indeterminate, was
cancelled or has never ended is held to the same order as soon as it is there.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from math import inf

from dlog.model import EARLIEST_ID, NO_MESSAGE, MessageId
from dlog.testing.checks.history import Append, History, Outcome
from dlog.testing.checks.outcomes import by_writer


def places(history: History) -> dict[bytes, MessageId]:
    """Where each payload is in the log; of an acknowledged one, where it must be."""
    found = {payload: message_id for message_id, payload in history.log}
    for append in history.appends:
        if append.outcome is Outcome.ACKED and append.message_id is not None:
            found[append.payload] = append.message_id
    return found


def deposed(history: History) -> list[float]:
    """For each takeover, when the first of those that followed had returned."""
    found = [inf] * len(history.takeovers)
    for index in reversed(range(len(found) - 1)):
        found[index] = min(found[index + 1], history.takeovers[index + 1].returned)
    return found


def c6_real_time_order(history: History) -> Iterator[str]:
    """What was invoked after another message was known to be committed is after that message.

    Known by an acknowledgement, by a reader that returned it, or by `resolve`.
    """
    known = [
        (append.returned, append.message_id, "acknowledged")
        for append in history.appends
        if append.outcome is Outcome.ACKED and append.message_id is not None
    ]
    known += [(seen.at, seen.message_id, "read") for _, each in history.observed() for seen in each]
    known += [
        (each.returned, each.message_id, "resolved as committed")
        for each in history.resolutions
        if each.answer == "committed"
    ]
    known.sort(key=lambda each: each[0])
    place_of = places(history)
    highest, how, index = NO_MESSAGE, "", 0
    for append in sorted(history.appends, key=lambda append: append.invoked):
        while index < len(known) and known[index][0] < append.invoked:
            if known[index][1] > highest:
                _, highest, how = known[index]
            index += 1
        place = place_of.get(append.payload)
        if place is not None and place <= highest and append.outcome is not Outcome.REJECTED:
            yield f"{place} ({append.outcome.value}) was appended after {highest} had been {how}"


def c6_nothing_of_a_deposed_writer_is_committed(history: History) -> Iterator[str]:
    """What a handle is given after another one took over is rejected or lost (docs/log-semantics.md#rule-20)."""
    order = {takeover.writer: index for index, takeover in enumerate(history.takeovers)}
    deposed_at = deposed(history)
    place_of = places(history)
    for append in history.appends:
        index = order.get(append.writer)
        if index is not None and append.invoked > deposed_at[index]:
            place = place_of.get(append.payload)
            if place is not None and append.outcome is not Outcome.REJECTED:
                yield f"{place} of {append.writer} was appended after another writer had taken over"


def c6_writers_follow_one_another(history: History) -> Iterator[str]:
    """Along the log the epochs never fall: everything of one owner is before everything of the next one."""
    order = {takeover.writer: index for index, takeover in enumerate(history.takeovers)}
    writer_of = {append.payload: append.writer for append in history.appends}
    latest = -1
    for message_id, payload in history.log:
        index = order.get(writer_of.get(payload, ""), latest)
        if index < latest:
            yield (
                f"{message_id} of {history.takeovers[index].writer} is after a message of "
                f"{history.takeovers[latest].writer}, which took over later"
            )
        latest = max(latest, index)


def c6_each_takeover_has_a_higher_epoch(history: History) -> Iterator[str]:
    """Higher than that of every handle that was open when it was asked for; no two are equal."""
    known = [(each, each.epoch) for each in history.takeovers if each.epoch is not None]
    for (first, low), (second, high) in itertools.combinations(known, 2):
        if low == high:
            yield f"{first.writer} and {second.writer} both have epoch {low}"
        elif (low > high and first.returned < second.invoked) or (
            low < high and second.returned < first.invoked
        ):
            yield f"{first.writer} has epoch {low}, {second.writer} {high}, in the opposite order of time"


def c7_per_handle_order(history: History) -> Iterator[str]:
    """In the order of the calls (docs/log-semantics.md#rule-6, #i17)."""
    place_of = places(history)
    for writer, appends in by_writer(history).items():
        last: Append | None = None
        for append in appends:
            place = place_of.get(append.payload)
            if place is None or append.outcome is Outcome.REJECTED:
                continue
            if last is not None and place <= place_of[last.payload]:
                yield (
                    f"{writer} has {append.number} ({append.outcome.value}) at {place}, and {last.number} "
                    f"({last.outcome.value}) at {place_of[last.payload]}"
                )
            last = append


def c11_reader_ids_increase(history: History) -> Iterator[str]:
    """And nothing that is there was left out between two of them (docs/log-semantics.md#i8)."""
    log = history.log
    ids = [message_id for message_id, _ in log]
    yield from _not_rising("the log", ids)
    yield from _not_rising("the last reader", [message_id for message_id, _ in history.final])
    for reader, observations in history.observed():
        yield from _not_rising(reader, [seen.message_id for seen in observations])
        for before, after in itertools.pairwise(observations):
            first, last = bisect_right(ids, before.message_id), bisect_left(ids, after.message_id)
            if reader in history.skipping:
                first = max(first, bisect_left(ids, history.trim_asked_until(after.at)))
            if first < last:
                yield (
                    f"{reader} skipped {last - first} messages between {before.message_id} and {after.message_id}"
                )


def _not_rising(reader: str, found: list[MessageId]) -> Iterator[str]:
    for before, after in itertools.pairwise(found):
        if after <= before:
            yield f"{reader} returned {after} after {before}"


def c6_conditional_appends_follow_what_they_expect(history: History) -> Iterator[str]:
    """Source: docs/log-semantics.md#rule-12."""
    before: MessageId | None = None if history.trimmed_before > EARLIEST_ID else NO_MESSAGE
    for message_id, payload in history.log:
        expected = history.expected.get(payload)
        if expected is not None and before is not None and before != expected:
            yield f"{message_id} was to be appended after {expected}, but follows {before}"
        before = message_id
