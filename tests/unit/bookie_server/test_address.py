"""A bookie waits until clients expect no other bookie at its address, or refuses."""

from __future__ import annotations

import asyncio

import pytest

from bookie_server.address import await_no_other, require_unknown
from bookie_server.errors import AddressTakenError
from bookie_server.registration import RETRY_S
from ledger.environment import SystemEnvironment
from ledger.metadata.memory import MemoryBackend, MemoryCluster
from ledger.metadata.transactions.store import KeyValueStore
from ledger.model import BookieId, BookieInfo
from tests.helpers.simulation.disk import run

OWN = BookieInfo(bookie_id=BookieId("new"), host="h", port=1)
LOST = BookieInfo(bookie_id=BookieId("lost"), host="h", port=1)
AT_ITS_ID = BookieId("h:1")


def store_of(cluster: MemoryCluster) -> KeyValueStore:
    environment = SystemEnvironment()
    return KeyValueStore(MemoryBackend("memory:x", cluster, environment), environment)


async def two_stores() -> tuple[KeyValueStore, KeyValueStore]:
    cluster = MemoryCluster()
    store = store_of(cluster)
    await store.init_cluster()
    return store, store_of(cluster)


def test_a_start_goes_on_when_the_session_of_a_killed_bookie_has_ended() -> None:
    async def scene() -> None:
        store, other = await two_stores()
        registration = await other.register_bookie(LOST)
        waiting = asyncio.create_task(await_no_other(store, OWN, patience_s=45))
        await asyncio.sleep(30)
        assert not waiting.done()
        await registration.close()
        await asyncio.sleep(RETRY_S)
        assert waiting.done()
        await waiting

    run(scene())


@pytest.mark.parametrize("read_only", [False, True])
def test_another_id_that_stays_registered_at_the_address_is_named(read_only: bool) -> None:
    async def scene() -> None:
        store, other = await two_stores()
        await (await other.register_bookie(LOST)).set_read_only(read_only)
        with pytest.raises(AddressTakenError, match=r"bookie lost is registered at h:1.*another --port"):
            await await_no_other(store, OWN, patience_s=5)

    run(scene())


def test_the_own_id_and_other_addresses_are_no_obstacle() -> None:
    async def scene() -> None:
        store, other = await two_stores()
        await other.register_bookie(OWN)
        await store.register_bookie(BookieInfo(bookie_id=BookieId("neighbour"), host="h", port=2))
        await await_no_other(store, OWN, patience_s=0)
        await require_unknown(store, OWN)

    run(scene())


def test_a_lost_bookie_whose_id_is_the_address_is_named_until_it_is_decommissioned() -> None:
    async def scene() -> None:
        store, _ = await two_stores()
        version = await store.write_cookie(AT_ITS_ID, b"cookie", None)
        await require_unknown(store, BookieInfo(bookie_id=AT_ITS_ID, host="h", port=1))
        with pytest.raises(AddressTakenError, match=r"`bookie decommission h:1` first.*another --port"):
            await require_unknown(store, OWN)
        await store.remove_cookie(AT_ITS_ID, version)
        await require_unknown(store, OWN)

    run(scene())
