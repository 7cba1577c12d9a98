"""One task of a write: rows come from Spark on this thread, entries go to bookies on another one.

So bookies are served while this thread waits for rows, and rows are encoded while bookies store.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

import pyarrow as pa

from dlog.blocking.loop_thread import LoopThread
from dlog.config import LogConfig
from dlog.core.batching import BatchLimits
from dlog.core.publication import SinkBatch, StagedLedger
from dlog.errors import CallTimeoutError, StagingBarredError
from dlog.format.message import decode_messages
from dlog.sink.epoch import SinkEpoch
from dlog.sink.staging import StagingWriter, body_bytes_max
from dlog.write.writer import LogWriter
from ledger.errors import (
    AddFailedError,
    LedgerClosedError,
    LedgerFencedError,
    LogStoreError,
    NotEnoughBookiesError,
    OutcomeUnknownError,
    UnavailableError,
)
from ledger.model import ENTRY_BYTES_MAX
from spark_connector.cluster import open_cluster
from spark_connector.errors import NotSupportedError, TaskWriteError
from spark_connector.options.sink_options import SinkOptions
from spark_connector.retrying import retrying
from spark_connector.sink.driver import connected
from spark_connector.sink.row_entries import EncodedEntry, encode_rows

_CLEAN_UP_S = 10.0
"""For the ledgers of a task that has failed: what is left of them is swept."""

_STEP_BYTES = 8 * 1024 * 1024
"""Of one call on the loop, which may take `writeTimeoutMs`: bookies that store are not waited for in vain."""

P = ParamSpec("P")
T = TypeVar("T")


def stage_rows(
    rows: Iterable[pa.RecordBatch],
    options: SinkOptions,
    epoch: SinkEpoch,
    batch: SinkBatch | None,
    partition: int,
) -> tuple[StagedLedger, ...]:
    """Write the rows into ledgers of this task, which the driver may publish. A task without rows has none.

    On return all of them are durable.

    Raises:
        TaskWriteError: the bookies or the metadata store do not take them; nothing is left of the task.
        BadRowError, MessageTooLargeError: a row cannot be a message; nothing is left of the task.
    """
    work = _Staging(options, epoch, batch)
    with _Loop(work, options, partition) as loop:
        for entries in _encoded(rows, body_bytes_max(epoch, _CONFIG)):
            loop.run(work.append, entries)
        return loop.run(work.finish)


def append_rows(rows: Iterable[pa.RecordBatch], options: SinkOptions, partition: int) -> None:
    """Append the rows as an ordinary writer, in order. What a task that fails has appended stays.

    Raises:
        NotSupportedError: this is not the only task with rows.
        TaskWriteError: the bookies or the metadata store do not take them.
        WriterDeposedError: another writer has opened the log.
        BadRowError, MessageTooLargeError: a row cannot be a message.
    """
    work = _Appending(options)
    with _Loop(work, options, partition) as loop:
        for entries in _encoded(rows, _BATCHING.body_bytes_max):
            if partition:
                raise NotSupportedError(
                    f"exactlyOnce=false writes with one task, and this is task {partition}: add .coalesce(1), or leave "
                    "exactlyOnce at true"
                )
            loop.run(work.append, entries)
        loop.run(work.finish)


def _encoded(rows: Iterable[pa.RecordBatch], most: int) -> Iterator[list[EncodedEntry]]:
    """What is passed to the loop in one call: a record batch may have hundreds of megabytes."""
    for batch in rows:
        entries, size = list[EncodedEntry](), 0
        for entry in encode_rows(batch, most):
            entries.append(entry)
            size += len(entry.body)
            if size >= _STEP_BYTES:
                yield entries
                entries, size = [], 0
        if entries:
            yield entries


# ---- on the loop


class _Work(Protocol):
    async def discard(self) -> None:
        """After a failure: leave nothing that the driver does not know of."""
        ...

    async def close(self) -> None: ...


class _Loop:
    """An event loop in a thread of its own, for as long as a task writes."""

    def __init__(self, work: _Work, options: SinkOptions, partition: int) -> None:
        self._work = work
        self._options = options
        self._partition = partition
        self._thread = LoopThread("dlog-sink")

    def run(self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it on the loop, for no longer than `writeTimeoutMs`."""
        try:
            return self._thread.run_within(self._options.timeout_s, "", function, *args, **kwargs)
        except CallTimeoutError as error:
            raise self._failed(
                f"waited longer than writeTimeoutMs={self._options.write_timeout_ms}: check the bookies and the "
                "metadata store, or raise it"
            ) from error
        except _LEDGER_LOST as error:
            raise self._failed(str(error)) from error

    def _failed(self, why: str) -> TaskWriteError:
        return TaskWriteError(f"task {self._partition} could not write: {why}", partition=self._partition)

    def __enter__(self) -> _Loop:
        gc.freeze()  # as spark_connector/read/task.py
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is not None:
                with suppress(LogStoreError):
                    self._thread.run_within(_CLEAN_UP_S, "clean-up", self._work.discard)
            with suppress(LogStoreError):
                self._thread.run_within(_CLEAN_UP_S, "close", self._work.close)
        finally:
            self._thread.close()


