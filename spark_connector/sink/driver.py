"""What the driver does for a batch: takes the log over before its tasks, publishes or deletes what they wrote after.

Each step connects for itself: PySpark runs them in different processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from dlog.client import LogClient, connect
from dlog.config import LogConfig
from dlog.core.batching import BatchLimits
from dlog.core.publication import SinkBatch, StagedLedger
from dlog.errors import StagingBarredError
from dlog.sink.epoch import SinkEpoch
from dlog.sink.opening import is_published, open_epoch
from dlog.sink.publishing import discard, publish, tidy
from ledger.errors import MetadataOutcomeUnknownError, RequestTimeoutError
from spark_connector.cluster import given_password
from spark_connector.options.sink_options import SinkOptions
from spark_connector.retrying import retrying
from spark_connector.sink.replays import check_replay

T = TypeVar("T")


@asynccontextmanager
async def connected(options: SinkOptions, *, batching: BatchLimits | None = None) -> AsyncIterator[LogClient]:
    """A client of the log's cluster with the timeouts and the password of the options.

    Raises:
        ConfigurationError: the password file cannot be read, or holds no password.
    """
    config = LogConfig(
        takeover_timeout_s=options.timeout_s,
        hold_limit_s=options.timeout_s,
        owner_name=options.owner_name,
        password=given_password(options.password_file),
        batching=batching or BatchLimits(),
    )
    client = await connect(options.metadata, options.namespace, config=config)
    try:
        yield client
    finally:
        await client.close()


async def begin(options: SinkOptions) -> SinkEpoch | None:
    """Take the log over for a batch; None if it was published before, and then nothing is changed.

    Repeated while bookies or the metadata store are unavailable, once this has connected.

    Raises:
        RequestTimeoutError: not done within `writeTimeoutMs`.
        The errors of `open_epoch`.
    """
    try:
        async with asyncio.timeout(options.timeout_s), connected(options) as client:

            async def once() -> SinkEpoch | None:
                if options.batch is not None and await is_published(client, options.log, options.batch):
                    return None
                return await open_epoch(client, options.log)

            what = f"log {options.namespace}/{options.log}"
            return await _retrying(once, options, what, "taken over")
    except TimeoutError as error:
        raise RequestTimeoutError(
            f"log {options.namespace}/{options.log} could not be taken over within "
            f"writeTimeoutMs={options.write_timeout_ms}: check the bookies and the metadata store, or raise it"
        ) from error


async def check_log(options: SinkOptions) -> None:
    """Whether the log is there.

    Raises:
        RequestTimeoutError: not known within `writeTimeoutMs`.
        LogNotFoundError: no such log.
    """
    try:
        async with asyncio.timeout(options.timeout_s), connected(options) as client:
            await client.describe(options.log)
    except TimeoutError as error:
        raise RequestTimeoutError(
            f"log {options.namespace}/{options.log} could not be found within "
            f"writeTimeoutMs={options.write_timeout_ms}: check the metadata store, or raise it"
        ) from error


async def commit(
    options: SinkOptions, epoch: SinkEpoch, batch: SinkBatch | None, staged: Sequence[StagedLedger]
) -> None:
    """Publish what the tasks wrote, unless the log has the batch.

    Raises:
        BadOptionError: the log has a later batch of the same stream; nothing was published.
        MetadataOutcomeUnknownError: not known within `writeTimeoutMs` whether it was published.
        The errors of `publish`.
    """

    known = False

    async def once() -> StagingBarredError | None:
        nonlocal known
        async with connected(options) as client:
            try:
                is_in_log = await publish(client, epoch, batch, staged)
            except StagingBarredError as error:
                return error  # it would be raised again, however often that is repeated
            if not is_in_log and batch is not None and options.batch is None:
                check_replay(str(epoch.ref), (await client.logs.read(epoch.ref)).value.sinks, batch)
            known = True
            if staged:
                await tidy(client, epoch.ref)
            return None

    try:
        barred = await _retrying(once, options, f"the batch for log {epoch.ref}", "published")
    except RequestTimeoutError as error:
        if known:
            return  # the time ran out for what may be left to the next batch
        raise MetadataOutcomeUnknownError(
            f"it is not known after writeTimeoutMs={options.write_timeout_ms} whether log {epoch.ref} has the batch: "
            "run it again, which publishes nothing twice if it is numbered",
            log=str(epoch.ref),
        ) from error
    if barred is not None:
        raise barred


async def abort(options: SinkOptions, epoch: SinkEpoch, staged: Sequence[StagedLedger]) -> None:
    """Delete what the tasks wrote and the log does not list.

    Raises:
        RequestTimeoutError: not done within `writeTimeoutMs`; the sweep deletes it in the end.
        The errors of `discard`.
    """
    ledger_ids = [one.ledger_id for one in staged]

    async def once() -> None:
        async with connected(options) as client:
            await discard(client, epoch.ref, ledger_ids)

    if ledger_ids:
        await _retrying(once, options, f"what a failed write left of log {epoch.ref}", "deleted")


async def _retrying(work: Callable[[], Awaitable[T]], options: SinkOptions, what: str, done: str) -> T:
    return await retrying(work, options.write_timeout_ms, what, option="writeTimeoutMs", done=done)
