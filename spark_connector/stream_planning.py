"""Plans the micro-batches of one stream. Reads metadata and, for limits, entries; changes nothing.

One connection serves the whole stream. All positions are those of confirmed messages, so whatever Spark repeats after a
failure it gets the same messages again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial

from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import EARLIEST_ID, LogMetadata, LogName, MessageId
from dlog.read.time_seek import first_at_or_after
from spark_connector.bounds import start_of
from spark_connector.cluster import Cluster, open_cluster
from spark_connector.errors import OffsetFormatError, StreamDataLossError
from spark_connector.extent_reader import ExtentReader
from spark_connector.extents import readable_extents
from spark_connector.offsets import LogPosition, StreamOffset, first_start
from spark_connector.partitions import Extent, plan, within_bounds
from spark_connector.planning import Plan
from spark_connector.retrying import retrying
from spark_connector.stream_options import StreamOptions
from spark_connector.trimming import has_missed

KEPT_S = 0.05
"""How long what was found is used again: without a trigger Spark asks some hundred times a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Of one micro-batch. Nothing given: everything that is there."""

    rows_max: int | None = None
    bytes_max: int | None = None
    rows_min: int | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """What could be read of the log at one time."""

    at_s: float
    start: MessageId
    ref: LogRef
    record: LogMetadata
    extents: list[Extent]

    @property
    def tail(self) -> MessageId:
        """After the last message; the earliest id if there is none from `start` on."""
        return self.extents[-1].end if self.extents else EARLIEST_ID


class StreamPlanner:
    """Not for use by several tasks at a time."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._name = LogName(namespace=options.read.namespace, name=options.read.log)
        self._stack = AsyncExitStack()
        self._cluster: Cluster | None = None
        self._initial: StreamOffset | None = None
        self._found: _Found | None = None
        self._target: MessageId | None = None
        """Of a query that ends with what is there when it begins."""
        self._waiting_since_s: float | None = None
        """When messages were seen that are too few for a micro-batch."""

    async def close(self) -> None:
        await self._stack.aclose()

    # ---- offsets

    async def initial(self) -> StreamOffset:
        """Where the stream begins; the same whenever it is asked for."""
        if self._initial is None:
            found = await self._look(EARLIEST_ID)
            record, starting = found.record, self._options.read.starting
            if (time_us := self._options.read.starting_time_us) is not None:
                starting = await self._at_time(time_us, found.ref)
            if not self._options.fail_on_data_loss and isinstance(starting, MessageId):
                starting = max(starting, record.trim_before)
            start = start_of(record, starting, found.tail)
            self._initial = self._offset(LogPosition(origin=start, next=start, log_uuid=found.ref.log_uuid))
        return self._initial

    async def _at_time(self, time_us: int, ref: LogRef) -> MessageId:
        cluster = await self._connected()
        logs = LogMetadataStore(cluster.store, cluster.environment)
        return await retrying(
            partial(first_at_or_after, time_us, logs, ref, cluster.ledgers),
            self._options.read.read_timeout_ms,
            f"log {self._name}",
        )

    async def stop_at_tail(self) -> None:
        """From now on nothing beyond the present tail is read."""
        found = await self._look(EARLIEST_ID)
        self._target = max(found.tail, found.record.trim_before)

    async def latest(self, start: StreamOffset, limit: Limit) -> StreamOffset:
        """The end of the micro-batch from `start` on; `start` itself if there is none yet.

        Raises:
            StreamDataLossError: messages from `start` on were trimmed, or the log is another one now.
        """
        before = self._position(start)
        found = await self._look(before.next)
        position = self._moved(before, found)
        end = found.tail if self._target is None else min(found.tail, self._target)
        parts = _between(found.extents, position.next, end)
        if not parts:
            return start if position == before else self._offset(position)
        if (
            self._target is None
            and limit.rows_min is not None
            and not await self._is_due(parts, limit.rows_min)
        ):
            return start
        self._waiting_since_s = None
        if limit.rows_max is not None:
            end = await self._after_rows(parts, limit.rows_max)
        elif limit.bytes_max is not None:
            end = await self._after_bytes(parts, limit.bytes_max)
        return self._offset(replace(position, next=end))

    async def tail(self) -> StreamOffset:
        """Where the log ends, whatever the limits."""
        origin = (await self.initial()).logs[self._name.name]
        found = await self._look(EARLIEST_ID)
        end = max(found.tail, found.record.trim_before)
        return self._offset(replace(origin, next=end, log_uuid=found.ref.log_uuid))

    # ---- partitions

    async def partitions(self, start: StreamOffset, end: StreamOffset) -> Plan:
        """The partitions of one micro-batch. The first one begins where its end says.

        Raises:
            StreamDataLossError: messages of it were trimmed, or the log is another one now.
        """
        cluster = await self._connected()
        until = self._position(end)
        since = self._position(first_start(start, end))
        found = await self._look(since.next, confirmed=until.next)
        if found.ref.log_uuid != until.log_uuid:
            self._lost("it was deleted and created again")
            return Plan(cluster.store.uri, [])
        if max(found.tail, found.record.trim_before, since.next) < until.next:
            raise StreamDataLossError(
                f"log {self._name} ends at {found.tail}, but a micro-batch was planned up to {until.next}: restore the "
                "ledgers that are missing",
                log=str(self._name),
            )
        since = self._moved(since, found)
        options = self._options.read
        partitions = plan(
            _between(found.extents, since.next, until.next),
            partition_bytes=options.partition_bytes,
            partitions_min=options.partitions_min,
        )
        return Plan(cluster.store.uri, partitions)

    # ---- the log

    async def _look(self, start: MessageId, *, confirmed: MessageId | None = None) -> _Found:
        """What can be read from the ledger of `start` on, a moment ago or, up to `confirmed` at least, now."""
        cluster = await self._connected()
        now_s = asyncio.get_running_loop().time()
        kept = self._found
        if confirmed is None and kept is not None and kept.start <= start and now_s - kept.at_s < KEPT_S:
            return kept
        logs = LogMetadataStore(cluster.store, cluster.environment)

        async def read() -> _Found:
            ref = await logs.find(self._name)
            record, extents = await readable_extents(
                logs, ref, cluster.ledgers, start, confirmed or EARLIEST_ID
            )
            return _Found(now_s, start, ref, record, extents)

        self._found = await retrying(read, self._options.read.read_timeout_ms, f"log {self._name}")
        return self._found

    async def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = await self._stack.enter_async_context(open_cluster(self._options.read.metadata))
        return self._cluster

    def _moved(self, position: LogPosition, found: _Found) -> LogPosition:
        """The position, or where reading goes on after what is lost, if that is allowed."""
        record = found.record
        if found.ref.log_uuid != position.log_uuid:
            self._lost("it was deleted and created again")
            return LogPosition(
                origin=record.trim_before, next=record.trim_before, log_uuid=found.ref.log_uuid
            )
        if has_missed(record, found.extents, position.next):
            self._lost(f"messages from {position.next} to before {record.trim_before} were trimmed")
            return replace(position, next=record.trim_before)
        return position

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise StreamDataLossError(
                f"log {self._name} lacks messages that this stream has not read: {what}; start with a new checkpoint, "
                "or set failOnDataLoss=false to go on without them",
                log=str(self._name),
            )

    def _position(self, offset: StreamOffset) -> LogPosition:
        position = offset.logs.get(self._name.name)
        if position is None:
            raise OffsetFormatError(
                f"the checkpoint is of {', '.join(sorted(offset.logs))}, not of {self._name.name}: use a checkpoint of "
                "its own for each log"
            )
        return position

    def _offset(self, position: LogPosition) -> StreamOffset:
        return StreamOffset({self._name.name: position})

    # ---- limits

    async def _is_due(self, parts: Sequence[Extent], rows_min: int) -> bool:
        """Whether there are enough messages, or some have waited for long enough."""
        now_s = asyncio.get_running_loop().time()
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s
        if now_s - self._waiting_since_s >= self._options.delay_s_max:
            return True
        _, rows = await self._take(parts, rows_min)
        return rows >= rows_min

    async def _after_rows(self, parts: Sequence[Extent], rows: int) -> MessageId:
        end, _ = await self._take(parts, rows)
        return end

    async def _take(self, parts: Sequence[Extent], rows: int) -> tuple[MessageId, int]:
        """The id after this many messages, or the end; and how many messages are before it."""
        reader, left = await self._reader(), rows
        for part in parts:
            if part.messages is not None and part.messages <= left:
                end, count = part.end, part.messages
            else:
                end, count = await reader.take(part, left)
            left -= count
            if not left:
                break
        return end, rows - left

    async def _after_bytes(self, parts: Sequence[Extent], byte_limit: int) -> MessageId:
        """The end of the last entry within the limit, and of the first entry in any case."""
        reader, left = await self._reader(), byte_limit
        end = None
        for part in parts:
            last, size = await reader.last_within(part, left)
            if last < part.first_entry and end is not None:
                return end
            last = max(last, part.first_entry)
            if last < part.last_entry:
                return MessageId(part.ledger_id, last + 1, 0)
            end, left = part.end, left - size
        assert end is not None, "there is a part"
        return end

    async def _reader(self) -> ExtentReader:
        return ExtentReader((await self._connected()).ledgers, self._options.read.read_timeout_ms)


def _between(extents: Sequence[Extent], start: MessageId, end: MessageId) -> list[Extent]:
    parts = (within_bounds(extent, start, end) for extent in extents)
    return [part for part in parts if part is not None]
