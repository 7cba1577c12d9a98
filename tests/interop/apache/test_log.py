"""The log on Apache's bookies: what its promises cost there, and that they hold all the same."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import pytest

from bookie_server.tools.admin_connection import linked
from dlog.client import LogClient, connect
from dlog.config import LogConfig
from dlog.demo.child import Child
from dlog.errors import AppendIndeterminateError, WriterDeposedError
from dlog.local.signalling import pause_process, send_signal
from dlog.model import MessageId
from dlog.write.writer import LogWriter
from ledger.config import LedgerClientConfig
from ledger.errors import BookieUnavailableError
from ledger.metadata.drivers import open_store
from ledger.model import LedgerId
from ledger.wire.digest import make_digester, master_key
from ledger.wire.messages import (
    Operation,
    V3AddRequest,
    V3AddResponse,
    V3ReadRequest,
    V3ReadResponse,
)
from ledger.wire.status import Status
from tests.helpers.apache.autorecovery import ApacheAutorecovery
from tests.helpers.apache.bookie import DB, ApacheBookie
from tests.helpers.apache.cluster import MixedCluster
from tests.helpers.metadata.drivers import eventually_async
from tests.helpers.processes.command import Command

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

WAIT_S = 60.0
GRACE_S = 4.0
REJOIN_S = 2.0
"""Time enough for a writer to take a bookie back that was started again."""
FLUSH_S = 0.5
_FORGETFUL = {
    "gcWaitTime": 1000,
    "minorCompactionInterval": 0,
    "majorCompactionInterval": 0,
    # Until a checkpoint the journal would bring the fence back; this storage makes one at each flush.
    "ledgerStorageClass": DB,
    "flushInterval": int(FLUSH_S * 1000),
}
"""What takes a quarter of an hour by Apache's defaults."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    with MixedCluster(tmp_path_factory.mktemp("apache"), apache=4, settings=_FORGETFUL) as cluster:
        yield cluster


@pytest.fixture
def apache(whole: MixedCluster) -> MixedCluster:
    """Four of Apache's bookies, all of them running, and no ledger of the test before for repair to care about."""
    whole.start_all()
    asyncio.run(remove_ledgers(whole.uri))
    return whole


async def remove_ledgers(uri: str) -> None:
    store = await open_store(uri)
    async for ledger_id in store.ledger_ids():
        await store.remove_ledger(ledger_id)
    await store.close()


async def everything(client: LogClient, log: str) -> list[bytes | None]:
    async with client.reader(log, until="latest") as reader:
        return [message.payload async for message in reader]


def of(cluster: MixedCluster, bookie_ids: tuple[str, ...]) -> list[ApacheBookie]:
    return [one for one in cluster.apache if one.bookie_id in bookie_ids]


async def ensemble(client: LogClient, ledger_id: int) -> tuple[str, ...]:
    return (await client.ledgers.store.read_ledger(LedgerId(ledger_id))).value.last_fragment.ensemble


async def restart_all(cluster: MixedCluster) -> None:
    """kill -9 of all bookies, and all of them back; their journals bring nothing back that was flushed."""
    for one in cluster.apache:
        one.kill_with_its_mark()
    await asyncio.to_thread(cluster.start_all)
    for one in cluster.apache:
        await eventually_async(lambda one=one: _answers(one), WAIT_S)


# ---- read after write (docs/log-semantics.md#rule-13, #rule-14)


async def test_what_was_acknowledged_is_read_by_every_later_reader(apache: MixedCluster) -> None:
    """One append at a time: no later entry carries its LAC, so that is written by itself."""
    async with (
        await connect(apache.uri) as client,
        await connect(apache.uri) as other,
        await client.open_writer("strict", create=True) as writer,
    ):
        for number in range(20):
            acked = await writer.append(b"%d" % number)
            async with other.reader("strict", last=1, until="latest") as reader:
                assert [(one.id, one.payload) async for one in reader] == [(acked, b"%d" % number)]


