"""A sealed ledger whose metadata is lost stops neither the next writer nor the end of its log, and stays listed.

An open one stops both until it is given up, whether its metadata is missing or damaged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from dlog.client import LogClient
from dlog.core.tailing import Gap
from dlog.errors import DataLossError, LogNotFoundError
from dlog.model import MessageId
from dlog.testing import SimulatedCluster, simulate
from ledger.errors import MetadataFormatError
from ledger.metadata.memory import MemoryTransaction
from ledger.metadata.transactions import ledgers as stored_ledgers
from ledger.model import LedgerId
from tests.helpers.log.scripted_log import scripted_log

LOG = "orders"
DAMAGED = b"BookieMetadataFormatVersion\t3\n\x07"
OF_A_LATER_RELEASE = b"BookieMetadataFormatVersion\t4\n"
Scene = Callable[[LogClient], Awaitable[None]]


def play(scene: Scene, *, lost: int, value: bytes = b"") -> None:
    """A log of two sealed ledgers with a message each, of which `lost` has metadata `value`, or none."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ids: list[MessageId] = []
            for payload in (b"one", b"two"):
                async with client.open_writer(LOG, create=True) as writer:
                    ids.append(await writer.append(payload))
            await lose(cluster, client, ids[lost].ledger_id, value)
        async with await cluster.client() as client:
            await scene(client)

    simulate(main)


async def lose(cluster: SimulatedCluster, client: LogClient, ledger_id: int, value: bytes) -> None:
    if not value:
        await client.ledgers.delete(LedgerId(ledger_id))
        return
    tx = MemoryTransaction(cluster.metadata._cluster)
    version = stored_ledgers.read(tx, LedgerId(ledger_id)).version
    stored_ledgers.write(tx, LedgerId(ledger_id), value, version)


async def items(client: LogClient) -> list[bytes | str | None]:
    found: list[bytes | str | None] = []
    async with client.reader(LOG, until="latest", on_data_loss="gap") as reader:
        async for item in reader.items():
            found.append("gap" if isinstance(item, Gap) else item.payload)
    return found


@pytest.mark.parametrize("value", [b"", DAMAGED])
@pytest.mark.parametrize("lost", [0, 1])
def test_the_next_writers_continue_and_readers_report_the_loss(lost: int, value: bytes) -> None:
    async def scene(client: LogClient) -> None:
        async with client.open_writer(LOG):
            pass
        async with client.open_writer(LOG) as writer:
            await writer.append(b"three")
        expected: list[bytes | str | None] = [b"one", b"two", b"three"]
        expected[lost] = "gap"
        assert await items(client) == expected
        with pytest.raises(DataLossError):
            _ = [message async for message in client.reader(LOG, until="latest")]

    play(scene, lost=lost, value=value)


async def test_it_is_logged_with_the_way_out(caplog: pytest.LogCaptureFixture) -> None:
    async with scripted_log() as log, log.client() as client:
        async with client.open_writer(LOG, create=True) as writer:
            lost = LedgerId((await writer.append(b"one")).ledger_id)
        await client.ledgers.delete(lost)
        async with client.open_writer(LOG):
            pass
    [warning] = [each for each in caplog.messages if "is missing or damaged" in each]
    assert f"ledger {lost}" in warning and "restore the metadata store from a backup" in warning


@pytest.mark.parametrize("value", [b"", DAMAGED])
def test_it_can_be_sealed_and_deleted(value: bytes) -> None:
    async def scene(client: LogClient) -> None:
        await client.seal(LOG)
        assert await items(client) == [b"one", "gap"]
        assert await client.delete(LOG)
        with pytest.raises(LogNotFoundError):
            await client.describe(LOG)

    play(scene, lost=1, value=value)


def test_metadata_of_a_later_release_stops_a_takeover() -> None:
    async def scene(client: LogClient) -> None:
        with pytest.raises(MetadataFormatError):
            await client.open_writer(LOG)

    play(scene, lost=1, value=OF_A_LATER_RELEASE)


@pytest.mark.parametrize("value", [b"", DAMAGED])
def test_an_open_one_stops_all_until_it_is_given_up(value: bytes) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer(LOG, create=True)
            lost = LedgerId((await writer.append(b"lost")).ledger_id)
            writer.abort()
            await lose(cluster, client, lost, value)
            for attempt in (client.open_writer, client.seal, client.delete):
                with pytest.raises(DataLossError, match=f"given_up=\\[{lost}\\]"):
                    await attempt(LOG)  # type: ignore[operator]  # of three kinds
            with pytest.raises(DataLossError, match=f"given_up=\\[{lost}\\]"):
                await items(client)
            async with client.open_writer(LOG, given_up=[lost]) as writer:
                await writer.append(b"kept")
            assert await items(client) == [b"kept"]
            await client.delete(LOG)

    simulate(main)
