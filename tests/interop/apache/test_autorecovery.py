"""Repair across both kinds: our autorecovery on Apache's bookies, Apache's on ours, and both on one cluster."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledger.client import LedgerClient
from ledger.inspection.copies import Verdict
from ledger.inspection.copy_audit import CopyAudit
from ledger.metadata.zookeeper.cluster import children_quietly
from ledger.metadata.zookeeper.store import ZooKeeperStore
from ledger.model import LedgerId, QuorumSizes
from tests.helpers.apache.autorecovery import ApacheAutorecovery
from tests.helpers.apache.cluster import Bookie, MixedCluster
from tests.helpers.ledger.appender import client_of
from tests.helpers.repository import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

ENTRIES = 40
WAIT_S = 120.0
THREE = QuorumSizes(ensemble=3, write=3, ack=2)
STRIPED = QuorumSizes(ensemble=3, write=2, ack=2)


async def written(client: LedgerClient, quorum: QuorumSizes = THREE, *, close: bool = True) -> LedgerId:
    handle = await client.create(quorum, password=b"secret")
    await asyncio.gather(*(handle.add(b"%d" % number * 50) for number in range(ENTRIES)))
    if close:
        await handle.close()
    return handle.ledger_id


async def until(condition: Callable[[], Awaitable[bool]], tell: Callable[[], str]) -> None:
    try:
        async with asyncio.timeout(WAIT_S):
            while not await condition():  # noqa: ASYNC110 -- what is waited for is in other processes
                await asyncio.sleep(0.2)
    except TimeoutError:
        pytest.fail(tell())


async def names(client: LedgerClient, ledger_id: LedgerId, bookie: Bookie) -> bool:
    metadata = (await client.store.read_ledger(ledger_id)).value
    return bookie.bookie_id in set(metadata.members())


async def is_complete(client: LedgerClient, ledger_id: LedgerId) -> bool:
    """Whether each entry has its write quorum of intact, equal copies."""
    metadata = (await client.store.read_ledger(ledger_id)).value
    audit = CopyAudit(client)
    found = await audit.audit(ledger_id, metadata, metadata.last_entry)
    await audit.close()
    return dict(found.verdicts) == {Verdict.COMPLETE: ENTRIES}


async def is_unmarked(client: LedgerClient) -> bool:
    return not [mark async for mark in client.store.repair.marks()]


def lose(cluster: MixedCluster, bookie: Bookie) -> None:
    bookie.kill()
    cluster.end_session(bookie)


def _election(cluster: MixedCluster) -> str:
    return f"{cluster.root}/underreplication/auditorelection"


async def votes(client: LedgerClient, cluster: MixedCluster) -> int:
    assert isinstance(client.store, ZooKeeperStore)
    return len(await children_quietly(client.store._session, _election(cluster)))


async def withdraw_first(client: LedgerClient, cluster: MixedCluster) -> None:
    """What the end of the auditor's session does."""
    assert isinstance(client.store, ZooKeeperStore)
    first = min(await client.store._session.children(_election(cluster)))
    await client.store._session.delete(f"{_election(cluster)}/{first}")