async def test_it_is_still_read_after_all_bookies_were_killed(apache: MixedCluster) -> None:
    """The writer is gone without a seal and nobody recovers: Apache's bookies have kept the explicit LAC."""
    async with connect(apache.uri) as client:
        writer = await client.open_writer("restarted", create=True)
        async with client.tail("restarted", start="earliest") as tail:
            acked = [await writer.append(b"%d" % number) for number in range(3)]
            seen = [(await anext(aiter(tail))).id for _ in range(3)]
            assert seen == acked
            writer.abort()
            await restart_all(apache)
            async with (
                await connect(apache.uri) as other,
                other.reader("restarted", until="latest") as reader,
            ):
                assert [one.id async for one in reader] == acked
            # The reader that had waited all the time sees what the next writer appends.
            async with client.open_writer("restarted", create=True) as successor:
                following = await successor.append(b"after")
                async with asyncio.timeout(WAIT_S):
                    assert (await anext(aiter(tail))).id == following


async def test_a_writer_outlives_the_restart_of_every_bookie(apache: MixedCluster) -> None:
    """One after another, each killed: no append fails, and all are read back in order."""
    async with connect(apache.uri) as client, client.open_writer("rolling", create=True) as writer:
        acked: list[MessageId] = []
        stop = asyncio.Event()

        async def append() -> None:
            while not stop.is_set():
                acked.append(await writer.append(b"%d" % len(acked)))

        appending = asyncio.create_task(append())
        for one in apache.apache:
            before = len(acked)
            one.kill()
            await eventually_async(lambda before=before: _more(acked, before + 20), WAIT_S)
            await asyncio.to_thread(apache.start_all)
        stop.set()
        await appending
        assert await everything(client, "rolling") == [b"%d" % number for number in range(len(acked))]


async def _more(acked: list[MessageId], count: int) -> bool:
    return len(acked) >= count


# ---- a writer that slept (docs/log-semantics.md#rule-25)


@asynccontextmanager
async def sleeping_writer(uri: str, log: str, directory: Path) -> AsyncIterator[Child]:
    """A process that owned the log and is stopped in the middle of its appends."""
    child = await Child.start(
        "tests.helpers.log.writer_process", uri, log, str(GRACE_S), log=directory / "writer.log"
    )
    try:
        await child.event("acked", lambda event: event["count"] >= 20)
        pause_process(child._process.pid)
        yield child
    finally:
        await child.stop()


@pytest.mark.nightly
async def test_a_writer_that_was_paused_during_the_deletion_fails(
    apache: MixedCluster, tmp_path: Path
) -> None:
    """Its bookies have forgotten fence and deletion, and would take its entries again."""
    config = LogConfig(deletion_grace_s=GRACE_S)
    async with (
        await connect(apache.uri, config=config) as client,
        sleeping_writer(apache.uri, "sleeper", tmp_path) as child,
    ):
        ledger_id = await delete_when_due(client, "sleeper")
        await until_collected(apache.apache, ledger_id)
        await restart_all(apache)
        assert Status.EFENCED not in [await _add_anew(one, ledger_id) for one in apache.apache]
        before = len(child.all("acked"))
        send_signal(child._process, signal.SIGCONT)
        ended = await asyncio.wait_for(child.event("ended"), WAIT_S)
        assert ended["error"] in ("WriterDeposedError", "AppendIndeterminateError")
        assert "sleeper" in ended["message"]
        # One acknowledgement from before it slept may still have been on its way.
        assert child.all("acked")[before + 1 :] == []


@pytest.mark.nightly
async def test_a_writer_cut_off_from_zookeeper_believes_no_bookie_for_long(apache: MixedCluster) -> None:
    """Its log is deleted, its bookies forget that one by one, and take its next entry: it is not acknowledged."""
    spare, *bookies = apache.apache
    spare.kill()
    await asyncio.to_thread(apache.end_session, spare)
    # Bookies that return are to be taken back at once.
    eager = LedgerClientConfig(replace_backoff_s=0.1, replace_backoff_max_s=0.5)
    config = LogConfig(deletion_grace_s=GRACE_S, ledger=eager)
    async with (
        Line(apache.zookeeper.port, apache.root) as line,
        await connect(apache.uri, config=config) as client,
        await connect(line.uri, config=config) as behind,
    ):
        writer = await behind.open_writer("zombie", create=True)
        try:
            first = await writer.append(b"first")
            line.stall()
            await until_collected(bookies, await delete_when_due(client, "zombie"))
            for one in bookies:
                one.kill_with_its_mark()
                await asyncio.to_thread(apache.end_session, one)
                await asyncio.to_thread(one.start)
                await eventually_async(lambda one=one: _answers(one), WAIT_S)
                await asyncio.sleep(REJOIN_S)
            appending = asyncio.create_task(writer.append(b"second"))

            async def taken() -> bool:
                found = [await status_of(one, first.ledger_id, first.entry_id + 1) for one in bookies]
                return found.count(Status.EOK) >= 2

            await eventually_async(taken, WAIT_S)
            await asyncio.sleep(1)
            assert not appending.done(), "its bookies have it, and nobody else will ever read it"
            line.go_on()
            with pytest.raises((WriterDeposedError, AppendIndeterminateError)):
                await asyncio.wait_for(appending, WAIT_S)
        finally:
            writer.abort()
            line.go_on()


