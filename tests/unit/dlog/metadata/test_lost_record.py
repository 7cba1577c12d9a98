"""A log whose record is lost was not deleted: nothing of it may be erased, and nothing passes over it in silence."""

from __future__ import annotations

import pytest

from dlog.client import LogClient
from dlog.core import metadata_keys
from dlog.errors import LogNotFoundError, RecordFormatError
from dlog.testing import SimulatedCluster, simulate
from ledger.model import Versioned

LOG = "orders"


async def lost(client: LogClient) -> tuple[str, Versioned[bytes]]:
    """The log has two cursors; the key of its record, which is removed, and what it was."""
    async with client.open_writer(LOG, create=True) as writer:
        await writer.append(b"one")
    await client.set_cursor(LOG, "billing", "earliest")
    await client.set_cursor(LOG, "mail", "latest")
    ref = (await client.describe(LOG)).ref
    key = metadata_keys.record_key(ref.root, ref.name, ref.log_uuid)
    found = await client.ledgers.store.read_record(key)
    await client.ledgers.store.remove_record(key, found.version)
    return key, found


def test_its_cursors_stay_and_the_error_names_the_record() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            key, record = await lost(client)
            with pytest.raises(RecordFormatError, match=f"{key} is missing, and the log was not deleted"):
                await client.reader(LOG, cursor="mail").open()
            for attempt in (client.describe(LOG), client.collect(LOG), client.delete(LOG)):
                with pytest.raises(RecordFormatError, match="restore it from a backup"):
                    await attempt
            await client.ledgers.store.create_record(key, record.value)
            assert {cursor.name for cursor in await client.cursors(LOG)} == {"billing", "mail"}

    simulate(main)


def test_one_that_was_deleted_is_not_found() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            async with client.open_writer(LOG, create=True) as writer:
                await writer.append(b"one")
            ref = (await client.describe(LOG)).ref
            await client.delete(LOG)
            with pytest.raises(LogNotFoundError):
                await client.logs.read(ref)
            await client.create(LOG)
            with pytest.raises(LogNotFoundError):
                await client.logs.read(ref)
            with pytest.raises(LogNotFoundError):
                await client.logs.read(ref, fresh=False)

    simulate(main)


def test_a_damaged_name_does_not_keep_the_others_from_being_listed() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            await client.create(LOG)
            await client.create("payments")
            key = metadata_keys.name_key(client.logs.root, client.name(LOG))
            found = await client.ledgers.store.read_record(key)
            await client.ledgers.store.write_record(key, b"rubbish", found.version)
            assert await client.list() == [LOG, "payments"]
            with pytest.raises(RecordFormatError):
                await client.describe(LOG)

    simulate(main)