@contextmanager
def our_autorecovery(cluster: MixedCluster) -> Iterator[str]:
    """The process, and its name in locks and votes."""
    command = [sys.executable, "-m", "bookie_server", "autorecovery", "--metadata", cluster.uri]
    command += ["--lost-bookie-delay", "0", "--grace", "3"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[1]
        finally:
            process.terminate()
            assert process.wait(30) == 0


@contextmanager
def apaches_autorecovery(cluster: MixedCluster, directory: Path) -> Iterator[ApacheAutorecovery]:
    process = ApacheAutorecovery(cluster.uri, directory / "autorecovery", grace_ms=3000)
    try:
        yield process
    finally:
        process.stop()


async def written_and_lost(cluster: MixedCluster, client: LedgerClient) -> tuple[list[LedgerId], Bookie]:
    """Closed ledgers, one of them striped, and one without a writer; and a bookie of each, now dead."""
    ids = [await written(client), await written(client, STRIPED), await written(client, close=False)]
    members = [set((await client.store.read_ledger(each)).value.members()) for each in ids]
    lost = next(each for each in cluster.bookies if sum(each.bookie_id in some for some in members) >= 2)
    lose(cluster, lost)
    return [each for each, some in zip(ids, members, strict=True) if lost.bookie_id in some], lost


def test_ours_repairs_apaches_bookies(tmp_path: Path) -> None:
    async def main(cluster: MixedCluster) -> None:
        async with client_of(cluster.uri) as writer:
            ids, lost = await written_and_lost(cluster, writer)
        async with client_of(cluster.uri) as client:
            with our_autorecovery(cluster):

                async def repaired() -> bool:
                    return not any([await names(client, each, lost) for each in ids]) and await is_unmarked(
                        client
                    )

                await until(repaired, lambda: "our autorecovery did not repair them")
            for each in ids:
                assert await is_complete(client, each)

    with MixedCluster(tmp_path, apache=4) as cluster:
        asyncio.run(main(cluster))


def test_apaches_repairs_our_bookies(tmp_path: Path) -> None:
    async def main(cluster: MixedCluster) -> None:
        async with client_of(cluster.uri) as writer:
            ids, lost = await written_and_lost(cluster, writer)
        async with client_of(cluster.uri) as client:
            with apaches_autorecovery(cluster, tmp_path) as theirs:

                async def repaired() -> bool:
                    return not any([await names(client, each, lost) for each in ids]) and await is_unmarked(
                        client
                    )

                await until(repaired, theirs.end_of_log)
            for each in ids:
                assert await is_complete(client, each)

    with MixedCluster(tmp_path / "cluster", ours=4) as cluster:
        asyncio.run(main(cluster))


def test_both_respect_each_others_locks_and_auditor(tmp_path: Path) -> None:
    """Apache's auditor marks; a ledger that we hold is left alone until it is free; then ours takes over as auditor."""

    async def main(cluster: MixedCluster) -> None:
        async with client_of(cluster.uri) as client:
            repair = client.store.repair
            first, second = await written(client), await written(client)
            lock = await repair.lock(first, "the test")
            assert lock is not None
            with our_autorecovery(cluster) as our_name:

                async def ours_is_auditor() -> bool:
                    return await repair.auditor() == our_name

                await until(ours_is_auditor, lambda: "ours was not elected")
                with apaches_autorecovery(cluster, tmp_path) as theirs:

                    async def both_stand() -> bool:
                        return await votes(client, cluster) == 2

                    await until(both_stand, theirs.end_of_log)
                    assert await ours_is_auditor()
                    of_first = set((await client.store.read_ledger(first)).value.members())
                    of_second = set((await client.store.read_ledger(second)).value.members())
                    lost = next(each for each in cluster.bookies if each.bookie_id in of_first & of_second)
                    lose(cluster, lost)

                    async def second_repaired() -> bool:
                        return not await names(client, second, lost)

                    await until(second_repaired, theirs.end_of_log)
                    assert await names(client, first, lost)
                    assert await lock.is_held()
                    await lock.release()

                    async def all_repaired() -> bool:
                        return not await names(client, first, lost) and await is_unmarked(client)

                    await until(all_repaired, theirs.end_of_log)
                assert await is_complete(client, first) and await is_complete(client, second)

    with MixedCluster(tmp_path / "cluster", ours=2, apache=2) as cluster:
        asyncio.run(main(cluster))


@pytest.mark.nightly
def test_apaches_takes_over_from_our_auditor(tmp_path: Path) -> None:
    async def main(cluster: MixedCluster) -> None:
        async with client_of(cluster.uri) as client:
            repair = client.store.repair
            with our_autorecovery(cluster) as our_name:

                async def ours_is_auditor() -> bool:
                    return await repair.auditor() == our_name

                await until(ours_is_auditor, lambda: "ours was not elected")
                with apaches_autorecovery(cluster, tmp_path) as theirs:

                    async def both_stand() -> bool:
                        return await votes(client, cluster) == 2

                    async def theirs_is_auditor() -> bool:
                        return await repair.auditor() == theirs.name

                    await until(both_stand, theirs.end_of_log)
                    assert await ours_is_auditor()
                    await withdraw_first(client, cluster)
                    await until(theirs_is_auditor, theirs.end_of_log)

    with MixedCluster(tmp_path / "cluster", ours=1) as cluster:
        asyncio.run(main(cluster))