async def delete_when_due(client: LogClient, log: str) -> LedgerId:
    """Delete the log as soon as that is allowed; the ledger that it had."""
    [listed] = (await client.describe(log)).record.ledgers
    started = asyncio.get_running_loop().time()
    assert not await client.delete(log), "its ledger must outlive the grace"

    async def deleted() -> bool:
        await asyncio.sleep(0.1)
        return await client.delete(log)

    await eventually_async(deleted, WAIT_S)
    assert asyncio.get_running_loop().time() - started > GRACE_S - 1
    return listed.ledger_id


async def until_collected(bookies: list[ApacheBookie], ledger_id: LedgerId) -> None:
    """On return a restart makes these bookies forget all that they knew of the ledger."""
    for one in bookies:
        await eventually_async(lambda one=one: has_forgotten(one, ledger_id), WAIT_S)
    await asyncio.sleep(4 * FLUSH_S)


async def has_forgotten(one: ApacheBookie, ledger_id: int) -> bool:
    await asyncio.sleep(0.1)
    return await status_of(one, ledger_id, 0) is Status.ENOLEDGER


class Line:
    """The way to ZooKeeper of one client; it may be stalled, and nobody is told."""

    def __init__(self, port: int, root: str) -> None:
        self.uri = ""
        self._root = root
        self._behind = port
        self._passing = asyncio.Event()
        self._passing.set()
        self._pumps: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.uri = f"zk+hierarchical://127.0.0.1:{port}{self._root}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for pump in list(self._pumps):
            pump.cancel()

    def stall(self) -> None:
        self._passing.clear()

    def go_on(self) -> None:
        self._passing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._behind)
        for source, target in ((reader, far_writer), (far_reader, writer)):
            pump = asyncio.create_task(self._pump(source, target))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                await self._passing.wait()
                writer.write(data)
        finally:
            writer.close()


async def _answers(one: ApacheBookie) -> bool:
    """It takes connections some time before it serves."""
    try:
        await status_of(one, 0, 0)
    except BookieUnavailableError:
        return False
    return True


async def status_of(one: ApacheBookie, ledger_id: int, entry_id: int) -> Status:
    async with linked("127.0.0.1", one.port, 1 << 20) as link:
        request = V3ReadRequest(ledger_id=ledger_id, entry_id=entry_id)
        status, _ = await link.ask(Operation.READ_ENTRY, request, V3ReadResponse)
    return status


async def _add_anew(one: ApacheBookie, ledger_id: int) -> Status:
    """As a writer would whose connection was slow, to see whether the bookie takes it."""
    digester = make_digester(LogConfig().digest_type, b"")
    entry_id = 1_000_000
    entry = digester.header_and_digest(ledger_id, entry_id, -1, 1, (b"x",)) + b"x"
    request = V3AddRequest(ledger_id=ledger_id, entry_id=entry_id, master_key=master_key(b""), entry=entry)
    async with linked("127.0.0.1", one.port, 1 << 20) as link:
        status, _ = await link.ask(Operation.ADD_ENTRY, request, V3AddResponse)
    return status


# ---- autorecovery (docs/log-semantics.md#rule-24b)


