"""A bookie becomes visible, on the list that its disks ask for, whatever the store answers on the way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bookie_server.errors import BookieAliveError
from bookie_server.registration import RETRY_S, WITHDRAW_S, Presence, register
from bookie_server.server import DRAIN_S
from dlog.local.supervisor import STOP_TIMEOUT_S
from ledger.environment import SystemEnvironment
from ledger.errors import LogStoreError, MetadataOutcomeUnknownError, MetadataUnavailableError
from ledger.metadata.memory import MemoryBackend, MemoryCluster
from ledger.metadata.store import NewestLedger, Registration, ignore_loss, ignore_renewal
from ledger.metadata.transactions.store import KeyValueStore
from ledger.model import BookieId, BookieInfo
from tests.helpers.simulation.disk import run

INFO = BookieInfo(bookie_id=BookieId("b1"), host="h", port=1)


class TroubledStore:
    """Meets the next of `troubles` at each registration; an unknown outcome is one that was carried out."""

    def __init__(self, cluster: MemoryCluster, *troubles: LogStoreError) -> None:
        self.store = KeyValueStore(
            MemoryBackend("memory:x", cluster, SystemEnvironment()), SystemEnvironment()
        )
        self.troubles = list(troubles)

    async def register_bookie(
        self, info: BookieInfo, *, newest_ledger: NewestLedger | None = None
    ) -> Registration:
        trouble = self.troubles.pop(0) if self.troubles else None
        if isinstance(trouble, MetadataUnavailableError):
            raise trouble
        registration = await self.store.register_bookie(info, newest_ledger=newest_ledger)
        if trouble is not None:
            raise trouble
        return registration

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def unknown() -> LogStoreError:
    return MetadataOutcomeUnknownError("the answer was lost")


def away() -> LogStoreError:
    return MetadataUnavailableError("the store is away")


async def cluster_and_store(*troubles: LogStoreError) -> tuple[MemoryCluster, Any]:
    cluster = MemoryCluster()
    store = TroubledStore(cluster, *troubles)
    await store.init_cluster()
    return cluster, store


def test_a_lost_answer_does_not_end_the_start() -> None:
    """The second attempt finds the registration of the first, and knows it for its own."""

    async def scene() -> None:
        _, store = await cluster_and_store(unknown(), away(), unknown())
        registration = await register(store, INFO, patience_s=10)
        assert (await store.bookies()).find(INFO.bookie_id) is not None
        assert asyncio.get_running_loop().time() == pytest.approx(3 * RETRY_S)
        await registration.close()
        assert (await store.bookies()).find(INFO.bookie_id) is None

    run(scene())


@pytest.mark.parametrize("trouble", [unknown, away])
def test_it_ends_with_the_last_trouble_when_its_time_is_up(trouble: Any) -> None:
    async def scene() -> None:
        _, store = await cluster_and_store(*(trouble() for _ in range(100)))
        with pytest.raises(type(trouble())):
            await register(store, INFO, patience_s=5)
        assert 5 <= asyncio.get_running_loop().time() <= 5 + RETRY_S

    run(scene())


def test_another_process_is_still_distinguished_from_our_own_earlier_attempt() -> None:
    async def scene() -> None:
        cluster, store = await cluster_and_store(away())
        other = TroubledStore(cluster)
        await other.register_bookie(INFO)
        with pytest.raises(BookieAliveError, match="another process"):
            await register(store, INFO, patience_s=5)

    run(scene())


class DoubtfulStore:
    """Applies each request; the first answer is lost."""

    def __init__(self) -> None:
        self.read_only = False
        self.requests = 0

    async def set_read_only(self, read_only: bool) -> None:
        self.requests += 1
        self.read_only = read_only
        await asyncio.sleep(0.1)
        if self.requests == 1:
            raise MetadataOutcomeUnknownError("the answer was lost")

    async def close(self) -> None:
        pass


def test_a_change_of_which_nothing_is_known_is_undone_when_it_is_not_wanted_any_more() -> None:
    """The disk fills, the store applies the change and its answer is lost, the disk has room again."""

    async def main() -> None:
        store = DoubtfulStore()
        presence = Presence(store, writable=True, on_lost=ignore_loss, on_renewed=ignore_renewal)
        presence.want(writable=False)
        await asyncio.sleep(0.5)
        assert store.read_only
        presence.want(writable=True)
        await asyncio.sleep(60)
        assert not store.read_only

    run(main())


class CountedRequests:
    """A registration that counts what is asked of it."""

    def __init__(self) -> None:
        self.requests = 0

    async def set_read_only(self, read_only: bool) -> None:
        self.requests += 1

    async def close(self) -> None:
        pass


def test_a_disk_that_fills_up_after_the_registration_has_ended_publishes_nothing() -> None:
    """A stop withdraws the bookie first; the storage measures its disks until the last answers are read."""

    async def main() -> None:
        registration = CountedRequests()
        presence = Presence(registration, writable=True, on_lost=ignore_loss, on_renewed=ignore_renewal)
        await presence.withdraw()
        presence.want(writable=False)
        await asyncio.sleep(60)
        assert registration.requests == 0

    run(main())


class UnreachableStore(CountedRequests):
    async def close(self) -> None:
        raise away()


def test_a_stop_goes_on_while_the_store_is_away(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        presence = Presence(UnreachableStore(), writable=True, on_lost=ignore_loss, on_renewed=ignore_renewal)
        await presence.withdraw()

    run(main())
    assert "the store is away" in caplog.text


class SilentStore(CountedRequests):
    async def close(self) -> None:
        await asyncio.sleep(3600)


def test_a_stop_does_not_wait_longer_for_the_store_with_long_limits_of_its_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`?request_timeout_ms` may be minutes; what supervises the bookie would kill it before."""

    async def main() -> None:
        presence = Presence(SilentStore(), writable=True, on_lost=ignore_loss, on_renewed=ignore_renewal)
        began = asyncio.get_running_loop().time()
        await presence.withdraw()
        assert asyncio.get_running_loop().time() - began < WITHDRAW_S + DRAIN_S < STOP_TIMEOUT_S

    run(main())
    assert f"within {WITHDRAW_S:g} s" in caplog.text and "ends with the session" in caplog.text
