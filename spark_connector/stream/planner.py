"""Plans the micro-batches of one stream. Reads metadata and, for limits, entries; changes nothing.

One connection serves the whole stream. All positions are those of confirmed messages, so whatever Spark repeats after a
failure it gets the same messages again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TypeVar

from dlog.errors import LogNotFoundError
from dlog.model import EARLIEST_ID, LogName, MessageId
from dlog.together import each
from ledger.errors import ConfigurationError
from spark_connector.cluster import Cluster, open_cluster
from spark_connector.errors import OffsetFormatError, PartitionDataLossError, StreamDataLossError
from spark_connector.extents.extent_reader import ExtentReader
from spark_connector.extents.partitions import Extent, between
from spark_connector.extents.readable import Readable
from spark_connector.extents.trimming import has_missed
from spark_connector.options.bounds import bound_of, check_logs
from spark_connector.options.log_choice import LogPattern, NamedLogs
from spark_connector.options.stream_options import StreamOptions
from spark_connector.read.bounds import start_of
from spark_connector.read.partitioning import partitioned
from spark_connector.read.planning import Plan
from spark_connector.stream.batch_limits import BatchLimits, Pending
from spark_connector.stream.followed_log import KEPT_S, FollowedLog, Found, Tail
from spark_connector.stream.matching_logs import MatchingLogs
from spark_connector.stream.offsets import LogPosition, StreamOffset, first_start

_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Of one micro-batch. Nothing given: everything that is there."""

    rows_max: int | None = None
    bytes_max: int | None = None
    rows_min: int | None = None


@dataclass(frozen=True, slots=True)
class _Pending:
    """What a stream has not read yet of a log."""

    position: LogPosition
    end: MessageId
    parts: list[Extent]


