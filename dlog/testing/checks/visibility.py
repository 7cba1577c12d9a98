"""C9, C10, C11 of whole reads, and trims: what a reader must see, what it may see no longer, and what it must not."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import inf

from dlog.model import EARLIEST_ID, MessageId
from dlog.testing.checks.history import Append, History, Outcome
from dlog.testing.checks.order import deposed
from dlog.testing.checks.outcomes import by_writer


def c9_nothing_is_readable_before_it_was_sent(history: History) -> Iterator[str]:
    invoked = {append.payload: append.invoked for append in history.appends}
    for reader, observations in history.observed():
        for seen in observations:
            if seen.at < invoked.get(seen.payload, inf):
                yield f"{reader} read {seen.payload!r} at {seen.message_id} before it was appended"


def c9_what_was_acknowledged_is_seen_by_every_later_reader(history: History) -> Iterator[str]:
    """Strict visibility (docs/log-semantics.md#rule-13)."""
    if history.strict:
        visible = [(append.returned, append.message_id) for append in _acked(history)]
        for reader, message_id in _overlooked(history, visible):
            yield f"{reader} opened after {message_id} was acknowledged and did not see it"


def c9_what_a_later_append_confirmed_is_seen_by_every_later_reader(history: History) -> Iterator[str]:
    """Fast visibility: the header of the handle's next entry confirms what was acknowledged before it was sent.

    So once that entry is acknowledged, an ack quorum knows (docs/log-semantics.md#rule-13). That readers follow even
    without a next append, in the time of `lac_interval_s`, depends on the writer and is checked after healing.
    """
    visible = []
    for appends in () if history.strict else by_writer(history).values():
        acked = [append for append in appends if append.outcome is Outcome.ACKED]
        acked.sort(key=lambda append: append.invoked)
        invoked = [append.invoked for append in acked]
        earliest = list(accumulate((append.returned for append in reversed(acked)), min))[::-1]
        for append in acked:
            following = bisect_right(invoked, append.returned)
            if following < len(acked):
                visible.append((earliest[following], append.message_id))
    for reader, message_id in _overlooked(history, visible):
        yield f"{reader} opened after a later append confirmed {message_id}, and did not see it"


def c9_what_a_takeover_kept_is_seen_by_every_later_reader(history: History) -> Iterator[str]:
    """With either visibility, acknowledged or not: a takeover seals all that earlier handles appended."""
    order = {takeover.writer: index for index, takeover in enumerate(history.takeovers)}
    sealed_at = deposed(history)
    writer_of = {append.payload: append.writer for append in history.appends}
    visible = []
    for message_id, payload in history.log:
        index = order.get(writer_of.get(payload, ""))
        if index is not None:
            visible.append((sealed_at[index], message_id))
    for reader, message_id in _overlooked(history, visible):
        yield f"{reader} opened after a takeover had sealed the ledger of {message_id}, and did not see it"


def _overlooked(
    history: History, visible: Iterable[tuple[float, MessageId | None]]
) -> Iterator[tuple[str, MessageId]]:
    """What a whole read must have returned by its own start, the time it opened, and the trims asked for."""
    visible = sorted(visible, key=lambda each: each[0])
    for read in history.whole_reads:
        first = max(read.start, history.trim_asked_until(read.ended))
        for since, message_id in visible:
            if since >= read.opened:
                break
            if message_id is not None and message_id >= first and message_id not in read.message_ids:
                yield read.reader, message_id


def c10_once_read_always_readable(history: History) -> Iterator[str]:
    """Source: docs/log-semantics.md#i9."""
    log = dict(history.log)
    for reader, observations in history.observed():
        for seen in observations:
            if seen.message_id not in log:
                yield f"{reader} read {seen.message_id}, which is now missing"
    for read in history.whole_reads:
        for message_id in sorted(read.message_ids - log.keys()):
            yield f"{read.reader} read {message_id}, which is now missing"


def c10_only_what_was_asked_for_is_trimmed(history: History) -> Iterator[str]:
    """And what was trimmed is not returned to readers opened later (docs/log-semantics.md#rule-33)."""
    asked = history.trim_asked_until(inf)
    if history.trimmed_before > asked:
        yield f"the log is trimmed to {history.trimmed_before}, no more than {asked} was asked for"
    granted = [trim for trim in history.trims if trim.returned < inf]
    for trim in granted:
        if history.complete and trim.before > history.trimmed_before:
            yield f"the trim to {trim.before} succeeded, but the log is trimmed to {history.trimmed_before}"
    if history.complete and history.final and history.final[0][0] < history.trimmed_before:
        yield f"{history.final[0][0]} was read at the end, below the trim position {history.trimmed_before}"
    for read in history.whole_reads:
        below = max((trim.before for trim in granted if trim.returned < read.opened), default=EARLIEST_ID)
        lowest = min(read.message_ids, default=below)
        if lowest < below:
            yield f"{read.reader} opened after the trim to {below} and read {lowest}"


def c11_whole_reads_leave_nothing_out(history: History) -> Iterator[str]:
    """From their start, or from what was not yet trimmed, to the last message that they returned."""
    ids = [message_id for message_id, _ in history.log]
    for read in history.whole_reads:
        lowest = min(read.message_ids, default=read.start)
        if lowest < read.start:
            yield f"{read.reader} read {lowest}, before its start {read.start}"
        if read.message_ids:
            first = bisect_left(ids, max(read.start, history.trim_asked_until(read.ended)))
            last = bisect_right(ids, max(read.message_ids))
            skipped = [each for each in ids[first:last] if each not in read.message_ids]
            if skipped:
                yield f"{read.reader}, which read from {read.start} to the tail, left out {skipped[0]}"


def _acked(history: History) -> list[Append]:
    return [append for append in history.appends if append.outcome is Outcome.ACKED]
