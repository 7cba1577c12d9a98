"""A bookie inside this process, on asyncio's own event loop: nothing is left behind when it stops."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bookie_server.config_file import make_config
from bookie_server.disk.disk import DiskLock
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import (
    AddressTakenError,
    BookieAliveError,
    ClusterMissingError,
    CookieMismatchError,
    DiskFailedError,
    PortTakenError,
)
from bookie_server.net.port import ports_to_try
from bookie_server.process import loop_factory
from bookie_server.server import BookieServer
from ledger.environment import Environment, SystemEnvironment
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, BookieInfo, check_bookie_id
from ledger.wire.status import Status
from tests.helpers.bookie.entries import add, add_answer, entry, fence, read, read_answer
from tests.helpers.processes.bookie import SMALL_FILES
from tests.helpers.processes.ports import free_ports, ports_to_choose, range_text

pytestmark = pytest.mark.integration


@asynccontextmanager
async def cluster(name: str) -> AsyncIterator[MetadataStore]:
    store = await open_store(f"memory:{name}")
    await store.init_cluster()
    yield store
    await store.close()


def server_on(
    directory: Path, store: MetadataStore, *, environment: Environment | None = None, **settings: object
) -> BookieServer:
    config = make_config(
        {
            "metadata": store.uri,
            "data": str(directory),
            "port": 0,
            "port_range": range_text(ports_to_choose()),
            "storage": SMALL_FILES,
            **settings,
        },
        {},
    )
    return BookieServer(config, store, SystemDisk(), environment or SystemEnvironment())


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: bytes) -> bytes:
    writer.write(frame)
    prefix = await reader.readexactly(4)
    return prefix + await reader.readexactly(int.from_bytes(prefix, "big"))


def test_a_bookie_without_a_port_passes_over_those_that_are_taken(tmp_path: Path) -> None:
    async def scenario() -> None:
        environment = SystemEnvironment()
        environment.rng.seed(7)
        first, second, third, *_ = ports_to_try(random.Random(7), ports_to_choose())
        async with cluster("ports") as store:
            with socket.create_server(("127.0.0.1", first)), socket.create_server(("127.0.0.1", second)):
                server = server_on(tmp_path, store, environment=environment)
                await server.start()
                assert server.port == third
                await server.stop()
            again = server_on(tmp_path, store)
            await again.start()
            assert again.port == third
            await again.stop()

    asyncio.run(scenario())


def test_a_bookie_keeps_within_its_range_of_ports(tmp_path: Path) -> None:
    async def scenario() -> None:
        (port,) = free_ports(1)
        async with cluster("range") as store:
            with socket.create_server(("127.0.0.1", port)):
                server = server_on(tmp_path, store, port_range=f"{port}-{port}")
                with pytest.raises(PortTakenError, match=f"each port of port_range {port}-{port} is taken"):
                    await server.start()
            server = server_on(tmp_path, store, port_range=f"{port}-{port}")
            await server.start()
            assert server.port == port
            await server.stop()

    asyncio.run(scenario())


def test_it_serves_and_stops_without_leaving_tasks_or_registration(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster("serves") as store:
            before = asyncio.all_tasks()
            server = server_on(tmp_path, store)
            await server.start()
            assert (await store.bookies()).find(server.bookie_id) is not None
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            assert add_answer(await ask(reader, writer, add(1, 0))).status is Status.EOK
            assert read_answer(await ask(reader, writer, fence(1))).entry == entry(1, 0)
            assert add_answer(await ask(reader, writer, add(1, 1))).status is Status.EFENCED
            await server.stop()
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
            assert (await store.bookies()).find(server.bookie_id) is None
            assert asyncio.all_tasks() == before

    asyncio.run(scenario())


class WaitsToLock(SystemDisk):
    """Takes no lock before `goes_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.goes_on = threading.Event()

    def lock(self, path: Path) -> DiskLock:
        self.asked.set()
        self.goes_on.wait(30)
        return super().lock(path)


def test_a_start_that_is_cancelled_while_it_locks_its_directories_releases_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster("cancelled") as store:
            again, disk = server_on(tmp_path, store), WaitsToLock()
            cancelled = BookieServer(again._config, store, disk, SystemEnvironment())
            starting = asyncio.create_task(cancelled.start())
            await asyncio.to_thread(disk.asked.wait, 30)
            starting.cancel()
            await asyncio.sleep(0)  # the task has noticed
            disk.goes_on.set()
            await asyncio.wait([starting])
            assert starting.cancelled()
            await again.start()
            await again.stop()

    asyncio.run(scenario())


def test_a_start_goes_through_its_steps_in_order_and_serves_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each step: whether connections are accepted, and whether clients can find the bookie."""
    seen: list[tuple[str, bool, bool]] = []

    def note(name: str, store: MetadataStore) -> None:
        step = getattr(BookieServer, name)

        async def noted(self: BookieServer, *arguments: Any) -> Any:
            registered = bool((await store.bookies()).writable)
            seen.append((name, await accepts(getattr(self, "port", 0)), registered))
            return await step(self, *arguments)

        monkeypatch.setattr(BookieServer, name, noted)

    async def scenario() -> None:
        async with cluster("steps") as store:
            for name in ("_lock_directories", "_bind", "_prove_identity", "_open_storage", "_register"):
                note(name, store)
            server = server_on(tmp_path, store, port=free_ports(1)[0])
            await server.start()
            assert await accepts(server.port) and (await store.bookies()).writable
            await server.stop()

    asyncio.run(scenario())
    assert seen == [
        ("_lock_directories", False, False),
        ("_bind", False, False),
        ("_prove_identity", False, False),
        ("_open_storage", False, False),
        ("_register", True, False),
    ]


def test_two_bookies_that_choose_a_port_while_both_start_get_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second tries the same ports in the same order, while the first opens its storage."""
    open_storage = BookieServer._open_storage

    def make_server(name: str, store: MetadataStore) -> BookieServer:
        environment = SystemEnvironment()
        environment.rng.seed(7)
        return server_on(tmp_path / name, store, environment=environment)

    async def scenario() -> None:
        async with cluster("same-choice") as store:
            first, second = make_server("first", store), make_server("second", store)

            async def start_second(self: BookieServer) -> Any:
                if self is first:
                    await second.start()
                return await open_storage(self)

            monkeypatch.setattr(BookieServer, "_open_storage", start_second)
            await first.start()
            assert len({each.port for each in (await store.bookies()).writable}) == 2
            await second.stop()
            await first.stop()

    asyncio.run(scenario())


async def accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port or 1)
    except ConnectionRefusedError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


@pytest.mark.parametrize("factory", [loop_factory(), asyncio.new_event_loop])
def test_a_port_that_another_process_listens_on_before_the_bookie_does_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Both have bound it, as Linux allows while neither listens; the other one listens during the replay."""
    open_storage = BookieServer._open_storage
    other = socket.socket()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    async def outrun(self: BookieServer) -> Any:
        other.bind(("127.0.0.1", self.port))
        other.listen()
        return await open_storage(self)

    monkeypatch.setattr(BookieServer, "_open_storage", outrun)

    async def scenario() -> None:
        async with cluster(tmp_path.name) as store:
            server = server_on(tmp_path, store, port=free_ports(1)[0])
            with pytest.raises(PortTakenError, match="stop the process that uses the port"):
                await server.start()
            assert (await store.bookies()).writable == ()

    with other, asyncio.Runner(loop_factory=factory) as runner:
        runner.run(scenario())


def test_it_starts_again_in_the_same_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster("again") as store:
            ports = set()
            for turn in range(3):
                server = server_on(tmp_path, store)
                await server.start()
                ports.add(server.port)
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                await ask(reader, writer, add(1, turn))
                for earlier in range(turn + 1):
                    found = read_answer(await ask(reader, writer, read(1, earlier)))
                    assert found.entry == entry(1, earlier)
                writer.close()
                await server.stop()
            assert len(ports) == 1

    asyncio.run(scenario())


def test_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """No cluster in the store: no task, no lock, no listening socket; with a cluster the same place works."""

    async def scenario() -> None:
        store = await open_store("memory:missing")
        before = asyncio.all_tasks()
        with pytest.raises(ClusterMissingError, match="init-cluster"):
            await server_on(tmp_path, store).start()
        assert asyncio.all_tasks() == before
        await store.init_cluster()
        server = server_on(tmp_path, store)
        await server.start()
        await server.stop()
        assert asyncio.all_tasks() == before
        await store.close()

    asyncio.run(scenario())


def test_a_configured_id_is_taken_once(tmp_path: Path) -> None:
    """Two places, one id: the cookie in the store is the first one's."""

    async def scenario() -> None:
        async with cluster("twice") as store:
            first = server_on(tmp_path / "first", store, bookie_id="one")
            await first.start()
            with pytest.raises(CookieMismatchError, match="bookie one"):
                await server_on(tmp_path / "second", store, bookie_id="one").start()
            await first.stop()

    asyncio.run(scenario())


def test_a_bookie_whose_id_is_still_registered_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine runs under the id, on a copy of the disks; patience is cut short for the test."""
    monkeypatch.setattr("bookie_server.server.REGISTER_S", 0.0)

    async def scenario() -> None:
        async with cluster("alive") as store:
            other = await open_store(store.uri)
            taken = await other.register_bookie(
                BookieInfo(bookie_id=check_bookie_id("one"), host="127.0.0.1", port=1)
            )
            with pytest.raises(BookieAliveError, match="bookie one"):
                await server_on(tmp_path, store, bookie_id="one").start()
            await taken.close()
            server = server_on(tmp_path, store, bookie_id="one")
            await server.start()
            await server.stop()
            await other.close()

    asyncio.run(scenario())


def test_a_new_bookie_serves_at_no_address_at_which_another_one_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one was killed and its disk is lost; a refusal leaves nothing that hinders a start at another address."""
    monkeypatch.setattr("bookie_server.server.REGISTER_S", 0.0)
    port, other_port = free_ports(2)

    async def scenario() -> None:
        async with cluster("registered-there") as store:
            other = await open_store(store.uri)
            await other.register_bookie(BookieInfo(bookie_id=BookieId("lost"), host="127.0.0.1", port=port))
            with pytest.raises(AddressTakenError, match="bookie lost"):
                await server_on(tmp_path, store, port=port).start()
            assert not await accepts(port) and await store.list_cookies() == []
            server = server_on(tmp_path, store, port=other_port)
            await server.start()
            await server.stop()
            await other.close()

    asyncio.run(scenario())


def test_a_known_bookie_that_moves_serves_at_no_address_at_which_another_one_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bookie_server.server.REGISTER_S", 0.0)

    async def scenario() -> None:
        async with cluster("moves") as store:
            server = server_on(tmp_path, store, bookie_id="moved")
            await server.start()
            await server.stop()
            other = await open_store(store.uri)
            lost = BookieInfo(bookie_id=BookieId("lost"), host="127.0.0.1", port=server.port)
            registration = await other.register_bookie(lost)
            again = server_on(tmp_path, store, bookie_id="moved")
            with pytest.raises(AddressTakenError, match="bookie lost"):
                await again.start()
            assert not await accepts(server.port)
            await registration.close()
            again = server_on(tmp_path, store, bookie_id="moved")
            await again.start()
            await again.stop()
            await other.close()

    asyncio.run(scenario())


def test_a_new_bookie_serves_at_no_address_that_is_the_id_of_a_known_one(tmp_path: Path) -> None:
    """The old one is stopped and its disk is lost, the new one gets its port and another id."""

    async def scenario() -> None:
        async with cluster("known-there") as store:
            lost = server_on(tmp_path / "lost", store)
            await lost.start()
            await lost.stop()
            with pytest.raises(AddressTakenError, match=f"bookie decommission {lost.bookie_id}"):
                await server_on(tmp_path / "new", store, port=lost.port, bookie_id="new").start()
            assert await store.list_cookies() == [lost.bookie_id]
            server = server_on(tmp_path / "new", store, bookie_id="new")
            await server.start()
            await server.stop()

    asyncio.run(scenario())


class _WithoutMore(SystemDisk):
    """The disk of one ledger directory fails between the lock and the first measurement."""

    def free_space(self, directory: Path) -> tuple[int, int]:
        if directory.parent.name == "more":
            raise DiskFailedError(f"cannot measure {directory}", path=directory, missing=True)
        return super().free_space(directory)


def test_a_scrub_begins_with_the_bookie_if_a_ledger_directory_failed_before(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster("failed-directory") as store:
            server = server_on(
                tmp_path, store, ledger_dir=[str(tmp_path / name) for name in ("ledgers", "more")]
            )
            server._disk = _WithoutMore()
            await server.start()
            assert server.storage is not None and list(server.storage.failed_directories) == [
                tmp_path / "more"
            ]
            assert server.scrubber is not None
            async with asyncio.timeout(30.0):  # the first pass would begin after a minute
                while server.scrubber.record.last is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await server.stop()

    asyncio.run(scenario())
