"""Questions about a log on a simulated cluster: the answers, and that nothing is changed by asking."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.config import LogConfig
from dlog.core.metadata_keys import TAG_OWNER_NAME, TAG_OWNER_PROCESS, ledger_tags
from dlog.errors import DataLossError, UnknownPositionError
from dlog.inspection.activity import ActivityMonitor
from dlog.inspection.explain import explain
from dlog.inspection.history import HistoryEvent, history
from dlog.inspection.ledgers import listed_ledgers
from dlog.inspection.verify import UncheckedLedger, sealed_entries, verify
from dlog.metadata.log_ref import LogRef
from dlog.model import NO_MESSAGE, LogMetadata, MessageId
from dlog.read.resolution import Resolution
from dlog.sink.opening import open_epoch
from dlog.testing import ClusterConfig, SimulatedCluster, simulate
from ledger.errors import InvalidNameError
from ledger.inspection.copies import Copies, CopyState, LedgerCopies, Verdict
from ledger.inspection.copy_audit import SILENCE_S, CopyAudit
from ledger.model import LedgerId, LedgerMetadata, Versioned

NEW_TAGS = (TAG_OWNER_NAME, TAG_OWNER_PROCESS)
FOUR = ClusterConfig(bookies=4)


async def found_in(client: LogClient, log: str) -> list[LedgerCopies]:
    """Every ledger could be checked."""
    found = [each async for each in verify(client, log)]
    assert all(isinstance(each, LedgerCopies) for each in found)
    return found


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
            assert [(event.epoch, event.takeover) for event in events] == [
                (1, True),
                (1, False),
                (2, True),
            ]
            assert [event.owner_instance for event in events] == [
                first.owner.instance,
                first.owner.instance,
                writer.owner.instance,
            ]
            assert events[0].pause_us is None
            assert all(event.pause_us is not None and event.pause_us >= 0 for event in events[1:])
            assert explained.resolution is Resolution.COMMITTED
            assert explained.message is not None and explained.message.payload == b"four"
            assert explained.owner_instance == writer.owner.instance
            assert [copy.state for copy in (explained.copies or {}).values()] == [CopyState.INTACT] * 3

    simulate(main, seed=3)


def test_the_open_ledger_is_counted_and_nothing_is_changed() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            writer = await client.open_writer("orders", create=True)
            await writer.append_many([b"one", b"two"])
            await writer.rotate()
            await writer.append_many([b"three", b"four", b"five"])
            await asyncio.sleep(5.0)
            before = await state_of(cluster, client, "orders")
            found = await other.overview("orders")
            assert (found.totals.messages, found.messages) == (2, 5)
            assert found.bytes is not None and found.bytes > found.totals.bytes > 0
            async with other.metadata_cache() as cache:
                await cache.follow_logs([other.name("orders")])
                [activity] = await ActivityMonitor(other, cache).measure()
            assert activity.open == found.open and activity.totals == found.totals
            assert await state_of(cluster, client, "orders") == before
            for number in (0, 1):
                cluster.kill_bookie(number)
            unknown = await other.overview("orders")
            assert (unknown.tail, unknown.messages, unknown.bytes) == (None, None, None)
            assert unknown.totals == found.totals and unknown.first == found.first
            assert [event.pause_us for event in await other.history("orders")] == [None, None]
            writer.abort()

    simulate(main, seed=4)


def test_a_ledger_that_is_closed_is_shown_as_sealed_before_the_record_has_it() -> None:
    """After the writer's death a recovery closes its ledger; the log's record changes only with the next takeover."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            writer = await client.open_writer("orders", create=True)
            await writer.append(b"one")
            await writer.rotate()
            last = await writer.append_many([b"two", b"three"])
            writer.abort()
            handle = await other.ledgers.open_with_recovery(
                LedgerId(last[0].ledger_id), other.config.password
            )
            await handle.close()
            assert (await other.describe("orders")).record.ledgers[-1].seal is None
            before = await state_of(cluster, client, "orders")
            listed = (await other.list_ledgers("orders"))[-1]
            assert listed.seal is not None
            assert (listed.seal.last_entry, listed.seal.message_count) == (0, 2)
            assert listed.seal.byte_count > 0 and listed.seal.first_append_us > 0
            found = await other.overview("orders")
            assert (found.totals.messages, found.messages, found.tail) == (
                3,
                3,
                MessageId(last[0].ledger_id, 1),
            )
            pause_us = (await other.history("orders"))[-1].pause_us
            assert pause_us is not None and pause_us >= 0
            assert await state_of(cluster, client, "orders") == before
            for number in range(3):
                cluster.kill_bookie(number)
            without = (await other.list_ledgers("orders"))[-1].seal
            assert without is not None
            assert (without.last_entry, without.message_count, without.byte_count) == (
                0,
                -1,
                listed.seal.byte_count,
            )

    simulate(main, seed=6)


