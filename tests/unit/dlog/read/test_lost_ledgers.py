"""Ranges with a ledger that is lost, or whose metadata is damaged, on a simulated cluster.

Source: docs/log-semantics.md#rule-28.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.core.metadata_update import Applied
from dlog.core.tailing import Gap
from dlog.errors import DataLossError
from dlog.metadata.fresh_record import passes_loss
from dlog.model import MessageId
from dlog.testing import SimulatedCluster, simulate
from ledger.errors import MetadataFormatError
from ledger.metadata.memory import MemoryTransaction
from ledger.metadata.transactions import ledgers as stored_ledgers
from ledger.model import LedgerId

LOG = "orders"
PAYLOADS = [[b"%d-%d" % (ledger, number) for number in range(3)] for ledger in range(4)]
LATEST = {"until": "latest"}
NO_TIMES = {"first_append_us": 0, "last_append_us": 0}
DAMAGED = b"BookieMetadataFormatVersion\t3\n\x07"


@dataclass
class Loss:
    """A log of four ledgers with three messages each, one second apart, of which ledger `lost` does not exist."""

    client: LogClient
    ids: list[list[MessageId]]
    times: list[list[datetime]]
    gap: MessageId
    """Where it begins."""

    async def items(self, **wanted: Any) -> list[bytes | str | None]:
        """Payloads, and "gap" for that of the lost ledger."""
        found: list[bytes | str | None] = []
        async with self.client.reader(LOG, on_data_loss="gap", **wanted) as reader:
            async for item in reader.items():
                if isinstance(item, Gap):
                    assert item.first == self.gap
                    found.append("gap")
                else:
                    found.append(item.payload)
        return found


Scene = Callable[[Loss], Awaitable[None]]


def damage(cluster: SimulatedCluster, ledger_id: LedgerId, value: bytes) -> None:
    tx = MemoryTransaction(cluster.metadata._cluster)
    stored_ledgers.write(tx, ledger_id, value, stored_ledgers.read(tx, ledger_id).version)


def play(
    scene: Scene, *, lost: int = 1, unknown: Mapping[str, int] = MappingProxyType({}), damaged: bytes = b""
) -> None:
    """`unknown`: what the seal of the lost ledger has of what a takeover could not read.

    `damaged`: the metadata of the lost ledger; deleted if empty.
    """

    async def main(cluster: SimulatedCluster) -> None:
        ids: list[list[MessageId]] = []
        times: list[list[datetime]] = []
        async with await cluster.client() as client:
            for payloads in PAYLOADS:
                async with client.open_writer(LOG, create=True) as writer:
                    ids.append([])
                    for payload in payloads:
                        ids[-1].append(await writer.append(payload))
                        await asyncio.sleep(1.0)
            appended = [message.append_time_us async for message in client.reader(LOG, until="latest")]
            epoch = datetime.fromtimestamp(0, UTC)
            instants = [epoch + timedelta(microseconds=time_us) for time_us in appended]
            times += [instants[at : at + 3] for at in range(0, 12, 3)]
            ref = await client.logs.find(client.name(LOG))
            read = await client.logs.read(ref)
            ledgers = list(read.value.ledgers)
            assert all(listed.seal is not None for listed in ledgers)
            if unknown:
                seal = ledgers[lost].seal
                assert seal is not None
                ledgers[lost] = replace(ledgers[lost], seal=replace(seal, **unknown))
                record = replace(read.value, ledgers=tuple(ledgers), nonce=7)
                assert isinstance(await client.logs.compare_and_set(ref, record, read.version), Applied)
            if damaged:
                damage(cluster, ledgers[lost].ledger_id, damaged)
            else:
                await client.ledgers.delete(ledgers[lost].ledger_id)
        async with await cluster.client() as client:
            await scene(Loss(client, ids, times, ids[lost][0]))

    simulate(main)


def flat(*parts: list[bytes] | str) -> list[bytes | str | None]:
    return [item for part in parts for item in ([part] if isinstance(part, str) else part)]


@pytest.mark.parametrize(("count", "before"), [(6, None), (7, 0), (9, 0), (10, 1), (12, 3), (99, 3)])
@pytest.mark.parametrize("unknown", [{}, {"message_count": -1}])  # then each entry has one message or more
def test_the_last_n_count_a_lost_ledger_by_its_seal(
    count: int, before: int | None, unknown: dict[str, int]
) -> None:
    """`before`: how many of the ledger before it belong to them; None if not even the lost one does."""

    async def scene(loss: Loss) -> None:
        first = PAYLOADS[0]
        expected = flat(*([] if before is None else [first[3 - before :], "gap"]), *PAYLOADS[2:])
        assert await loss.items(last=count, **LATEST) == expected

    play(scene, unknown=unknown)


@pytest.mark.parametrize(("count", "before"), [(1, 0), (3, 0), (4, 1)])
def test_the_last_n_of_a_log_whose_last_ledger_is_lost(count: int, before: int) -> None:
    async def scene(loss: Loss) -> None:
        assert await loss.items(last=count, **LATEST) == flat(PAYLOADS[2][3 - before :], "gap")

    play(scene, lost=3)


@pytest.mark.parametrize("with_times", [True, False])
def test_a_time_in_a_lost_ledger_is_where_that_begins_or_ends(with_times: bool) -> None:
    """Its messages may be in the range, so the gap is. What is after it does not count as before the time."""

    async def scene(loss: Loss) -> None:
        tick = timedelta(microseconds=1)
        for start in (loss.times[0][2] + tick, loss.times[1][0], loss.times[1][1], loss.times[1][2]):
            assert await loss.items(start=start, **LATEST) == flat("gap", *PAYLOADS[2:])
            assert await loss.items(until=start) == flat(PAYLOADS[0], "gap")
            assert await loss.items(start=start, until=start + tick) == ["gap"]
            assert await loss.items(start=start, cursor=f"{start:%S-%f}", **LATEST) == flat(
                "gap", *PAYLOADS[2:]
            )
        assert await loss.items(start=loss.times[0][2], **LATEST) == flat(
            PAYLOADS[0][2:], "gap", *PAYLOADS[2:]
        )
        assert await loss.items(start=loss.times[2][0] + tick, **LATEST) == flat(PAYLOADS[2][1:], PAYLOADS[3])
        assert await loss.items(start=loss.times[3][0] + tick, **LATEST) == flat(PAYLOADS[3][1:])

    play(scene, unknown={} if with_times else NO_TIMES)


@pytest.mark.parametrize("with_times", [True, False])
def test_a_time_in_a_last_ledger_that_is_lost(with_times: bool) -> None:
    async def scene(loss: Loss) -> None:
        for start in loss.times[3]:
            assert await loss.items(start=start, **LATEST) == ["gap"]
            assert await loss.items(until=start) == flat(*PAYLOADS[:3], "gap")

    play(scene, lost=3, unknown={} if with_times else NO_TIMES)


def test_without_gaps_it_is_data_loss_and_the_way_out_works() -> None:
    async def scene(loss: Loss) -> None:
        inside = loss.times[1][1]
        for wanted in ({"last": 8}, {"start": inside}, {"until": inside}):
            with pytest.raises(DataLossError, match="read past it with on_data_loss='gap'"):
                await loss.client.reader(LOG, **{**LATEST, **wanted}).open()
            assert "gap" in await loss.items(**{**LATEST, **wanted})

    play(scene)


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_a_ledger_with_damaged_metadata_is_passed_as_a_gap(lost: int) -> None:
    """By the ranges that go by its seal, too: those by a number or a time."""

    async def scene(loss: Loss) -> None:
        payloads: list[list[bytes] | str] = [*PAYLOADS[:lost], "gap", *PAYLOADS[lost + 1 :]]
        inside = loss.times[lost][1]
        assert await loss.items(**LATEST) == flat(*payloads)
        assert await loss.items(**LATEST, last=3 * (4 - lost)) == flat(*payloads[lost:])
        assert await loss.items(**LATEST, start=inside) == flat(*payloads[lost:])
        assert await loss.items(until=inside) == flat(*payloads[: lost + 1])

    play(scene, lost=lost, damaged=DAMAGED)


def test_damaged_metadata_is_data_loss_of_the_ledger_for_a_reader_without_gaps() -> None:
    async def scene(loss: Loss) -> None:
        ledger_id, inside = loss.gap.ledger_id, loss.times[1][1]
        for wanted in ({}, {"last": 8}, {"start": inside}, {"until": inside}):
            with pytest.raises(DataLossError, match=f"the metadata of ledger {ledger_id} ") as raised:
                async for _ in loss.client.reader(LOG, **{**LATEST, **wanted}):
                    pass
            assert raised.value.ledger_id == ledger_id

    play(scene, damaged=DAMAGED)


def test_metadata_of_a_later_release_is_not_lost() -> None:
    """A gap would be over messages that are there."""

    async def scene(loss: Loss) -> None:
        for wanted in ({}, {"last": 8}, {"start": loss.times[1][1]}):
            with pytest.raises(MetadataFormatError, match="use a release that knows its format") as raised:
                await loss.items(**{**LATEST, **wanted})
            assert raised.value.newer_version == 4

    play(scene, damaged=b"BookieMetadataFormatVersion\t4\n")


@pytest.mark.parametrize("damaged", [DAMAGED, b""])
def test_an_open_ledger_whose_metadata_is_lost_ends_a_tail_that_asked_for_gaps(damaged: bytes) -> None:
    """Its writer appends on, and no later ledger shows where it ends. The reader's cursor stays one that is valid."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer(LOG, create=True)
            first = await writer.append(b"one")
            reader = client.reader(LOG, cursor="c", on_data_loss="gap")
            items = reader.items()
            assert (await anext(items)).id == first  # type: ignore[union-attr]
            if damaged:
                damage(cluster, LedgerId(first.ledger_id), damaged)
            else:
                await client.ledgers.delete(LedgerId(first.ledger_id))
            with pytest.raises(DataLossError, match="where that ledger ends is not known"):
                async with asyncio.timeout(600):
                    await anext(items)
            await reader.ack()
            await reader.close()
            async with client.reader(LOG, cursor="c", on_data_loss="gap") as reader:
                with pytest.raises(DataLossError, match="where that ledger ends is not known"):
                    async with asyncio.timeout(600):
                        await anext(reader.items())
            writer.abort()
            # The way out that the error names.
            async with client.open_writer(LOG, given_up=[first.ledger_id]) as successor:
                second = await successor.append(b"two")
            reader = client.reader(LOG, cursor="c", until="latest")
            assert [message.id async for message in reader] == [second]

    simulate(main)


