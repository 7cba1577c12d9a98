"""A whole cluster, production code from client to disk, on one simulated machine."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext

import pytest

import dlog
from dlog.client import connect
from dlog.errors import AppendIndeterminateError, ConfigurationError, WriterDeposedError
from dlog.testing.bookies import DATA
from dlog.testing.cluster import ClusterConfig, SimulatedCluster, simulate
from dlog.testing.errors import DeadlockError, UncaughtProblemsError


def payloads(first: int, last: int) -> list[bytes]:
    return [b"payload %d" % number for number in range(first, last)]


async def written_and_read(cluster: SimulatedCluster) -> str:
    async with await cluster.client() as client:
        async with client.open_writer("orders", create=True) as writer:
            for each in payloads(0, 20):
                await writer.append(each)
            cluster.kill_bookie(0)
            for each in payloads(20, 40):
                await writer.append(each)
        await cluster.restart_bookie(0)
        found = [message.payload async for message in client.reader("orders", until="latest")]
    assert found == payloads(0, 40)
    await cluster.stop()
    return cluster.trace.digest()


def test_what_was_written_while_a_bookie_died_is_read() -> None:
    simulate(written_and_read)


def test_the_same_seed_is_the_same_run() -> None:
    assert simulate(written_and_read, seed=5) == simulate(written_and_read, seed=5)
    assert simulate(written_and_read, seed=5) != simulate(written_and_read, seed=6)


def test_a_process_that_is_left_running_logs_nothing_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Although it waits within an asynchronous generator whose `finally` waits again."""

    async def main(cluster: SimulatedCluster) -> None:
        @asynccontextmanager
        async def connected() -> AsyncIterator[None]:
            client = await cluster.client()
            try:
                yield
            finally:
                await client.close()

        async def program() -> None:
            async with connected():
                pass

        cluster.run("left", program)
        await asyncio.sleep(0.001)

    for seed in range(10):
        simulate(main, seed=seed)
    gc.collect()
    assert capsys.readouterr().err == ""


def test_a_power_cut_of_every_bookie_loses_nothing_acknowledged() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        before = await cluster.client()
        writer = await before.open_writer("orders", create=True)
        for each in payloads(0, 20):
            await writer.append(each)
        for number in range(3):
            cluster.power_cut_bookie(number)
        writer.abort()
        await before.close()
        cluster.heal()
        for bookie in cluster.bookies:
            await bookie.wait_until_serving()
        async with await cluster.client() as client:
            await (await client.open_writer("orders", create=True)).close()
            assert [m.payload async for m in client.reader("orders", until="latest")] == payloads(0, 20)

    for seed in range(5):
        simulate(main, seed=seed)


@pytest.mark.parametrize("by_fault", [True, False])
def test_an_entry_log_that_is_missing_is_a_problem_unless_a_fault_removed_it(by_fault: bool) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, client.open_writer("orders", create=True) as writer:
            for each in payloads(0, 20):
                await writer.append(each)
            bookie = cluster.bookies[0]
            await bookie.checkpoint()
            bookie.kill()
            if by_fault:
                assert bookie.disk.lose_file("entry-logs")
            else:
                entry_logs = DATA / "ledgers" / "entry-logs"
                for name in bookie.disk.list(entry_logs):
                    bookie.disk.remove(entry_logs / name)
            await cluster.restart_bookie(0)

    expected: AbstractContextManager[object] = nullcontext()
    if not by_fault:
        expected = pytest.raises(UncaughtProblemsError, match="is missing")
    with expected:
        simulate(main)


def test_a_program_in_a_process_of_its_own_is_paused_deposed_and_wakes() -> None:
    async def service(cluster: SimulatedCluster) -> str:
        client = await connect(cluster.uri, environment=cluster.environment())
        writer = await client.open_writer("orders", create=True)
        try:
            while True:
                await writer.append(b"from the service")
                await asyncio.sleep(0.1)
        except (WriterDeposedError, AppendIndeterminateError):
            return "deposed"
        finally:
            await client.close()

    async def main(cluster: SimulatedCluster) -> str:
        running = cluster.run("service", lambda: service(cluster))
        await asyncio.sleep(3)
        cluster.pause("service")
        async with await cluster.client() as client, client.open_writer("orders", create=True) as writer:
            await writer.append(b"from its successor")
            await asyncio.sleep(60)
            cluster.resume("service")
            return await running

    assert simulate(main) == "deposed"


def test_a_bookie_whose_disk_fails_ends_and_may_be_started_again() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        ended = asyncio.Event()
        cluster.bookies[1].on_end = lambda _: ended.set()
        cluster.bookies[1].disk.faults.arm("sync_error", "journal")
        async with await cluster.client() as client, client.open_writer("orders", create=True) as writer:
            await writer.append(b"one")
            await writer.append(b"two")
            await ended.wait()
            assert not cluster.bookies[1].running
            await cluster.restart_bookie(1)
            await writer.append(b"three")

    simulate(main)


def test_a_cluster_of_five() -> None:
    async def main(cluster: SimulatedCluster) -> int:
        async with await cluster.client() as client:
            return len(client.ledgers.bookies().writable)

    assert simulate(main, config=ClusterConfig(bookies=5)) == 5


def test_a_program_that_can_never_proceed_fails_as_deadlocked() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        await cluster.stop()
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match="main"):
        simulate(main)


def test_an_exception_brings_along_what_happened_before_it() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, client.open_writer("orders", create=True) as writer:
            await writer.append(b"one")
            cluster.kill_bookie(0)
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong") as caught:
        simulate(main, timeline=50)
    (timeline,) = caught.value.__notes__
    assert "ADD 1:0" in timeline and "ledger 1 OPEN" in timeline and timeline.count("durable") >= 2
    assert "!! kill" in timeline


def test_a_client_of_the_real_machine_does_not_get_into_the_simulation() -> None:
    """Its clock and randomness would differ between two runs of a seed, and a blocking call stops the simulation."""

    async def main(cluster: SimulatedCluster) -> None:
        with pytest.raises(ConfigurationError, match=r"environment=cluster\.environment\(\)"):
            await dlog.aio.connect(cluster.uri)
        with pytest.raises(ConfigurationError, match="dlog_cluster"):
            dlog.connect(cluster.uri)

    simulate(main)


def test_faults_of_bookies_and_processes_that_do_not_exist_are_refused() -> None:
    """The number -1 meant the last bookie."""

    async def main(cluster: SimulatedCluster) -> None:
        for number in (-1, 3):
            for fault in (cluster.kill_bookie, cluster.power_cut_bookie, cluster.start_bookie):
                with pytest.raises(ConfigurationError, match=f"no bookie {number}: there are 3"):
                    fault(number)
            with pytest.raises(ConfigurationError, match=f"no bookie {number}"):
                await cluster.restart_bookie(number)
        for by_name in (cluster.kill, cluster.pause, cluster.resume):
            with pytest.raises(ConfigurationError, match="no process 'servic': there are world, bookie-0"):
                by_name("servic")

    simulate(main)
    for config in ({}, []):
        with pytest.raises(ConfigurationError, match="config must be a ClusterConfig"):
            simulate(main, config=config)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="0 or more, got -1"):
        ClusterConfig(bookies=-1)