class StreamPlanner:
    """Not for use by several tasks at a time."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._stack = AsyncExitStack()
        self._cluster: Cluster | None = None
        self._followed: dict[str, FollowedLog] = {}
        self._matching: MatchingLogs | None = None
        self._limits: BatchLimits | None = None
        self._initial: StreamOffset | None = None
        self._reported: StreamOffset | None = None
        """The offset that Spark got last."""
        self._targets: dict[str, MessageId] | None = None
        """Of a query that ends with what is there when it begins."""
        self._waiting_since_s: float | None = None
        """When messages were seen that are too few for a micro-batch."""
        self._refusal: ConfigurationError | None = None
        """Why no stream can begin with these options now."""
        self._passed_over: dict[str, tuple[LogPosition, str]] = {}
        """What was lost last of each log, and logged: Spark asks again and again until the micro-batch is done."""

    async def close(self) -> None:
        await self._stack.aclose()

    # ---- offsets

    async def initial(self) -> StreamOffset:
        """Where the stream begins; the same whenever it is asked for.

        Spark also asks before it repeats the first micro-batch after a restart, and the end of that says where it
        began. `startingId` need not fit the logs any more then, so only `latest` raises that it does not.
        """
        if self._initial is None:
            try:
                self._initial = await self._beginnings()
            except ConfigurationError as error:
                self._initial, self._refusal = StreamOffset({}), error
            self._reported = self._initial
        return self._initial

    async def _beginnings(self) -> StreamOffset:
        tails = await self._tails()
        check_logs("startingId", self._options.read.starting, tails)
        positions = await each(tails.items(), lambda item: self._started(*item))
        return StreamOffset(dict(zip(tails, positions, strict=True)))

    async def _started(self, log: str, tail: Tail) -> LogPosition:
        if (time_us := self._options.read.starting_time_us) is not None:
            # In the log as it is now: it may have ledgers by now that the record of `tail` lacks.
            start = await self._log(log).at_time(time_us, tail.ref)
        else:
            starting = bound_of(self._options.read.starting, log)
            readable = Readable(tail.record)
            if isinstance(starting, MessageId) and starting < tail.record.trim_before:
                if not self._options.fail_on_data_loss:
                    starting = tail.record.trim_before
                else:
                    readable = (await self._log(log).look(starting)).readable
            start = start_of(log, readable, starting, tail.id)
        return LogPosition(origin=start, next=start, log_uuid=tail.ref.log_uuid)

    async def stop_at_tail(self) -> None:
        """From now on nothing beyond the present tails is read, and no log that comes later."""
        self._targets = {log: tail.id for log, tail in (await self._tails()).items()}

    async def latest(self, start: StreamOffset, limit: Limit) -> StreamOffset:
        """The end of the micro-batch from `start` on; `start` itself if there is none yet.

        Raises:
            ConfigurationError: the stream begins now, and `startingId` does not fit its logs.
            StreamDataLossError: messages from `start` on were trimmed, or a log does not exist or is another one now.
            PartitionDataLossError: messages that were not trimmed are missing.
        """
        if self._refusal is not None:
            raise self._refusal
        self._check_checkpoint(start)
        return await self._despite_trims(lambda: self._latest(start, limit))

    async def _latest(self, start: StreamOffset, limit: Limit) -> StreamOffset:
        found = await self._pending(start)
        moved = StreamOffset({log: pending.position for log, pending in found.items()})
        parts = {log: pending.parts for log, pending in found.items() if pending.parts}
        if not parts:
            self._waiting_since_s = None  # what was waited with was trimmed or deleted
        elif not await self._is_due(parts, limit):
            return start
        ends = await self._ends(found, parts, limit) if parts else {}
        end = StreamOffset(
            {
                log: replace(position, next=ends.get(log, position.next))
                for log, position in moved.logs.items()
            }
        )
        self._reported = end
        return end

    async def tail(self) -> StreamOffset:
        """Where the logs ended a second ago or later, whatever the limits."""
        known = {} if self._reported is None else self._reported.logs
        return StreamOffset(
            {
                log: LogPosition(
                    origin=known[log].origin if log in known else tail.record.trim_before,
                    next=tail.id,
                    log_uuid=tail.ref.log_uuid,
                )
                for log, tail in (await self._tails(FollowedLog.recent_tail)).items()
            }
        )

    # ---- partitions

    async def partitions(self, start: StreamOffset, end: StreamOffset) -> Plan:
        """The partitions of one micro-batch. The first one begins where its end says.

        Raises:
            StreamDataLossError: messages of it were trimmed, or a log does not exist or is another one now.
            PartitionDataLossError: messages that were not trimmed are missing.
        """
        self._refusal = None  # the stream has begun before
        self._check_checkpoint(end)
        return await self._despite_trims(lambda: self._partitions(start, end))

    async def _partitions(self, start: StreamOffset, end: StreamOffset) -> Plan:
        cluster = await self._connected()
        since = first_start(start, end)
        logs = [log for log in sorted(end.logs) if since.logs[log].next < end.logs[log].next]
        found = await each(logs, lambda log: self._parts(log, since.logs[log], end.logs[log]))
        extents = [extent for parts in found for extent in parts]
        reader = await self._reader()
        return Plan(cluster.store.uri, await partitioned(extents, self._options.read, reader, count=False))

    async def _parts(self, log: str, since: LogPosition, until: LogPosition) -> list[Extent]:
        try:
            found = await self._log(log).look(since.next, confirmed=until.next)
        except LogNotFoundError:
            if isinstance(self._options.read.logs, NamedLogs):
                raise
            self._forget(log)
            self._lost(log, since, "it was deleted")
            return []
        if found.ref.log_uuid != until.log_uuid:
            self._lost(log, since, "it was deleted and created again")
            return []
        if max(found.tail, found.record.trim_before, since.next) < until.next:
            raise StreamDataLossError(
                f"log {self._full(log)} ends at {found.tail}, but a micro-batch was planned up to {until.next}: "
                "restore the ledgers that are missing",
                log=str(self._full(log)),
            )
        position = self._moved(log, since, found)
        return between(found.extents, position.next, until.next)

    # ---- the logs

    async def _pending(self, start: StreamOffset) -> dict[str, _Pending]:
        """What is not read yet of each log. A log that was not there before begins at its earliest message."""
        # One that a listing lacks may exist all the same: its own record decides.
        names = sorted({*await self._names(), *start.logs})
        if self._targets is not None:
            names = [log for log in names if log in self._targets or log in start.logs]
        found = await each(names, lambda log: self._pending_of(log, start.logs.get(log)))
        return {log: pending for log, pending in zip(names, found, strict=True) if pending is not None}

    async def _pending_of(self, log: str, before: LogPosition | None) -> _Pending | None:
        try:
            found = await self._log(log).look(EARLIEST_ID if before is None else before.next)
        except LogNotFoundError:
            if isinstance(self._options.read.logs, NamedLogs):
                raise
            self._forget(log)
            if before is not None:
                self._lost(log, before, "it was deleted")
            return None
        position = _beginning(found) if before is None else self._moved(log, before, found)
        end = found.tail if self._targets is None else min(found.tail, self._targets.get(log, EARLIEST_ID))
        return _Pending(position, end, between(found.extents, position.next, end))

    async def _names(self) -> list[str]:
        """The logs that are named, or that match and exist. Comes before anything that runs for several logs."""
        cluster, options = await self._connected(), self._options.read
        if isinstance(options.logs, NamedLogs):
            return list(options.logs.names)
        if self._matching is None:
            self._matching = MatchingLogs(
                options.logs, options.namespace, cluster.logs, options.read_timeout_ms, KEPT_S
            )
        return await self._matching.names()

    def _forget(self, log: str) -> None:
        """A log that matches the pattern does not exist. A stream may meet any number of such logs."""
        self._followed.pop(log, None)
        if self._matching is not None:
            self._matching.forget(log)

    async def _tails(
        self, read: Callable[[FollowedLog], Awaitable[Tail]] = FollowedLog.tail
    ) -> dict[str, Tail]:
        """Of the logs that exist now."""
        names = await self._names()

        async def tail(log: str) -> Tail | None:
            try:
                return await read(self._log(log))
            except LogNotFoundError:
                if isinstance(self._options.read.logs, NamedLogs):
                    raise
                self._forget(log)
                return None

        found = zip(names, await each(names, tail), strict=True)
        return {log: tail for log, tail in found if tail is not None}

    def _log(self, name: str) -> FollowedLog:
        assert self._cluster is not None, "_connected() comes first"
        if name not in self._followed:
            timeout_ms = self._options.read.read_timeout_ms
            self._followed[name] = FollowedLog(self._full(name), self._cluster, timeout_ms)
        return self._followed[name]

    async def _connected(self) -> Cluster:
        if self._cluster is None:
            options = self._options.read
            self._cluster = await self._stack.enter_async_context(
                open_cluster(options.metadata, options.read_timeout_ms, options.password_file)
            )
        return self._cluster

    async def _reader(self) -> ExtentReader:
        cluster = await self._connected()
        return ExtentReader(cluster.ledgers, self._options.read.read_timeout_ms, cluster.password)

    def _full(self, log: str) -> LogName:
        return LogName(namespace=self._options.read.namespace, name=log)

    # ---- what is lost

    async def _despite_trims(self, plan: Callable[[], Awaitable[T]]) -> T:
        """The result of `plan`, made again if a trim may have taken what it has read from the bookies.

        Raises:
            PartitionDataLossError: it is missing, and no log was trimmed or created again since it failed before.
        """
        before: dict[str, tuple[str, MessageId] | None] | None = None
        while True:
            try:
                return await plan()
            except PartitionDataLossError:
                trims = {log: followed.trim for log, followed in self._followed.items()}
                if trims == before:
                    raise
                before = trims
                for followed in self._followed.values():
                    followed.forget()

    def _moved(self, log: str, position: LogPosition, found: Found) -> LogPosition:
        """The position, or where reading goes on after what is lost, if that is allowed."""
        record = found.record
        if found.ref.log_uuid != position.log_uuid:
            self._lost(log, position, "it was deleted and created again")
            return _beginning(found)
        if has_missed(found.readable, position.next):
            what = f"messages from {position.next} to before {record.trim_before} were trimmed"
            self._lost(log, position, what)
            return replace(position, next=record.trim_before)
        return position

    def _lost(self, log: str, position: LogPosition, what: str) -> None:
        sentence = f"log {self._full(log)} lacks messages that this stream has not read: {what}"
        if self._options.fail_on_data_loss:
            raise StreamDataLossError(
                f"{sentence}; start with a new checkpoint, or set failOnDataLoss=false to go on without them",
                log=str(self._full(log)),
            )
        if self._passed_over.get(log) != (position, what):
            self._passed_over[log] = (position, what)
            _log.warning("%s; the stream goes on without them, since failOnDataLoss=false", sentence)

    def _check_checkpoint(self, offset: StreamOffset) -> None:
        """A stream may get further logs, but its options must not leave one out that it has read so far."""
        choice = self._options.read.logs
        names = sorted(offset.logs)
        kept = choice.matching(names) if isinstance(choice, LogPattern) else choice.names
        if not set(names) <= set(kept):
            raise OffsetFormatError(
                f"the checkpoint is of {', '.join(names)}, not of {choice}: read these logs, too, or use a checkpoint "
                "of its own for each stream"
            )

    # ---- limits

    async def _is_due(self, parts: Pending, limit: Limit) -> bool:
        """Whether there are enough messages, or some have waited for long enough."""
        if self._targets is not None or limit.rows_min is None:
            return True
        now_s = asyncio.get_running_loop().time()
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s
        is_due = now_s - self._waiting_since_s >= self._options.delay_s_max
        if is_due or await (await self._limiter()).has_rows(parts, limit.rows_min):
            self._waiting_since_s = None
            return True
        return False

    async def _ends(
        self, found: Mapping[str, _Pending], parts: Pending, limit: Limit
    ) -> Mapping[str, MessageId]:
        if limit.rows_max is not None:
            return await (await self._limiter()).after_rows(parts, limit.rows_max)
        if limit.bytes_max is not None:
            return await (await self._limiter()).after_bytes(parts, limit.bytes_max)
        return {log: found[log].end for log in parts}

    async def _limiter(self) -> BatchLimits:
        if self._limits is None:
            self._limits = BatchLimits(await self._reader())
        return self._limits


def _beginning(found: Found) -> LogPosition:
    earliest = found.record.trim_before
    return LogPosition(origin=earliest, next=earliest, log_uuid=found.ref.log_uuid)
