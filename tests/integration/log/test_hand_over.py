"""A running writer is asked for its log, or to rotate; on real bookies (docs/log-semantics.md#rule-22b)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from dlog.errors import OwnerUnresponsiveError, WriterDeposedError
from tests.helpers.log.producer import Producer, client_of, read_all
from tests.helpers.processes.cluster import forked_cluster

pytestmark = pytest.mark.integration


async def test_a_chain_of_owners_hands_the_log_on_with_no_append_in_doubt(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster:
        producers: list[Producer] = []
        async with (
            client_of(cluster.uri) as one,
            client_of(cluster.uri) as two,
            client_of(cluster.uri) as three,
        ):
            for number, client in enumerate((one, two, three, one, two)):
                writer = await client.open_writer("orders", create=True, wait_for_current_owner=30)
                assert writer.epoch == number + 1
                if producers:
                    assert isinstance(await producers[-1].died(), WriterDeposedError)
                    assert producers[-1].settled == len(producers[-1].acked)
                producers.append(Producer(writer, f"owner-{number}"))
                await producers[-1].reached(200)
            await producers[-1].stop()
            messages = await read_all(one, "orders")
        for producer in producers:
            producer.check(messages)
        assert len(messages) == sum(len(producer.acked) for producer in producers)


async def test_a_running_writer_rotates_and_appends_go_on(tmp_path: Path) -> None:
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri) as owner,
        client_of(cluster.uri) as operator,
    ):
        producer = Producer(await owner.open_writer("orders", create=True), "owner")
        await producer.reached(100)
        for _ in range(3):
            before = (await operator.describe("orders")).record
            after = (await operator.rotate("orders")).record
            assert (after.epoch, after.ledger_ids[:-1]) == (1, before.ledger_ids)
            await producer.more(100)
        await producer.stop()
        producer.check(await read_all(operator, "orders"))
        assert len(producer.acked) == producer.sent


async def test_an_owner_whose_process_is_stopped_is_not_waited_for_in_vain(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        async with client_of(cluster.uri) as old:
            await (await old.open_writer("orders", create=True)).append(b"one")
            # As if its process had been killed: it leaves its ledger open.
            for writer in list(old.writers):
                writer.abort()
        with pytest.raises(OwnerUnresponsiveError):
            await client.rotate("orders")
        begun = time.monotonic()
        async with client.open_writer("orders", wait_for_current_owner=60) as writer:
            assert time.monotonic() - begun < 10
            await writer.append(b"two")
        await asyncio.sleep(0)
        assert [message.payload for message in await read_all(client, "orders")] == [b"one", b"two"]
