"""A writer that says itself when its entries are to be durable."""

from __future__ import annotations

import asyncio

import pytest

from ledger.errors import (
    AddFailedError,
    BookieUnavailableError,
    EntryTooLargeError,
    LedgerClosedError,
    LedgerFencedError,
    MetadataUnavailableError,
)
from ledger.model import EntryId, QuorumSizes
from ledger.wire.status import Status
from ledger.writing.deferred_handle import DeferredWriteHandle
from tests.helpers.ledger.scripted_bookies import GUARD_S, Cluster, scripted_cluster, store_away, until


async def test_only_a_force_confirms() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes())
        assert await handle.force() == -1
        assert [await handle.add(b"%d" % number) for number in range(3)] == [0, 1, 2]
        assert handle.lac == -1
        assert await handle.force() == handle.lac == 2
        for bookie in cluster.bookies:
            assert bookie.log == ["add_entry"] * 3 + ["force_ledger"]


async def test_entries_stored_after_the_force_was_sent_wait_for_the_next() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes())
        await handle.add(b"before")
        for bookie in cluster.bookies:
            bookie.mute = lambda what: what == "force_ledger"
        forcing = asyncio.ensure_future(handle.force())
        await handle.add(b"after")
        for bookie in cluster.bookies:
            bookie.speak()
        assert await forcing == 0
        assert await handle.force() == 1


async def test_a_force_counts_only_if_every_member_has_answered_it() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes())
        await handle.add(b"entry")
        cluster.bookies[1].refuse_forces = Status.EIO
        with pytest.raises(BookieUnavailableError, match="answered EIO to a force"):
            await handle.force()
        assert handle.lac == -1
        cluster.bookies[1].refuse_forces = None
        assert await handle.force() == 0


async def test_a_member_that_is_silent_to_a_force_ends_the_writer() -> None:
    async with scripted_cluster(add_timeout_s=0.2) as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes())
        await handle.add(b"entry")
        cluster.bookies[1].mute = lambda what: what == "force_ledger"
        with pytest.raises(BookieUnavailableError):
            await handle.force()
        assert handle.lac == -1
        await until(lambda: isinstance(handle.failed, AddFailedError))


async def test_an_add_returns_once_an_ack_quorum_has_the_entry() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes(ensemble=3, write=3, ack=2))
        for bookie in cluster.bookies[:2]:
            bookie.be_silent()
        adding = asyncio.ensure_future(handle.add(b"entry"))
        await until(lambda: cluster.bookies[2].log == ["add_entry"])
        await asyncio.sleep(0.02)
        assert not adding.done()
        cluster.bookies[0].speak()
        assert await adding == 0


async def test_no_member_can_be_replaced() -> None:
    """There is a spare bookie, but it would lack what the lost one may not have kept."""
    async with scripted_cluster(4) as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes(ensemble=3, write=3, ack=2))
        await handle.add(b"entry")
        await handle.force()
        member = cluster.of(handle.metadata.last_fragment.ensemble[0])
        member.go_away()
        await until(lambda: handle.failed is not None)
        with pytest.raises(AddFailedError, match="up to entry 0, is safe") as failed:
            await handle.add(b"more")
        assert failed.value.lac == 0
        member.mute = lambda what: False
        recovered = await cluster.client.open_with_recovery(handle.ledger_id)
        assert recovered.last_readable == 0


async def test_a_silent_member_is_missed_in_time() -> None:
    async with scripted_cluster(add_timeout_s=0.2) as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes(ensemble=3, write=3, ack=3))
        cluster.bookies[0].be_silent()
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(AddFailedError):
                await handle.add(b"entry")


async def test_a_fenced_writer_has_lost_its_ledger() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes())
        await handle.add(b"entry")
        await cluster.client.open_with_recovery(handle.ledger_id)
        with pytest.raises(LedgerFencedError):
            await handle.add(b"more")
        with pytest.raises(LedgerFencedError):
            await handle.close()


async def test_another_refusal_ends_the_writer() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes())
        cluster.bookies[0].refuse_adds = Status.EREADONLY
        with pytest.raises(AddFailedError, match="EREADONLY"):
            for _ in range(2):  # the ack quorum may be there before the refusal
                await handle.add(b"entry")
            await until(lambda: handle.failed is not None)
            await handle.add(b"more")