def test_takeovers_whose_ledgers_stayed_empty_are_a_gap_of_the_history() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            for payload in (b"", b"one", b"", b"", b"two"):
                writer = await client.open_writer("orders", create=True)
                if payload:
                    await writer.append(payload)
                await writer.close()
            events = await client.history("orders")
            assert [(event.epoch, list(event.empty_epochs)) for event in events] == [
                (2, [1]),
                (5, [3, 4]),
            ]
            assert events[1].owner == (await client.describe("orders")).record.owner
            assert events[1].listed is not None
            await client.shrink("orders", MessageId(events[1].listed.ledger_id, 0, 0))
            [event] = await client.history("orders")
            assert list(event.empty_epochs) == [], "what was trimmed was not empty"

    simulate(main)


def test_takeovers_whose_ledgers_are_trimmed_during_the_call_are_no_empty_ones() -> None:
    """The first trim of the log comes after the first read of the record, before any later one."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            for number in range(4):
                async with await client.open_writer("orders", create=True) as writer:
                    last = await writer.append(b"%d" % number)
            read, reads = other.logs.read, 0

            async def read_before_the_trim(ref: LogRef) -> Versioned[LogMetadata]:
                nonlocal reads
                reads += 1
                found = await read(ref)
                if reads == 1:
                    await client.shrink("orders", last)
                return found

            other.logs.read = read_before_the_trim  # type: ignore[method-assign]
            events = await history(other, "orders")
            assert reads > 0 and all(not event.empty_epochs for event in events)
            [event] = await history(client, "orders")
            assert event.listed is not None and event.listed.ledger_id == last.ledger_id

    simulate(main)


def names(events: Sequence[HistoryEvent]) -> list[str | None]:
    return [None if event.owner is None else event.owner.name for event in events]


def test_each_epoch_has_its_owner_and_a_seal_is_the_last_event() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with AsyncExitStack() as stack:
            alpha, beta, gamma = [
                await stack.enter_async_context(await cluster.client(config=LogConfig(owner_name=name)))
                for name in ("alpha", "beta", "gamma")
            ]
            async with await alpha.open_writer("orders", create=True) as first:
                await first.append(b"one")
            writer = await beta.open_writer("orders")
            await asyncio.sleep(2.0)
            [_, event] = await alpha.history("orders")
            assert event.pause_us is None, "nothing was appended yet"
            await writer.append(b"two")
            await asyncio.sleep(5.0)
            before = await state_of(cluster, alpha, "orders")
            events = await alpha.history("orders")
            assert await state_of(cluster, alpha, "orders") == before
            assert names(events) == ["alpha", "beta"]
            owner, record_owner = events[0].owner, first.owner
            assert owner is not None
            assert owner == replace(record_owner, started_us=0), "its start is in no ledger"
            assert events[1].pause_us is not None and events[1].pause_us >= 2_000_000
            await writer.close()

            await gamma.seal("orders")
            before = await state_of(cluster, alpha, "orders")
            events = await alpha.history("orders")
            assert await state_of(cluster, alpha, "orders") == before
            assert names(events) == ["alpha", "beta", "gamma"]
            assert [(each.epoch, each.takeover, each.seal) for each in events] == [
                (1, True, False),
                (2, True, False),
                (3, True, True),
            ]
            assert events[2].listed is events[2].pause_us is None
            assert events[2].owner == (await alpha.describe("orders")).record.owner

    simulate(main)


def test_a_takeover_of_a_sink_without_a_batch_is_an_event_and_empty_ledgers_before_it_are_a_gap() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            for payload in (b"one", b"", b""):
                async with await client.open_writer("orders", create=True) as writer:
                    if payload:
                        await writer.append(payload)
            epoch = await open_epoch(client, "orders")
            events = await client.history("orders")
            assert [(each.epoch, each.takeover, each.seal, list(each.empty_epochs)) for each in events] == [
                (1, True, False, []),
                (4, True, False, [2, 3]),
            ]
            assert events[1].listed is None and events[1].owner == epoch.owner

    simulate(main)


def test_the_owner_of_a_ledger_from_before_owners_were_in_its_tags_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        def as_before(**facts: Any) -> tuple[tuple[str, bytes], ...]:
            return tuple(each for each in ledger_tags(**facts) if each[0] not in NEW_TAGS)

        async with await cluster.client() as client:
            with monkeypatch.context() as patch:
                patch.setattr("dlog.write.active_ledger.ledger_tags", as_before)
                async with await client.open_writer("orders", create=True) as first:
                    await first.append(b"one")
            async with await client.open_writer("orders") as writer:
                await writer.append(b"two")
                events = await client.history("orders")
            assert [event.owner for event in events] == [None, writer.owner]
            assert events[0].owner_instance == first.owner.instance

    simulate(main)


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


def test_a_hung_bookie_is_waited_for_once_and_asked_again_after_a_minute() -> None:
    """Not once for each ledger: its copies are unreachable, the others are checked."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer("orders", create=True)
            for number in range(10):
                await writer.append(b"%d" % number)
                await writer.rotate()
            await writer.close()
            cluster.pause(cluster.bookies[1].name)
            now = asyncio.get_running_loop().time
            begun = now()
            found = await found_in(client, "orders")
            took_s = now() - begun
            timeout_s = client.ledgers.config.read_timeout_s
            assert timeout_s <= took_s < 3 * timeout_s
            assert len(found) >= 10
            for each in found[:10]:
                assert each.copies == {CopyState.INTACT: 2, CopyState.UNREACHABLE: 1}
                assert "did not respond within" in str(each.findings[0].reasons)
            begun = now()
            await explain(client, "orders", MessageId(found[0].ledger_id, 0, 0))
            assert now() - begun < 3 * timeout_s

            seen = []
            async for each in verify(client, "orders"):
                seen.append(each.copies[CopyState.UNREACHABLE])
                if len(seen) == 3:
                    cluster.resume(cluster.bookies[1].name)
                    await asyncio.sleep(SILENCE_S)
            assert seen[:10] == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]

    simulate(main, seed=7)


