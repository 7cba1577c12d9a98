"""Beginnings of closed ledgers, read together: what comes, and what is left to a handle on the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ledger.config import WireProtocol
from ledger.errors import MetadataUnavailableError
from ledger.model import LedgerId, LedgerMetadata, QuorumSizes, Versioned
from ledger.reading.closed_ledgers import Beginning, ClosedLedgers
from tests.helpers.ledger.scripted_bookies import (
    GUARD_S,
    NEVER_S,
    Cluster,
    ScriptedBookie,
    scripted_cluster,
    until,
)

QUORUM = QuorumSizes()


async def closed_ledger(cluster: Cluster, *entries: bytes, quorum: QuorumSizes = QUORUM) -> LedgerId:
    handle = await cluster.client.create(quorum)
    for entry in entries:
        await handle.add(entry)
    await handle.close()
    return handle.ledger_id


async def taken(reads: ClosedLedgers, ledger_ids: Sequence[LedgerId]) -> list[Beginning | None]:
    async with asyncio.timeout(GUARD_S):
        return [await reads.take(each) for each in ledger_ids]


async def first_asked(cluster: Cluster, ledger_id: LedgerId) -> ScriptedBookie:
    """The bookie that is asked first if all are connected. Ensembles are random, so it may be any of them."""
    ensemble = (await cluster.store.read_ledger(ledger_id)).value.fragments[0].ensemble
    return cluster.of(ensemble[ledger_id % 3])


async def asked_of(
    cluster: Cluster, bookie: ScriptedBookie, ledger_ids: Sequence[LedgerId]
) -> list[LedgerId]:
    """The ledgers of which this bookie is the first to be asked."""
    return [each for each in ledger_ids if await first_asked(cluster, each) is bookie]


def payloads(beginning: Beginning | None) -> list[bytes] | None:
    return None if beginning is None else [bytes(entry.payload) for entry in beginning.entries]


async def test_each_ledger_is_asked_for_once_and_no_handle_is_needed() -> None:
    async with scripted_cluster() as cluster:
        ledger_ids = [await closed_ledger(cluster, b"%d" % number) for number in range(6)]
        for bookie in cluster.bookies:
            bookie.log.clear()
        reads = cluster.client.closed_ledgers(entries_max=10, bytes_max=1000)
        reads.ask(ledger_ids)
        found = await taken(reads, ledger_ids)
        assert [payloads(each) for each in found] == [[b"%d" % number] for number in range(6)]
        assert all(each is not None and each.is_whole for each in found)
        assert sorted(what for bookie in cluster.bookies for what in bookie.log) == ["read 0"] * 6
        for bookie in cluster.bookies:
            assert len(bookie.log) == len(await asked_of(cluster, bookie, ledger_ids)), (
                "spread over the replicas"
            )
        assert await reads.take(ledger_ids[0]) is None, "only once"


@pytest.mark.parametrize("sizes", [(3, 3, 2), (4, 3, 2)], ids=["whole", "striped"])
async def test_a_longer_ledger_is_read_on_by_a_handle(sizes: tuple[int, int, int]) -> None:
    async with scripted_cluster(4) as cluster:
        quorum = QuorumSizes(ensemble=sizes[0], write=sizes[1], ack=sizes[2])
        ledger_id = await closed_ledger(cluster, b"a", b"b", b"c", quorum=quorum)
        reads = cluster.client.closed_ledgers(entries_max=2, bytes_max=1000)
        reads.ask([ledger_id])
        [found] = await taken(reads, [ledger_id])
        assert found is not None and not found.is_whole
        assert payloads(found) == ([b"a", b"b"] if sizes[0] == 3 else [b"a"])
        rest = await cluster.client.open_at(found).read(len(found.entries), found.last_entry)
        assert [*(payloads(found) or []), *(bytes(entry.payload) for entry in rest)] == [b"a", b"b", b"c"]


async def test_what_is_open_empty_missing_or_locked_is_left_out() -> None:
    async with scripted_cluster() as cluster:
        writer = await cluster.client.create(QUORUM)
        await writer.add(b"open")
        locked = await cluster.client.create(QUORUM, password=b"secret")
        await locked.add(b"locked")
        await locked.close()
        good = await closed_ledger(cluster, b"good")
        wanted = [writer.ledger_id, await closed_ledger(cluster), LedgerId(999), locked.ledger_id, good]
        reads = cluster.client.closed_ledgers(entries_max=10, bytes_max=1000)
        reads.ask(wanted)
        assert [payloads(each) for each in await taken(reads, wanted)] == [None] * 4 + [[b"good"]]


async def test_damaged_copies_and_refusals_are_left_out() -> None:
    async with scripted_cluster() as cluster:
        damaged, refused, long = (
            await closed_ledger(cluster, b"damaged"),
            await closed_ledger(cluster, b"refused"),
            await closed_ledger(cluster, b"a", b"b"),
        )
        for bookie in cluster.bookies:
            bookie.entries[damaged, 0] = bookie.entries[damaged, 0][:-1] + b"?"
            bookie.entries[long, 1] = bookie.entries[long, 1][:-1] + b"?"
            del bookie.entries[refused, 0]
        reads = cluster.client.closed_ledgers(entries_max=10, bytes_max=1000)
        reads.ask([damaged, refused, long])
        found = await taken(reads, [damaged, refused, long])
        assert [payloads(each) for each in found] == [None, None, [b"a"]], "up to the damaged one"


async def test_a_silent_bookie_costs_one_wait_and_is_avoided() -> None:
    """Its ledgers are left to handles; of the next ones others are asked."""
    async with scripted_cluster(speculative_read_s=1.0, read_timeout_s=NEVER_S) as cluster:
        ledger_ids = [await closed_ledger(cluster, b"%d" % number) for number in range(18)]
        reads = cluster.client.closed_ledgers(entries_max=10, bytes_max=1000)
        reads.ask(ledger_ids[:3])  # connects
        assert None not in await taken(reads, ledger_ids[:3])
        firsts = [await first_asked(cluster, each) for each in ledger_ids[3:12]]
        silent = max(cluster.bookies, key=firsts.count)
        assert firsts.count(silent) >= 3
        silent.be_silent()
        started = asyncio.get_running_loop().time()
        reads.ask(ledger_ids[3:12])
        missing = await asked_of(cluster, silent, ledger_ids[3:12])
        found = await taken(reads, ledger_ids[3:12])
        assert [
            each for each, beginning in zip(ledger_ids[3:12], found, strict=True) if not beginning
        ] == missing
        assert asyncio.get_running_loop().time() - started < 2.9, "it was waited for once, not three times"
        reads.ask(ledger_ids[12:])
        assert None not in await taken(reads, ledger_ids[12:])


async def test_a_bookie_that_is_down_is_not_asked_if_another_is_connected() -> None:
    async with scripted_cluster() as cluster:
        ledger_ids = [await closed_ledger(cluster, b"%d" % number) for number in range(9)]
        cluster.bookies[1].go_away()
        await asyncio.sleep(0.05)
        reads = cluster.client.closed_ledgers(entries_max=10, bytes_max=1000)
        reads.ask(ledger_ids)
        assert None not in await taken(reads, ledger_ids)


async def test_without_the_store_all_are_left_to_handles(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unavailable(_: object) -> None:
        raise MetadataUnavailableError("try again")

    async with scripted_cluster() as cluster:
        ledger_id = await closed_ledger(cluster, b"a")
        monkeypatch.setattr(cluster.store, "glance_at_ledgers", unavailable)
        reads = cluster.client.closed_ledgers(entries_max=10, bytes_max=1000)
        reads.ask([ledger_id])
        assert await taken(reads, [ledger_id]) == [None]


@pytest.mark.parametrize("is_dropped", [False, True], ids=["given up", "dropped"])
async def test_what_is_no_longer_wanted_when_the_store_answers_is_not_read(
    monkeypatch: pytest.MonkeyPatch, is_dropped: bool
) -> None:
    """It would be kept until the reader closes. The ledgers that are still wanted are read."""
    async with scripted_cluster(speculative_read_s=0.5) as cluster:
        late, wanted = await closed_ledger(cluster, b"late"), await closed_ledger(cluster, b"wanted")
        for bookie in cluster.bookies:
            bookie.log.clear()
        answers, glance = asyncio.Event(), cluster.store.glance_at_ledgers

        async def held(ledger_ids: Sequence[LedgerId]) -> dict[LedgerId, Versioned[LedgerMetadata]]:
            await answers.wait()
            return await glance(ledger_ids)

        monkeypatch.setattr(cluster.store, "glance_at_ledgers", held)
        reads = cluster.client.closed_ledgers(entries_max=10, bytes_max=1000)
        reads.ask([late, wanted])
        if is_dropped:
            reads.drop(late)
        else:
            assert await taken(reads, [late]) == [None]
        answers.set()
        await until(lambda: any(bookie.log for bookie in cluster.bookies))
        assert [payloads(each) for each in await taken(reads, [wanted])] == [[b"wanted"]]
        assert await taken(reads, [late]) == [None]
        assert [what for bookie in cluster.bookies for what in bookie.log] == ["read 0"]
        reads.close()


async def test_protocol_version_3_reads_nothing_ahead() -> None:
    async with scripted_cluster(wire=WireProtocol.V3) as cluster:
        ledger_id = await closed_ledger(cluster, b"a", b"b")
        reads = cluster.client.closed_ledgers(entries_max=10, bytes_max=1000)
        reads.ask([ledger_id])
        assert await taken(reads, [ledger_id]) == [None]


async def test_closing_ends_what_is_under_way() -> None:
    async with scripted_cluster() as cluster:
        ledger_id = await closed_ledger(cluster, b"a")
        before = asyncio.all_tasks()
        reads = cluster.client.closed_ledgers(entries_max=10, bytes_max=1000)
        reads.ask([ledger_id])
        reads.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() <= before
        assert await taken(reads, [ledger_id]) == [None]
