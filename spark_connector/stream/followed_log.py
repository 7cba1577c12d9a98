"""One log of a stream: what of it can be read now, or could be a moment ago. Changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from dlog.errors import LogNotFoundError
from dlog.metadata.log_ref import LogRef
from dlog.model import EARLIEST_ID, LogMetadata, LogName, MessageId
from dlog.read.time_seek import first_at_or_after
from spark_connector.cluster import Cluster
from spark_connector.extents.partitions import Extent
from spark_connector.extents.readable import Readable, readable_extents, tail_of
from spark_connector.retrying import retrying

T = TypeVar("T")

KEPT_S = 0.05
"""How long what was found is used again: without a trigger Spark asks some hundred times a second."""

REPORTED_S = 1.0
"""How long it is where the log ends, which Spark only reports: it asks for that after each micro-batch."""


@dataclass(frozen=True, slots=True)
class Found:
    """What could be read of a log at one time."""

    at_s: float
    start: MessageId
    ref: LogRef
    readable: Readable

    @property
    def record(self) -> LogMetadata:
        return self.readable.record

    @property
    def extents(self) -> Sequence[Extent]:
        return self.readable.extents

    @property
    def tail(self) -> MessageId:
        """After the last message; the earliest id if there is none from `start` on."""
        return self.extents[-1].end if self.extents else EARLIEST_ID


@dataclass(frozen=True, slots=True)
class Tail:
    """Where a log ended at one time."""

    ref: LogRef
    record: LogMetadata
    id: MessageId
    """After the last message, or after those that were trimmed."""


class FollowedLog:
    """Not for use by several tasks at a time. A read with its retries takes `timeout_ms` at most."""

    def __init__(self, name: LogName, cluster: Cluster, timeout_ms: int) -> None:
        self.name = name
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._found: Found | None = None
        self._ref: LogRef | None = None
        """What the name referred to when it was read last."""

    async def look(self, start: MessageId, *, confirmed: MessageId | None = None) -> Found:
        """What can be read from the ledger of `start` on, a moment ago or, up to `confirmed` at least, now.

        Raises:
            LogNotFoundError: the log does not exist.
            DataLossError: a ledger of it does not.
        """
        if confirmed is None and (kept := self._kept(KEPT_S)) is not None and kept.start <= start:
            return kept

        async def read(ref: LogRef) -> Found:
            cluster = self._cluster
            readable = await readable_extents(
                cluster.logs, ref, cluster.ledgers, start, confirmed or EARLIEST_ID, cluster.password
            )
            return Found(asyncio.get_running_loop().time(), start, ref, readable)

        self._found = await self._read(read)
        return self._found

    @property
    def trim(self) -> tuple[str, MessageId] | None:
        """The log's incarnation, and below which id it was trimmed, by the record that `look` has read last."""
        found = self._found
        return None if found is None else (found.ref.log_uuid, found.record.trim_before)

    def forget(self) -> None:
        """What was found may have been trimmed since: `look` reads the record anew."""
        self._found = None

    async def recent_tail(self) -> Tail:
        """Where the log ended a second ago or later. Raises as `look` does."""
        kept = self._kept(REPORTED_S)
        if kept is None or not kept.extents:
            return await self.tail()
        return Tail(kept.ref, kept.record, max(kept.tail, kept.record.trim_before))

    async def tail(self) -> Tail:
        """Where the log ends now. Raises as `look` does."""

        async def read(ref: LogRef) -> Tail:
            cluster = self._cluster
            return Tail(ref, *await tail_of(cluster.logs, ref, cluster.ledgers, cluster.password))

        return await self._read(read)

    async def at_time(self, time_us: int, ref: LogRef) -> MessageId:
        """The first message appended at or after the time."""
        cluster = self._cluster
        return await self._retrying(
            lambda: first_at_or_after(time_us, cluster.logs, ref, cluster.ledgers, cluster.password)
        )

    def _kept(self, most_s: float) -> Found | None:
        """What was found last, if that is not longer ago."""
        kept = self._found
        return kept if kept is not None and asyncio.get_running_loop().time() - kept.at_s < most_s else None

    async def _read(self, read: Callable[[LogRef], Awaitable[T]]) -> T:
        """The result of `read` for the log that has the name now.

        A name is given to another log only after the record of its log was ended, so the name is read only if the
        record says so (docs/log-semantics.md#rule-5).
        """

        async def attempt() -> T:
            if self._ref is not None:
                with suppress(LogNotFoundError):
                    return await read(self._ref)
            self._ref = await self._cluster.logs.find(self.name)
            return await read(self._ref)

        return await self._retrying(attempt)

    async def _retrying(self, read: Callable[[], Awaitable[T]]) -> T:
        return await retrying(read, self._timeout_ms, f"log {self.name}")