_LEDGER_LOST = (
    AddFailedError,
    LedgerFencedError,
    LedgerClosedError,
    OutcomeUnknownError,
    StagingBarredError,
)
"""What a task's own ledger can suffer: for the query it only means that the task has written nothing."""


_CONFIG = LogConfig()


class _Staging:
    """Opens nothing before the first row: most tasks of a small batch have none."""

    def __init__(self, options: SinkOptions, epoch: SinkEpoch, batch: SinkBatch | None) -> None:
        self._options = options
        self._epoch = epoch
        self._batch = batch
        self._stack = AsyncExitStack()
        self._writer: StagingWriter | None = None

    async def append(self, entries: list[EncodedEntry]) -> None:
        if self._writer is None:
            cluster = await self._stack.enter_async_context(
                open_cluster(self._epoch.uri, password_file=self._options.password_file)
            )
            config = replace(_CONFIG, password=cluster.password)
            self._writer = StagingWriter(self._epoch, self._batch, cluster.ledgers, config)
        for entry in entries:
            try:
                await self._writer.append(entry.body, entry.count)
            except NotEnoughBookiesError:  # for a ledger that begins with this entry, which was not submitted
                append = partial(self._writer.append, entry.body, entry.count)
                await _waiting(append, self._options, NotEnoughBookiesError)

    async def finish(self) -> tuple[StagedLedger, ...]:
        return () if self._writer is None else await self._writer.finish()

    async def discard(self) -> None:
        if self._writer is not None:
            await self._writer.discard()

    async def close(self) -> None:
        await self._stack.aclose()


async def _waiting(
    work: Callable[[], Awaitable[T]], options: SinkOptions, after: type[UnavailableError]
) -> T:
    """What `work` returns once there are bookies for it: they may be starting again."""
    what = f"log {options.namespace}/{options.log}"
    return await retrying(
        work, options.write_timeout_ms, what, option="writeTimeoutMs", done="written", after=after
    )


_BATCHING = BatchLimits(entry_bytes_max=ENTRY_BYTES_MAX)


class _Appending:
    """Takes the log over at the first row."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._stack = AsyncExitStack()
        self._writer: LogWriter | None = None

    async def append(self, entries: list[EncodedEntry]) -> None:
        if self._writer is None:
            client = await self._stack.enter_async_context(connected(self._options, batching=_BATCHING))
            open_writer = partial(client.open_writer, self._options.log)
            self._writer = await _waiting(open_writer, self._options, UnavailableError)
        writer = self._writer
        await asyncio.gather(*(_append(writer, entry) for entry in entries))

    async def finish(self) -> None:
        if self._writer is not None:
            await self._writer.close()

    async def discard(self) -> None:
        if self._writer is not None:
            self._writer.abort()

    async def close(self) -> None:
        await self._stack.aclose()


async def _append(writer: LogWriter, entry: EncodedEntry) -> None:
    columns = decode_messages(entry.body, entry.count)
    headers = [list(zip(flat[0::2], flat[1::2], strict=True)) for flat in columns.headers]
    await writer.append_many(columns.payloads, keys=columns.keys, headers=headers)
