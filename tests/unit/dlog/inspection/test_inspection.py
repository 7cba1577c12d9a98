"""Questions about a log on a simulated cluster: the answers, and that nothing is changed by asking."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.errors import DataLossError, UnknownPositionError
from dlog.inspection.explain import explain
from dlog.inspection.history import history
from dlog.inspection.ledgers import listed_ledgers
from dlog.inspection.verify import sealed_entries, verify
from dlog.model import MessageId
from dlog.read.resolution import Resolution
from dlog.testing import ClusterConfig, SimulatedCluster, simulate
from ledger.inspection.copies import CopyState, LedgerCopies, Verdict
from ledger.model import LedgerId

FOUR = ClusterConfig(bookies=4)


async def found_in(client: LogClient, log: str) -> list[LedgerCopies]:
    return [found async for found in verify(client, log)]


async def state_of(cluster: SimulatedCluster, client: LogClient, log: str) -> dict[str, Any]:
    """All metadata with its versions, and on each bookie the entries and the fence of each ledger."""
    store = client.ledgers.store
    found: dict[str, Any] = {"log": await client.describe(log)}
    async for ledger_id in store.ledger_ids():
        found[f"ledger {ledger_id}"] = await store.read_ledger(ledger_id)
        for bookie in cluster.bookies:
            storage = None if bookie.server is None else bookie.server.storage
            state = None if storage is None else storage.ledger(ledger_id)
            found[f"{ledger_id} on {bookie.name}"] = state and (state.fenced, state.last_entry, state.deleted)
    return found


def test_a_log_that_is_written_is_examined_and_stays_as_it_is() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            first = await client.open_writer("orders", create=True)
            await first.append(b"one", headers=[(b"h", b"1")])
            await first.rotate()
            await first.append_many([b"two", b"three"])
            await first.close()
            writer = await client.open_writer("orders")
            last = await writer.append(b"four")
            await asyncio.sleep(5.0)  # the explicit LAC and the checkpoints are done
            before = await state_of(cluster, client, "orders")
            copies = await found_in(other, "orders")
            events = await history(other, "orders")
            explained = await explain(other, "orders", last)
            assert await state_of(cluster, client, "orders") == before
            assert await writer.append(b"five", expect_tail=last) > last
            assert [(one.entries, one.proved, one.damaged) for one in copies] == [(1, True, False)] * 3
            assert all(one.findings == [] and one.copies[CopyState.INTACT] == 3 for one in copies)
            assert sealed_entries(await listed_ledgers(client, "orders")) == 2
            assert [(event.listed.epoch, event.takeover) for event in events] == [
                (1, True),
                (1, False),
                (2, True),
            ]
            assert [event.owner_instance for event in events] == [
                first.owner.instance,
                first.owner.instance,
                writer.owner.instance,
            ]
            assert events[0].pause_us is events[2].pause_us is None
            assert events[1].pause_us is not None and events[1].pause_us >= 0
            assert explained.resolution is Resolution.COMMITTED
            assert explained.message is not None and explained.message.payload == b"four"
            assert explained.owner_instance == writer.owner.instance
            assert [copy.state for copy in (explained.copies or {}).values()] == [CopyState.INTACT] * 3

    simulate(main, seed=3)


def test_copies_that_a_bookie_lacks_are_named_entry_by_entry() -> None:
    """The bookie was dead while others acknowledged; then it was replaced, and it came back."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer("orders", create=True)
            await writer.append(b"everywhere")
            ledger_id = writer.record.ledger_ids[-1]
            metadata = (await client.ledgers.store.read_ledger(ledger_id)).value
            late = next(
                number
                for number, bookie in enumerate(cluster.bookies)
                if bookie.bookie_id == metadata.fragments[0].ensemble[1]
            )
            cluster.pause(cluster.bookies[late].name)
            ids = [await writer.append(b"%d" % number) for number in range(5)]
            cluster.kill_bookie(late)
            while len((await client.ledgers.store.read_ledger(ledger_id)).value.fragments) == 1:
                await writer.append(b"more")
                await asyncio.sleep(1.0)
            await writer.close()
            [found] = await found_in(client, "orders")
            assert {state for each in found.findings for state in each.copies.values()} == {
                CopyState.INTACT,
                CopyState.UNREACHABLE,
            }
            assert found.proved and not found.damaged
            cluster.start_bookie(late)
            await asyncio.sleep(5.0)
            [found] = await found_in(client, "orders")
            assert found.copies[CopyState.UNREACHABLE] == 0
            assert found.proved and not found.damaged
            [finding] = found.findings
            assert finding.verdict is Verdict.ON_ACK_QUORUM
            assert finding.first_entry <= ids[0].entry_id and finding.last_entry >= ids[-1].entry_id
            assert finding.copies[cluster.bookies[late].bookie_id] is CopyState.MISSING
            assert (
                found.entries
                == finding.last_entry + 1 + found.verdicts[Verdict.COMPLETE] - finding.first_entry
            )

    simulate(main, seed=5, config=FOUR)


def test_all_copies_are_lost_or_out_of_reach() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer("orders", create=True)
            await writer.append(b"one")
            await writer.close()
            for number in (0, 1, 2):
                cluster.kill_bookie(number)
            [found] = await found_in(client, "orders")
            assert found.copies == {CopyState.UNREACHABLE: 3}
            assert found.verdicts == {Verdict.UNPROVED: 1}
            assert not found.proved

    simulate(main)


def test_ledgers_that_are_trimmed_meanwhile_are_left_out_and_lost_ones_are_data_loss() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer("orders", create=True)
            ids = []
            for number in range(3):
                ids.append(await writer.append(b"%d" % number))
                await writer.rotate()
            seen = []
            async for found in verify(client, "orders"):
                seen.append(found.ledger_id)
                if len(seen) == 1:
                    await client.shrink("orders", ids[2])
                    await asyncio.sleep(60.0)
                    await client.collect("orders")
            assert ids[1].ledger_id not in seen and ids[2].ledger_id in seen
            await client.ledgers.delete(LedgerId(ids[2].ledger_id))
            with pytest.raises(DataLossError, match=f"lists ledger {ids[2].ledger_id}, which does not exist"):
                await found_in(client, "orders")

    simulate(main)


def test_every_outcome_is_explained() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer("orders", create=True)
            batch = await writer.append_many([b"a", b"b"])
            first = batch[0]
            sealed = await writer.rotate()
            kept = await writer.append(b"kept")
            open_ledger = kept.ledger_id
            assert sealed == open_ledger
            beyond = MessageId(open_ledger, kept.entry_id + 5, 0)
            assert (await explain(client, "orders", beyond)).resolution is Resolution.UNDECIDED
            absent = await explain(client, "orders", MessageId(first.ledger_id, 7, 0))
            assert absent.resolution is Resolution.ABSENT and absent.message is None
            assert {copy.state for copy in (absent.copies or {}).values()} == {CopyState.MISSING}
            second = await explain(client, "orders", batch[1])
            assert (second.batch, second.message and second.message.payload) == (2, b"b")
            outside = await explain(client, "orders", first._replace(batch_index=2))
            assert (outside.batch, outside.message) == (2, None)
            await client.shrink("orders", kept)
            trimmed = await explain(client, "orders", first)
            assert trimmed.resolution is Resolution.TRIMMED and trimmed.trim_before == kept
            with pytest.raises(UnknownPositionError):
                await explain(client, "orders", MessageId(open_ledger + 100, 0, 0))
            await writer.close()

    simulate(main)
