"""C11 for the ends of each read: a reader leaves out nothing between the place that it was asked for and its first
message, and returns nothing before that place. If it was asked to end before a message, it returns everything up to
there and nothing from there on.

A reader that was asked to report what it leaves out does so, and only of what was to be trimmed.

What may have been trimmed when the first message was returned may be left out.
Source: docs/log-semantics.md#rule-29, #rule-31.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from dlog.model import EARLIEST_ID, MessageId
from dlog.testing.checks.history import History, Observation, Outcome, ReadFrom


def c11_readers_begin_where_they_were_asked(history: History) -> Iterator[str]:
    log = _Log(history)
    for reader, start in history.starts.items():
        returned = history.readers.get(reader, [])
        for found in log.violations(start, returned):
            place = f"{start.place} {start.time_us or start.count or start.message_id}"
            yield f"{reader}, from {place} and at {start.position} when it was open, {found}"


def c11_readers_end_where_they_were_asked(history: History) -> Iterator[str]:
    """Only those that were asked to end before an id, which may be within a batch."""
    log = _Log(history)
    for reader, start in history.starts.items():
        if start.until is not None:
            for found in log.violations_of_end(start, start.until, history.readers.get(reader, [])):
                yield f"{reader}, from {start.position} until {start.until}, {found}"


def c11_readers_report_what_they_leave_out(history: History) -> Iterator[str]:
    """From where they were when they were open up to the last message that they returned."""
    ids = [message_id for message_id, _ in history.log]
    for reader, gaps in history.gaps.items():
        for gap in gaps:
            if gap.resume_at > (asked := history.trim_asked_until(gap.at)):
                yield f"{reader} reported that messages before {gap.resume_at} are trimmed, asked for was {asked}"
        start = history.starts.get(reader)
        returned = [seen.message_id for seen in history.readers.get(reader, ())]
        if start is None or not returned:
            continue
        known = {*returned}
        # Whoever begins at the earliest message has left out nothing before its first one.
        first = returned[0] if start.position == EARLIEST_ID else start.position
        for message_id in ids[bisect_left(ids, first) : bisect_left(ids, returned[-1])]:
            if message_id not in known and not any(gap.first <= message_id < gap.resume_at for gap in gaps):
                yield f"{reader}, at {start.position} when it was open, left out {message_id} and did not report it"
                break


class _Log:
    """The messages of the log, and when each could be known."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._ever = [message_id for message_id, _ in history.log]
        self._strict = history.strict
        self._ids = [message_id for message_id, _ in history.final]
        acked = sorted(
            (append.returned, append.message_id)
            for append in history.appends
            if append.outcome is Outcome.ACKED and append.message_id is not None
        )
        self._acked_at, self._highest_acked = [at for at, _ in acked], list[MessageId]()
        for _, message_id in acked:
            self._highest_acked.append(max([message_id, *self._highest_acked[-1:]]))
        invoked = {append.payload: append.invoked for append in history.appends}
        # Appends are submitted one after the other, but a writer may hold one for long, so times are not in order.
        self._sent_after = list[tuple[float, MessageId]]()
        for message_id, payload in history.final:
            self._sent_after.append((invoked.get(payload, 0.0), message_id))
        self._sent_after.sort()

    def violations(self, start: ReadFrom, returned: list[Observation]) -> Iterator[str]:
        match start.place:
            case "last":
                yield from self._of_last(start, returned)
            case "latest":
                yield from self._of_tail(start.position, start)
                yield from self._of_first(start.position, returned)
            case "after":
                message_id = start.message_id
                first = message_id._replace(batch_index=message_id.batch_index + 1)
                yield from self._of_first(first, returned)
            case "id":
                yield from self._of_first(start.message_id, returned)
            case "time":
                yield from self._of_time(start, returned)
            case _:
                yield from self._of_first(EARLIEST_ID, returned)

    def violations_of_end(
        self, start: ReadFrom, until: MessageId, returned: list[Observation]
    ) -> Iterator[str]:
        last = returned[-1].message_id if returned else None
        if last is not None and last >= until:
            yield f"returned {last}"
        if not start.complete:
            return  # it did not come to its end
        after_last = start.position if last is None else last._replace(batch_index=last.batch_index + 1)
        lowest = max(after_last, self._history.trim_asked_until(start.ended))
        expected = bisect_left(self._ever, lowest)
        lacking = bisect_left(self._ever, until) - expected
        if lacking > 0:
            yield f"ended after {last} and left out {lacking} messages from {self._ever[expected]} on"

    def _of_first(self, lowest: MessageId, returned: list[Observation]) -> Iterator[str]:
        if not returned:
            return
        first = returned[0].message_id
        if first < lowest:
            yield f"returned {first} first, which is before it"
        lowest = max(lowest, self._history.trim_asked_until(returned[0].at))
        expected = bisect_left(self._ever, lowest)
        skipped = bisect_left(self._ever, first) - expected
        if skipped > 0:
            yield f"returned {first} first and skipped {skipped} messages from {self._ever[expected]} on"

    def _of_time(self, start: ReadFrom, returned: list[Observation]) -> Iterator[str]:
        """Times never fall along the log; that of its first message is known, since it was returned.

        A position with nothing acknowledged at or after it was the tail: what was in flight there may be older.
        """
        at_or_after = [at for at, time in self._history.times_us.items() if time >= start.time_us]
        if at_or_after:
            acked = self._acked_before(start.asked)
            is_tail = acked is None or acked < start.position
            found = min(at_or_after)
            yield from self._of_first(min(found, start.position) if is_tail else found, returned)

    def _of_tail(self, tail: MessageId, start: ReadFrom) -> Iterator[str]:
        acked = self._acked_before(start.asked)
        if acked is not None and acked >= tail:
            yield f"takes {tail} for the tail, but {acked} had been acknowledged before"
        for at, message_id in reversed(self._sent_after):
            if at <= start.opened:
                break
            if message_id < tail:
                yield f"takes {tail} for the tail, but {message_id} was appended after that"
                break

    def _of_last(self, start: ReadFrom, returned: list[Observation]) -> Iterator[str]:
        """The tail is above what was acknowledged before, and at most above what had been sent until it was open."""
        ids, acked = self._ids, self._acked_before(start.asked)
        if start.complete:
            found = [seen.message_id for seen in returned]
            if acked is not None and bisect_right(ids, acked) and (not found or found[-1] < acked):
                yield f"ended with {found[-1:]}, but {acked} had been acknowledged before"
            if len(found) > start.count:
                yield f"returned {len(found)} messages"
            if found and len(found) < start.count and ids and ids[0] < found[0]:
                yield f"returned {len(found)} messages from {found[0]} on, but the log begins with {ids[0]}"
            return
        at_least = 0 if acked is None else bisect_right(ids, acked)
        at_most = bisect_right(self._sent_after, (start.opened, EARLIEST_ID)) if ids else 0
        index = bisect_left(ids, start.position)
        if index < at_least - start.count:
            yield f"begins {at_least - index} messages before {acked}, which had been acknowledged before"
        if index > max(0, at_most - start.count):
            yield f"begins at message {index} of the {at_most} that had been sent"
        yield from self._of_first(start.position, returned)

    def _acked_before(self, moment: float) -> MessageId | None:
        """The highest id acknowledged before, which the tail must be above if visibility is strict."""
        index = bisect_left(self._acked_at, moment)
        return self._highest_acked[index - 1] if index and self._strict else None
