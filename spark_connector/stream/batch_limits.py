"""Where a micro-batch ends in each log, if it is limited. Reads some entries; changes nothing.

A limit is divided in proportion to what is pending in each log. Where it cannot be divided, as one record or one large
entry, the log comes first that was served longest ago, so none starves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlog.model import MessageId
from dlog.together import each
from spark_connector.extents.extent_reader import ExtentReader
from spark_connector.extents.partitions import Extent
from spark_connector.stream.fair_shares import fair_shares

Pending = Mapping[str, Sequence[Extent]]
"""What can be read of each log, from its position on; of logs that have something."""


class BatchLimits:
    """Of one stream, which it serves from the first micro-batch on."""

    def __init__(self, reader: ExtentReader) -> None:
        self._reader = reader
        self._batches = 0
        self._served: dict[str, int] = {}
        """In which micro-batch a log was served last; a log that is not here is served first."""

    async def has_rows(self, pending: Pending, least: int) -> bool:
        """Whether there are at least this many messages."""
        left = least
        for parts in pending.values():
            _, rows = await self._take(parts, left)
            left -= rows
            if left <= 0:
                return True
        return False

    async def after_rows(self, pending: Pending, most: int) -> dict[str, MessageId]:
        """The ends of a micro-batch of at most `most` messages, of the logs of which something is read."""
        order = self._order(pending)
        found = dict(zip(order, await each([pending[log] for log in order], self._rows_about), strict=True))
        shares = fair_shares({log: rows for log, (rows, _) in found.items()}, most, order)
        # A log that may have more than was counted gets what no log has asked for.
        more = [log for log, (_, is_all) in found.items() if not is_all]
        spare = most - sum(shares.values())
        for log in more:
            shares[log] += spare // len(more)
        shares = {log: rows for log, rows in shares.items() if rows}

        async def end(log: str) -> MessageId:
            return (await self._take(pending[log], shares[log]))[0]

        return self._serve(dict(zip(shares, await each(shares, end), strict=True)))

    async def after_bytes(self, pending: Pending, most: int) -> dict[str, MessageId]:
        """The same with at most `most` bytes of whole entries; a single larger entry is read all the same."""
        order = self._order(pending)
        sizes = dict(zip(order, await each([pending[log] for log in order], self._bytes), strict=True))
        shares = fair_shares(sizes, most, order)
        left, ends = most, dict[str, MessageId]()
        for log in order:
            parts = pending[log]
            found = await self._within(parts, min(left, shares[log]))
            if found is None:
                # Its next entry is larger than its share. It may use what the logs after it would get: these come
                # before it the next time.
                size = await self._reader.first_entry_bytes(parts[0])
                if size > left and ends:
                    continue
                found = _after_first(parts[0]), size
            ends[log] = found[0]
            left -= found[1]
            if left <= 0:
                break
        return self._serve(ends)

    # ---- inside

    def _order(self, pending: Pending) -> list[str]:
        return sorted(pending, key=lambda log: (self._served.get(log, -1), log))

    def _serve(self, ends: dict[str, MessageId]) -> dict[str, MessageId]:
        self._batches += 1
        self._served.update(dict.fromkeys(ends, self._batches))
        return ends

    async def _bytes(self, parts: Sequence[Extent]) -> int:
        """Payload bytes. The first and the last part may be cut, so that their `byte_count` is an estimate: with one
        that is too low a log would get a few entries where the limit allows all of them. 0: it is not known.
        """
        total = 0
        for part in parts:
            is_estimate = part.messages is None and (part is parts[0] or part is parts[-1])
            total += (
                await self._reader.bytes_of(part) if is_estimate or not part.byte_count else part.byte_count
            )
        return max(1, total)

    async def _rows_about(self, parts: Sequence[Extent]) -> tuple[int, bool]:
        """Messages, and whether these are all. Of entries that do not say how many are before them and would all have
        to be read, as many as there are entries.
        """
        total, is_all = 0, True
        for part in parts:
            rows = part.messages
            if rows is None:
                rows = await self._reader.quick_count(part)
            total += part.entries if rows is None else rows
            is_all = is_all and rows is not None
        return max(1, total), is_all

    async def _take(self, parts: Sequence[Extent], rows: int) -> tuple[MessageId, int]:
        """The id after this many messages, or the end; and how many messages are before it."""
        left = rows
        for part in parts:
            if part.messages is not None and part.messages <= left:
                end, count = part.end, part.messages
            else:
                end, count = await self._reader.take(part, left)
            left -= count
            if not left:
                break
        return end, rows - left

    async def _within(self, parts: Sequence[Extent], byte_limit: int) -> tuple[MessageId, int] | None:
        """The end of the last entry within the limit, and the bytes up to it; None if the first entry has more."""
        left, end = byte_limit, None
        for part in parts:
            last, size = await self._reader.last_within(part, left)
            left -= size
            if last >= part.first_entry:
                end = part.end if last == part.last_entry else MessageId(part.ledger_id, last + 1, 0)
            if last < part.last_entry:
                break
        return None if end is None else (end, byte_limit - left)


def _after_first(part: Extent) -> MessageId:
    return part.end if part.entries == 1 else MessageId(part.ledger_id, part.first_entry + 1, 0)
