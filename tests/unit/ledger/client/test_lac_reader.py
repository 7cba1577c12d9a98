"""What a reader learns of the LAC from bookies that answer like Apache's: E3 Qw3 Qa2, so two full answers cover.

Apache's READ_LAC answers EIO when it has an explicit LAC and no last entry, whether there is none or it cannot be
read; and ENOENTRY without an explicit LAC, in both cases again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ledger.errors import ReadError
from ledger.model import QuorumSizes
from ledger.wire.digest import make_digester
from ledger.writing.write_handle import WriteHandle
from tests.helpers.ledger.scripted_bookies import Cluster, ScriptedBookie, scripted_cluster


@asynccontextmanager
async def three_entries() -> AsyncIterator[tuple[Cluster, WriteHandle, list[ScriptedBookie]]]:
    """0..2 on all three, with header LACs -1, 0, 1 and no explicit LAC: entry 1 was acknowledged."""
    async with scripted_cluster(read_timeout_s=1.5) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        for payload in (b"zero", b"one", b"two"):
            await handle.add(payload)
        bookies = cluster.ensemble(handle)
        for bookie in bookies:
            assert {entry_id for _, entry_id in bookie.entries} == {0, 1, 2}
            bookie.packets.clear()
        yield cluster, handle, bookies


def deposit(bookie: ScriptedBookie, handle: WriteHandle, lac: int) -> None:
    value = handle.metadata
    digester = make_digester(value.digest_type, value.password)
    bookie.packets[handle.ledger_id] = digester.lac_packet(handle.ledger_id, lac)


async def test_an_explicit_lac_with_an_unreadable_last_entry_is_no_full_answer() -> None:
    """b1 has entry 2, whose header says that entry 1 is confirmed, and cannot read it; what it can show is the older
    explicit LAC 0. b2 missed everything, b0 says nothing. Together they do not prove that entry 1 is unconfirmed.
    """
    async with three_entries() as (cluster, handle, (silent, damaged, empty)):
        deposit(damaged, handle, 0)
        damaged.last_entry_damaged = True
        empty.entries.clear()
        silent.be_silent()
        with pytest.raises(ReadError, match="too few of its bookies answer"):
            await cluster.client.open(handle.ledger_id)


async def test_no_entry_with_an_unreadable_last_entry_is_no_full_answer() -> None:
    """The same without an explicit LAC: READ_LAC says ENOENTRY, and only a read of the last entry says EIO."""
    async with three_entries() as (cluster, handle, (silent, damaged, empty)):
        damaged.last_entry_damaged = True
        empty.entries.clear()
        silent.be_silent()
        with pytest.raises(ReadError, match="EIO"):
            await cluster.client.open(handle.ledger_id)


async def test_an_error_without_an_explicit_lac_does_not_say_that_there_is_none() -> None:
    """b1 could not read, and a moment later it can: its last entry says that entry 1 is confirmed. It has the explicit
    LAC 2, too, for which entry 2 was acknowledged, and b2, which covers the rest, never got that.
    """
    async with three_entries() as (cluster, handle, (silent, unreadable, behind)):
        for bookie in (silent, unreadable):
            deposit(bookie, handle, 2)
        unreadable.lac_unreadable = True
        silent.be_silent()
        with pytest.raises(ReadError, match="EIO"):
            await cluster.client.open(handle.ledger_id)
        assert behind.entries
        unreadable.lac_unreadable = False
        assert (await cluster.client.open(handle.ledger_id)).lac == 2


async def test_an_explicit_lac_of_a_bookie_that_proves_to_have_no_entry_is_a_full_answer() -> None:
    """Members that came with an ensemble change may have been sent nothing but the LAC. They cover."""
    async with three_entries() as (cluster, handle, (silent, new, newer)):
        silent.be_silent()
        for bookie in (new, newer):
            bookie.entries.clear()
            deposit(bookie, handle, 2)
        reader = await cluster.client.open(handle.ledger_id)
        assert reader.lac == 2


async def test_an_explicit_lac_counts_for_the_maximum_in_any_answer() -> None:
    """The only bookie that has LAC 2 cannot read its last entry; the two others cover, and know of LAC 1."""
    async with three_entries() as (cluster, handle, (first, second, damaged)):
        deposit(damaged, handle, 2)
        damaged.last_entry_damaged = True
        for bookie in (first, second):
            bookie.delay_s = 0.05
        reader = await cluster.client.open(handle.ledger_id)
        assert reader.lac == 2


async def test_a_damaged_explicit_lac_leaves_the_last_entry_its_worth() -> None:
    """Half of the answer is damaged: the other half counts for the maximum, and the answer does not cover."""
    async with three_entries() as (cluster, handle, (first, damaged, empty)):
        damaged.packets[handle.ledger_id] = b"x" * 20
        for bookie in (first, empty):
            bookie.entries.clear()
            bookie.delay_s = 0.05
        reader = await cluster.client.open(handle.ledger_id)
        assert reader.lac == 1
        first.be_silent()
        with pytest.raises(ReadError, match="digest"):
            await cluster.client.open(handle.ledger_id)


async def test_what_one_bookie_proves_is_found_though_others_cover() -> None:
    """A reader may have been shown entry 2 by the bookie whose answer `open` did not wait for."""
    async with three_entries() as (cluster, handle, (late, _, third)):
        deposit(late, handle, 2)
        late.late = lambda what: what == "read_lac"
        reader = await cluster.client.open(handle.ledger_id)
        assert reader.lac == 1
        asked = asyncio.create_task(reader.is_proved_readable(2))
        await asyncio.sleep(0)
        assert not asked.done()
        late.speak()
        assert await asked and reader.last_readable == 2
        third.go_away()
        assert not await reader.is_proved_readable(3), "none proves it, and one cannot be asked"
        assert await reader.is_proved_readable(0)