@pytest.mark.parametrize("damaged", [b"", DAMAGED])
def test_the_overview_of_a_log_whose_last_ledger_is_lost(damaged: bytes) -> None:
    async def scene(loss: Loss) -> None:
        found = await loss.client.overview(LOG)
        assert found.totals.messages == 12 and found.newest is None

    play(scene, lost=3, damaged=damaged)


@pytest.mark.parametrize("damaged", [b"", DAMAGED])
def test_the_overview_of_a_log_whose_open_ledger_is_lost_names_the_way_out(damaged: bytes) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer(LOG, create=True)
            lost = LedgerId((await writer.append(b"one")).ledger_id)
            writer.abort()
            if damaged:
                damage(cluster, lost, damaged)
            else:
                await client.ledgers.delete(lost)
            with pytest.raises(DataLossError, match=f"given_up=.{lost}."):
                await client.overview(LOG)

    simulate(main)


def test_a_cursor_is_set_before_what_is_lost() -> None:
    """It shows to the reader that continues there."""

    async def scene(loss: Loss) -> None:
        found = await loss.client.set_cursor(LOG, "c", loss.times[1][1])
        assert found.position == loss.gap
        assert await loss.items(cursor="c", **LATEST) == flat("gap", *PAYLOADS[2:])

    play(scene)


def test_a_ledger_that_was_trimmed_in_the_meantime_is_not_lost() -> None:
    async def scene(loss: Loss) -> None:
        logs = loss.client.logs
        ref = await logs.find(loss.client.name(LOG))
        listed = logs.ledger_list(ref, (await logs.read(ref)).value)
        passes = passes_loss(logs, listed, ref, accept_loss=True)
        missing = await listed.find(loss.gap.ledger_id)
        assert missing is not None
        assert await passes(missing)
        await loss.client.shrink(LOG, before=loss.ids[2][0])
        assert not await passes(missing)

    play(scene)
