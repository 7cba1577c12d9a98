"""The driver of a sink takes its log over, without listing a ledger.

Every ledger of the log is sealed then, earlier writers are deposed, and so is an earlier driver of the same sink: what
it has not published it cannot publish any more (docs/log-semantics.md#rule-37).
"""

from __future__ import annotations

import asyncio
import logging

from dlog.client import LogClient
from dlog.core.metadata_changes import last_append_us
from dlog.core.publication import SinkBatch, was_published
from dlog.format.entry import ELSEWHERE, SnapshotPlace
from dlog.format.producer_snapshot import encode_snapshot
from dlog.metadata.log_ref import LogRef
from dlog.model import LogState
from dlog.sink.epoch import SinkEpoch
from dlog.write.producer_recovery import find_producers
from dlog.write.takeover_runner import TakeoverResult, TakeoverRunner, new_owner
from ledger.errors import LogStoreError

_log = logging.getLogger(__name__)

_PRODUCERS_S_MAX = 5.0
"""As for a writer: bookies that have stopped must not keep the batch waiting for long."""


async def open_epoch(client: LogClient, log: str) -> SinkEpoch:
    """Take the log over for one batch. The owner's name is that of the client's config.

    Raises:
        LogNotFoundError: no such log.
        LogSealedError, TakeoverLostError, TakeoverContendedError, TakeoverTimeoutError, LedgerRecoveryError,
        DataLossError, UnauthorizedError: as of `LogClient.open_writer`.
    """
    ref = await client.logs.find(client.name(log))
    environment = client.ledgers.environment
    owner = new_owner(environment, client.config.owner_name)
    taken = await TakeoverRunner(
        ref, owner, logs=client.logs, ledgers=client.ledgers, config=client.config, end=LogState.ACTIVE
    ).run()
    record = taken.record
    return SinkEpoch(
        uri=client.uri,
        ref=ref,
        epoch=record.epoch,
        owner=owner,
        append_time_us=max(environment.wall_us(), last_append_us(record)),
        producers=await _producers(client, ref, taken),
        marks=record.sinks,
    )


async def is_published(client: LogClient, log: str, batch: SinkBatch) -> bool:
    """Whether the log has the batch, by a linearizable read. Takes nothing over.

    Raises:
        LogNotFoundError: no such log.
    """
    return was_published((await client.describe(log)).record, batch)


async def _producers(client: LogClient, ref: LogRef, taken: TakeoverResult) -> SnapshotPlace | None:
    try:
        async with asyncio.timeout(_PRODUCERS_S_MAX):
            found = await find_producers(
                client.ledgers,
                client.logs.ledger_list(ref, taken.record),
                client.config.password,
                last_envelopes=taken.last_envelopes,
            )
    except (TimeoutError, LogStoreError) as error:
        _log.warning("log %s: what its producers have appended cannot be read now: %s", ref, error)
        return SnapshotPlace(ELSEWHERE)
    return SnapshotPlace(0, encode_snapshot(found)) if found else None