async def in_two_ledgers(client: LogClient) -> tuple[MessageId, MessageId]:
    """One message each."""
    async with await client.open_writer("orders", create=True) as writer:
        first = await writer.append(b"one")
    async with await client.open_writer("orders") as writer:
        return first, await writer.append(b"two")


@pytest.mark.parametrize("is_trimmed", [True, False], ids=["trimmed", "still listed"])
def test_a_ledger_that_is_deleted_while_its_copies_are_read_is_no_loss_if_it_was_trimmed(
    monkeypatch: pytest.MonkeyPatch, is_trimmed: bool
) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            trimmed, kept = await in_two_ledgers(client)
            copies = CopyAudit.copies

            async def delete_first(
                audit: CopyAudit, ledger_id: LedgerId, metadata: LedgerMetadata, first: int, last: int
            ) -> dict[int, Copies]:
                if ledger_id == trimmed.ledger_id:
                    if is_trimmed:
                        await client.shrink("orders", kept)
                        await client.collect("orders")
                    else:
                        await client.ledgers.delete(ledger_id)
                    await asyncio.sleep(60.0)  # the bookies collect it
                return await copies(audit, ledger_id, metadata, first, last)

            monkeypatch.setattr(CopyAudit, "copies", delete_first)
            if is_trimmed:
                [found] = await found_in(client, "orders")
                assert found.ledger_id == kept.ledger_id and found.proved
            else:
                first, second = [each async for each in verify(client, "orders")]
                assert isinstance(first, UncheckedLedger) and isinstance(first.error, DataLossError)
                assert f"lists ledger {trimmed.ledger_id}, which does not exist" in str(first.error)
                assert second.ledger_id == kept.ledger_id and second.proved

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


def test_a_message_that_is_trimmed_and_deleted_while_it_is_explained_is_no_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            trimmed, kept = await in_two_ledgers(client)
            copies = CopyAudit.copies

            async def delete_first(
                audit: CopyAudit, ledger_id: LedgerId, metadata: LedgerMetadata, first: int, last: int
            ) -> dict[int, Copies]:
                await client.shrink("orders", kept)
                await client.collect("orders")
                await asyncio.sleep(60.0)  # the bookies collect it
                return await copies(audit, ledger_id, metadata, first, last)

            monkeypatch.setattr(CopyAudit, "copies", delete_first)
            found = await explain(client, "orders", trimmed)
            assert (found.resolution, found.listed, found.copies) == (Resolution.TRIMMED, None, None)

    simulate(main)


def test_ids_that_no_message_can_have_are_absent_or_refused() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            async with await client.open_writer("orders", create=True) as writer:
                last = await writer.append(b"one")
            for never in (last._replace(entry_id=-1), last._replace(batch_index=-1), NO_MESSAGE):
                found = await client.explain("orders", never)
                assert (found.resolution, found.copies, found.message) == (Resolution.ABSENT, None, None)
            highest = MessageId(last.ledger_id, 2**63 - 1, 2**31 - 1)
            assert (await client.explain("orders", highest)).resolution is Resolution.ABSENT
            for beyond in (
                last._replace(ledger_id=2**63),
                last._replace(entry_id=2**63),
                last._replace(batch_index=2**31),
            ):
                with pytest.raises(InvalidNameError, match=f"message id {beyond} is out of range"):
                    await client.explain("orders", beyond)

    simulate(main)
