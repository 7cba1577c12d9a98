"""Tasks of a sink, as a test plays them: some messages, in staging ledgers."""

from __future__ import annotations

from collections.abc import Sequence

from dlog.client import LogClient
from dlog.core.metadata_keys import TAG_LOG_UUID
from dlog.core.publication import SinkBatch, StagedLedger
from dlog.format.message import NO_HEADERS, Columns, encode_messages
from dlog.sink.epoch import SinkEpoch
from dlog.sink.staging import StagingWriter


def encoded(*payloads: bytes) -> bytes:
    """The body of an entry with these messages."""
    return encode_messages(Columns([None] * len(payloads), payloads, [NO_HEADERS] * len(payloads)))


async def staged(
    client: LogClient, epoch: SinkEpoch, batch: SinkBatch | None, *entries: Sequence[bytes]
) -> tuple[StagedLedger, ...]:
    """What one task wrote: an entry for each of these."""
    writer = StagingWriter(epoch, batch, client.ledgers, client.config)
    for payloads in entries:
        await writer.append(encoded(*payloads), len(payloads))
    return await writer.finish()


async def ledgers_made_for(client: LogClient, log: str) -> set[int]:
    """Ledgers whose tags name this log, listed or not."""
    log_uuid = (await client.describe(log)).ref.log_uuid.encode()
    store = client.ledgers.store
    return {
        int(one)
        async for one in store.ledger_ids()
        if (await store.read_ledger(one)).value.custom_value(TAG_LOG_UUID) == log_uuid
    }