@asynccontextmanager
async def autorecovery(
    cluster: MixedCluster, directory: Path, grace_ms: int
) -> AsyncIterator[ApacheAutorecovery]:
    process = ApacheAutorecovery(cluster.uri, directory / "autorecovery", grace_ms)

    async def ready() -> bool:
        return process.said("I'm starting as Auditor Bookie")

    try:
        await eventually_async(ready, WAIT_S)
        yield process
    finally:
        process.stop()


async def test_an_idle_writer_replaces_a_dead_bookie_before_repair_fences_it(
    apache: MixedCluster, tmp_path: Path
) -> None:
    """With Apache's default grace of 30 s: what is closed is repaired, what is open stays the writer's."""
    async with (
        autorecovery(apache, tmp_path, 30_000),
        await connect(apache.uri) as client,
        await client.open_writer("idle", create=True) as writer,
    ):
        closed = (await writer.append(b"first")).ledger_id
        await writer.rotate()
        second = await writer.append(b"second")
        both = set(await ensemble(client, closed)) & set(await ensemble(client, second.ledger_id))
        [dead] = of(apache, (min(both),))
        dead.kill()

        async def without_it(ledger_id: int) -> bool:
            return dead.bookie_id not in await ensemble(client, ledger_id)

        await eventually_async(lambda: without_it(second.ledger_id), 20)
        await eventually_async(lambda: without_it(closed), WAIT_S)
        third = await writer.append(b"third")
        assert third.ledger_id == second.ledger_id
        assert await everything(client, "idle") == [b"first", b"second", b"third"]


async def test_a_writer_goes_on_after_repair_has_fenced_it(apache: MixedCluster, tmp_path: Path) -> None:
    """No spare bookie, and no grace: Apache's worker recovers the open ledger.

    Nobody else owns the log, so its writer recovers the ledger itself and goes on in another one.
    """
    spare = apache.apache[0]
    spare.kill()
    await asyncio.to_thread(apache.end_session, spare)
    async with (
        await connect(apache.uri) as client,
        await client.open_writer("repaired", create=True) as writer,
    ):
        first = await writer.append(b"before")
        apache.apache[1].kill()
        await asyncio.to_thread(apache.end_session, apache.apache[1])
        async with autorecovery(apache, tmp_path, 0):
            sent = [b"before"]
            async with asyncio.timeout(WAIT_S):
                last = first
                while last.ledger_id == first.ledger_id:
                    await asyncio.sleep(0.2)
                    sent.append(b"%d" % len(sent))
                    last = await writer.append(sent[-1])
            assert await everything(client, "repaired") == sent
            found = (await client.describe("repaired")).record
            assert (found.epoch, found.owner.instance) == (1, writer.owner.instance)


async def test_a_busy_writer_goes_on_while_repair_works_concurrently(
    apache: MixedCluster, tmp_path: Path
) -> None:
    """Bookies die and return one after another under its appends, and repair fences what it can."""
    async with (
        autorecovery(apache, tmp_path, 0),
        await connect(apache.uri) as client,
        await client.open_writer("busy", create=True) as writer,
    ):
        stop = asyncio.Event()
        load = asyncio.create_task(_append_until(writer, stop))
        for one in apache.apache[:2]:
            await asyncio.sleep(1)
            one.kill()
            await asyncio.sleep(3)
            await asyncio.to_thread(apache.start_all)
            assert not load.done(), load.exception()
        stop.set()
        count = await load
        assert count > 100
        assert await everything(client, "busy") == [b"%d" % number for number in range(count)]


async def _append_until(writer: LogWriter, stop: asyncio.Event) -> int:
    count = 0
    while not stop.is_set():
        await writer.append(b"%d" % count)
        count += 1
        await asyncio.sleep(0.005)
    return count


# ---- the demonstration


@pytest.mark.nightly
async def test_the_demonstration_on_apaches_bookies(apache: MixedCluster) -> None:
    """One of them dies in the middle of it, by another hand."""

    def tell() -> str:
        process = Command().start("demo", "--no-spark", "--metadata", apache.uri)
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.decode())
            if "owns log" in lines[-1]:
                apache.apache[0].kill()
        _, errors = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, errors.decode()
        return "".join(lines)

    story = await asyncio.to_thread(tell)
    print(story)
    assert "27,004 flights, none missing, duplicated or out of order" in story
    assert "no bookie is killed" in story and "ledgers from 2 takeovers" in story