async def test_a_close_seals_at_the_last_forced_entry() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes())
        for payload in (b"kept", b"kept, too"):
            await handle.add(payload)
        await handle.force()
        await handle.add(b"never forced")
        metadata = await handle.close()
        assert (metadata.closed, metadata.last_entry, metadata.length) == (True, 1, 13)
        reader = await cluster.client.open(handle.ledger_id)
        assert [bytes(entry.payload) for entry in await reader.read(0, 1)] == [b"kept", b"kept, too"]
        with pytest.raises(LedgerClosedError):
            await handle.add(b"late")


async def test_a_close_that_met_no_store_is_completed_by_the_next() -> None:
    """At the entry with which it began: what a force brings meanwhile is not confirmed."""
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes())
        await handle.add(b"kept")
        await handle.force()
        await handle.add(b"too late")
        for bookie in cluster.bookies:
            bookie.mute = lambda what: what == "force_ledger"
        forcing = asyncio.ensure_future(handle.force())
        await asyncio.sleep(0)
        cluster.store.before_write = store_away
        with pytest.raises(MetadataUnavailableError):
            await handle.close()
        for bookie in cluster.bookies:
            bookie.speak()
        with pytest.raises(LedgerClosedError):
            await forcing
        cluster.store.before_write = None
        for _ in range(2):
            metadata = await handle.close()
            assert (metadata.closed, metadata.last_entry, metadata.length) == (True, 0, 4)


async def stored_and_unanswered(cluster: Cluster, handle: DeferredWriteHandle) -> asyncio.Task[EntryId]:
    """An add that every bookie has stored, and to which none has responded."""
    for bookie in cluster.bookies:
        bookie.late = lambda what: what == "add_entry"
    adding = asyncio.create_task(handle.add(b"in flight"))
    entry_id = handle._stream.machine.sent_through + 1
    await until(lambda: all((handle.ledger_id, entry_id) in bookie.entries for bookie in cluster.bookies))
    for bookie in cluster.bookies:
        bookie.late = lambda what: False
    return adding


async def test_an_add_in_flight_at_a_close_that_a_recovery_forestalled_may_be_stored() -> None:
    """It must not end as if nothing had happened: the recovery has kept it."""
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes())
        await handle.add(b"kept")
        await handle.force()
        adding = await stored_and_unanswered(cluster, handle)
        recovered = await cluster.client.open_with_recovery(handle.ledger_id)
        assert recovered.last_readable == 1
        with pytest.raises(LedgerFencedError):
            await handle.close()
        with pytest.raises(LedgerFencedError):
            await adding


async def test_an_add_in_flight_waits_until_the_close_is_decided() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes())
        await handle.add(b"kept")
        await handle.force()
        adding = await stored_and_unanswered(cluster, handle)
        cluster.store.before_write = store_away
        with pytest.raises(MetadataUnavailableError):
            await handle.close()
        with pytest.raises(LedgerClosedError):
            await handle.add(b"late")
        await asyncio.sleep(0.01)
        assert not adding.done()
        cluster.store.before_write = None
        assert (await handle.close()).last_entry == 0
        with pytest.raises(LedgerClosedError):
            await adding


async def test_an_add_in_flight_at_a_close_that_was_not_decided_ends_with_the_client() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes())
        adding = await stored_and_unanswered(cluster, handle)
        cluster.store.before_write = store_away
        with pytest.raises(MetadataUnavailableError):
            await handle.close()
        await cluster.client.close()
        with pytest.raises(AddFailedError, match="client was closed"):
            await adding


async def test_an_entry_that_fits_no_frame_changes_nothing() -> None:
    async with scripted_cluster(entry_bytes_max=100) as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes())
        with pytest.raises(EntryTooLargeError):
            await handle.add(bytes(100))
        assert await handle.add(b"small") == 0


async def test_a_closed_client_ends_the_writer() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes())
        await handle.add(b"entry")
        await cluster.client.close()
        with pytest.raises(AddFailedError, match="client was closed"):
            await handle.add(b"more")
