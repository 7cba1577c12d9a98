"""The driver while ZooKeeper is killed, hangs, or ends our session; and while another process's session ends."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.serialization import SetData
from kazoo.protocol.states import KazooState

from ledger.environment import SystemEnvironment
from ledger.errors import (
    AlreadyExistsError,
    LogStoreError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
    RecordNotFoundError,
)
from ledger.metadata.drivers import open_store
from ledger.metadata.errors import LockLostError
from ledger.metadata.update_loop import update_ledger
from ledger.metadata.zookeeper.session import watches as watches_module
from ledger.metadata.zookeeper.session.kazoo_connection import call_within
from ledger.metadata.zookeeper.store import ZooKeeperStore
from ledger.model import BookieId, BookieSet, EntryId, LedgerId
from tests.helpers.metadata.client_process import child, line
from tests.helpers.metadata.drivers import B1, B2, bookie, eventually, eventually_async, new_metadata
from tests.helpers.processes.descriptors import without_descriptors
from tests.helpers.processes.zookeeper import ZooKeeperProcess

LONG_SESSION = "session_timeout_ms=60000&request_timeout_ms=60000"
"""Survives the restarts here, on a busy machine too."""


@asynccontextmanager
async def opened(
    server: ZooKeeperProcess, root: str, options: str = LONG_SESSION
) -> AsyncIterator[ZooKeeperStore]:
    store = await open_store(f"zk://{server.address}{root}?{options}")
    assert isinstance(store, ZooKeeperStore)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def cluster(
    server: ZooKeeperProcess, options: str = LONG_SESSION
) -> AsyncIterator[tuple[ZooKeeperStore, str]]:
    root = server.new_root()
    async with opened(server, root, options) as store:
        await store.init_cluster()
        yield store, root


@contextmanager
def impatient(store: ZooKeeperStore) -> Iterator[None]:
    """Calls give up after half a second. Only for those that a server cannot answer: on a busy machine others take
    longer, too.
    """
    session = store._session
    usual_s, session._request_timeout_s = session._request_timeout_s, 0.5
    try:
        yield
    finally:
        session._request_timeout_s = usual_s


async def restart(server: ZooKeeperProcess) -> None:
    server.kill()
    await asyncio.to_thread(server.start)


def expire(server: ZooKeeperProcess, store: ZooKeeperStore) -> None:
    """End the store's session as ZooKeeper does it: whoever knows its id and password may close it."""
    twin = KazooClient(server.address, client_id=store._session._bridge._client.client_id)
    twin.start()
    twin.stop()
    twin.close()


def wait_without_the_loop(condition: Callable[[], bool]) -> None:
    """For what kazoo's thread does while the loop's has no processor."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


async def test_a_killed_and_restarted_server_is_survived(fragile: ZooKeeperProcess) -> None:
    """The session goes on: values and registration are there, watches are told and stay set."""
    async with cluster(fragile) as (store, _):
        session_id = store._session.session_id
        await store.register_bookie(bookie(B1))
        await store.create_record("/a", b"zero")
        calls: list[str] = []
        store.watch_record("/a", lambda: calls.append("a"))
        store.watch_bookies(lambda: calls.append("bookies"))
        await store.read_record("/a")
        await restart(fragile)
        assert (await store.read_record("/a")).value == b"zero"
        await eventually(lambda: {"a", "bookies"} <= set(calls))
        assert store._session.session_id == session_id
        assert [info.bookie_id for info in (await store.bookies()).writable] == [B1]
        calls.clear()
        await store.write_record("/a", b"one", 0)
        await eventually(lambda: "a" in calls)


async def test_what_is_asked_while_the_server_is_down_waits_for_it(
    fragile: ZooKeeperProcess, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(fragile) as (store, _):
        fragile.kill()
        await eventually(lambda: not store._session.is_connected)
        writing = asyncio.ensure_future(store.create_record("/late", b"x"))
        await asyncio.sleep(0.1)
        assert not writing.done()
        await asyncio.to_thread(fragile.start)
        assert await writing == 0
        assert (await store.read_record("/late")).value == b"x"
        told = [message for message in caplog.messages if fragile.address in message]
        assert [message.endswith("is back") for message in told] == [False, True]


async def test_a_connection_is_used_without_new_descriptors(fragile: ZooKeeperProcess) -> None:
    async with cluster(fragile) as (store, _):
        await store.create_record("/a", b"zero")
        losses: list[bool] = []
        store._session.listeners.connected.append(losses.append)
        with without_descriptors():
            for _ in range(20):
                assert (await store.read_record("/a")).value == b"zero"
        assert losses == []


async def test_a_connection_lost_without_descriptors_comes_back_with_them(
    fragile: ZooKeeperProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """To find the address of a name takes one. Without, kazoo's thread ended, and nothing connected any more."""
    caplog.set_level(logging.WARNING, "ledger.metadata.zookeeper.kazoo")
    root = fragile.new_root()
    store = await open_store(f"zk://localhost:{fragile.port}{root}?{LONG_SESSION}")
    try:
        await store.init_cluster()
        with without_descriptors():
            fragile.kill()
            await eventually(lambda: "Too many open files" in caplog.text)
        await asyncio.to_thread(fragile.start)
        await store.instance_id()
    finally:
        await store.close()


async def test_opening_without_descriptors_is_said_in_one_sentence(fragile: ZooKeeperProcess) -> None:
    uri = f"zk://{fragile.address}/nowhere"
    with without_descriptors(), pytest.raises(MetadataUnavailableError) as caught:
        await open_store(uri)
    assert str(caught.value) == f"cannot connect to ZooKeeper at {fragile.address}: Too many open files"


async def test_what_is_given_up_while_the_server_is_down_is_not_kept(fragile: ZooKeeperProcess) -> None:
    """An outage may last for days, and callers try again all the time."""
    async with cluster(fragile) as (store, _):
        await store.create_record("/a", b"zero")
        fragile.kill()
        await eventually(lambda: not store._session.is_connected)
        with impatient(store):
            reads = [asyncio.ensure_future(store.read_record("/a", fresh=False)) for _ in range(100)]
            await asyncio.sleep(0)
            assert len(store._session._waiting) == len(reads)
            for cancelled in reads[:50]:
                cancelled.cancel()
            await asyncio.gather(*reads, return_exceptions=True)
            await eventually(lambda: not store._session._waiting)
        await asyncio.to_thread(fragile.start)
        assert (await store.read_record("/a")).value == b"zero"


async def test_a_change_that_found_no_server_was_certainly_not_made(fragile: ZooKeeperProcess) -> None:
    """It is given up before it is sent, and not sent later either."""
    async with cluster(fragile) as (store, _):
        await store.create_record("/seen", b"")
        fragile.kill()
        await eventually(lambda: not store._session.is_connected)
        with impatient(store):
            with pytest.raises(MetadataUnavailableError, match="could not be reached within"):
                await store.create_record("/never", b"x")
            with pytest.raises(MetadataUnavailableError):
                await store.bookies()
        await asyncio.to_thread(fragile.start)
        await eventually(lambda: store._session.is_connected)
        with pytest.raises(RecordNotFoundError):
            await store.read_record("/never")


async def test_an_unanswered_change_is_unknown_and_settled_by_reading(fragile: ZooKeeperProcess) -> None:
    """The server hangs with the write in its socket; once it goes on the write is applied, once."""
    async with cluster(fragile) as (store, _):
        await store.create_record("/a", b"")
        await store.write_record("/a", b"zero", 0)
        fragile.pause()
        try:
            with impatient(store):
                with pytest.raises(MetadataOutcomeUnknownError):
                    await store.write_record("/a", b"one", 1)
                with pytest.raises(MetadataUnavailableError):
                    await store.read_record("/a")
        finally:
            fragile.resume()
        await eventually_async(lambda: has_value(store, b"one"))
        assert (await store.read_record("/a")).version == 2


async def test_a_ledger_whose_create_is_unanswered_when_its_handle_is_closed_is_unknown(
    fragile: ZooKeeperProcess,
) -> None:
    """The node that counted its id could not be removed any more, and that error said that nothing was created."""
    async with cluster(fragile) as (store, root), opened(fragile, root) as other:
        await store.create_new_ledger(new_metadata())  # its directory is there from here on
        create, closing = store._session.create, []

        def create_and_close(path: str, value: bytes = b"", **options: Any) -> asyncio.Future[str]:
            if value:  # the ledger's node, and not that of its id
                closing.append(asyncio.ensure_future(store.close()))
            return create(path, value, **options)

        async def has_both() -> bool:
            return [ledger_id async for ledger_id in other.ledger_ids()] == [0, 1]

        store._session.create = create_and_close  # type: ignore[method-assign]
        with pytest.raises(MetadataOutcomeUnknownError):
            await store.create_new_ledger(new_metadata())
        await asyncio.gather(*closing)
        await eventually_async(has_both)


async def test_the_update_loop_settles_what_a_killed_server_left_open(fragile: ZooKeeperProcess) -> None:
    """kill -9 in the middle of updates: each ledger ends closed exactly once, at version 1."""
    async with cluster(fragile) as (store, _):
        ids = [LedgerId(number) for number in range(60)]
        for ledger_id in ids:
            await store.create_ledger(ledger_id, new_metadata())
        found = {ledger_id: await store.read_ledger(ledger_id) for ledger_id in ids}

        async def close(ledger_id: LedgerId) -> int:
            result = await update_ledger(
                store,
                ledger_id,
                found[ledger_id],
                lambda metadata: not metadata.closed,
                lambda metadata: metadata.closed_at(EntryId(9), 90),
                SystemEnvironment(),
            )
            return result.version

        closing = asyncio.gather(*map(close, ids))
        await asyncio.sleep(0)
        await restart(fragile)
        assert set(await closing) == {1}
        assert {(await store.read_ledger(ledger_id)).version for ledger_id in ids} == {1}


async def test_a_pause_between_a_request_and_its_callback_leaves_the_session_usable(
    fragile: ZooKeeperProcess,
) -> None:
    """kazoo has connected again by the time that the loop's thread asks for the answer of the request that failed."""
    async with cluster(fragile) as (store, _):
        session = store._session

        def request(client: Any) -> Any:
            fragile.pause()
            answer = client.exists_async("/")
            client._connection._socket.shutdown(socket.SHUT_RDWR)
            fragile.resume()
            wait_without_the_loop(lambda: answer.ready() and client.connected)
            return answer

        with pytest.raises(MetadataUnavailableError, match="broke off"):
            await session._ask(request, change=False)
        async with asyncio.timeout(30):
            assert await session.exists("/") is not None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_fault_in_kazoos_thread_is_reported_to_all_that_ask(fragile: ZooKeeperProcess) -> None:
    async with cluster(fragile) as (store, _):
        session = store._session
        thread = session._bridge._client._connection._connection_routine
        not_encodable = SetData("/", b"", 2**63)
        with pytest.raises(LogStoreError):
            await session._ask(lambda client: call_within(client, not_encodable, None), change=False)
        await eventually(lambda: not thread.is_alive())  # pytest takes what ended it for this test's
        with pytest.raises(MetadataUnavailableError, match="has died: open the store again"):
            await store.read_record("/a")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_fault_in_kazoos_thread_after_the_session_expired_is_reported_too(
    fragile: ZooKeeperProcess,
) -> None:
    """kazoo reports no state twice, and the loss of a session is the state that its end has, too."""
    async with cluster(fragile) as (store, _):
        client = store._session._bridge._client
        thread = client._connection._connection_routine

        def break_it(state: str) -> None:
            if state == KazooState.LOST:
                client.hosts = None

        client.add_listener(break_it)
        await asyncio.to_thread(expire, fragile, store)
        await eventually(lambda: not thread.is_alive())
        with (
            impatient(store),
            pytest.raises(MetadataUnavailableError, match="has died: open the store again"),
        ):
            await store.read_record("/a")


async def test_an_expired_session_is_begun_anew(fragile: ZooKeeperProcess) -> None:
    """The bookie registers again in the list it was in, and watches are told and stay set."""
    async with cluster(fragile) as (store, root), opened(fragile, root) as other:
        registration = await store.register_bookie(bookie(B1))
        await registration.set_read_only(True)
        await store.register_bookie(bookie(B2))
        await store.create_record("/a", b"zero")
        calls: list[str] = []
        store.watch_record("/a", lambda: calls.append("a"))
        await store.read_record("/a")
        before = store._session.session_id
        await asyncio.to_thread(expire, fragile, store)
        await eventually(lambda: store._session.session_id != before)
        await eventually_async(lambda: lists(other, writable=[B2], read_only=[B1]))
        await eventually(lambda: "a" in calls)
        await store.read_record("/a")
        calls.clear()
        await other.write_record("/a", b"one", 0)
        await eventually(lambda: "a" in calls)
        # The registration of the new session is a registration like the first one.
        with pytest.raises(AlreadyExistsError):
            async with opened(fragile, root, "session_timeout_ms=500") as third:
                await third.register_bookie(bookie(B1))
        await registration.close()
        assert await lists(other, writable=[B2], read_only=[])


async def test_a_bookie_whose_first_session_ends_while_it_registers_registers_again_later(
    fragile: ZooKeeperProcess,
) -> None:
    """It was taken for one of another cluster, which ended its renewal, and the error reached no caller."""
    async with cluster(fragile) as (store, root), opened(fragile, root) as other:
        session = store._session
        client, first = session._bridge._client, session.session_id

        def newest(limit: int) -> int:
            if session.session_id == first:
                expire(fragile, store)
                wait_without_the_loop(lambda: client._session_id not in (None, first) and client.connected)
            return min(limit, 5)  # a ledger that is not there: the ids up to it are drawn first

        await store.register_bookie(bookie(B1), newest_ledger=newest)
        second = session.session_id
        assert second != first
        await eventually_async(lambda: lists(other, writable=[B1], read_only=[]))
        await asyncio.to_thread(expire, fragile, store)
        await eventually(lambda: session.session_id != second)
        await eventually_async(lambda: lists(other, writable=[B1], read_only=[]))


async def test_a_withdrawn_bookie_does_not_come_back_with_a_new_session(fragile: ZooKeeperProcess) -> None:
    async with cluster(fragile) as (store, root), opened(fragile, root) as other:
        registration = await store.register_bookie(bookie(B1))
        await store.register_bookie(bookie(B2))
        await registration.close()
        before = store._session.session_id
        await asyncio.to_thread(expire, fragile, store)
        await eventually(lambda: store._session.session_id != before)
        await eventually_async(lambda: lists(other, writable=[B2], read_only=[]))


@pytest.mark.parametrize("change", ["delete", "set"])
async def test_a_bookie_leaves_its_successors_node_alone(fragile: ZooKeeperProcess, change: str) -> None:
    """Its session ends after it has read that the node is its own, and before its change of the node is sent."""
    short = "session_timeout_ms=1000"
    async with cluster(fragile, short) as (store, root), opened(fragile, root) as other:
        registration = await store.register_bookie(bookie(B1))
        before, send = store._session.session_id, getattr(store._session, change)

        async def send_late(*given: Any, **options: Any) -> Any:
            if store._session.session_id == before:
                await asyncio.to_thread(expire, fragile, store)
                await eventually(lambda: store._session.session_id != before)
                await other.register_bookie(bookie(B1, port=7))
            return await send(*given, **options)

        setattr(store._session, change, send_late)
        if change == "delete":
            await registration.close()
        else:
            with pytest.raises(AlreadyExistsError):
                await registration.set_read_only(False)
        assert [info.port for info in (await other.bookies()).writable] == [7]


async def test_a_change_is_not_sent_in_another_session_of_which_the_loop_does_not_know(
    fragile: ZooKeeperProcess,
) -> None:
    """kazoo has lost its session and begun another one, while the loop was busy."""
    async with cluster(fragile, "session_timeout_ms=1000") as (store, _), opened(fragile, "/x") as other:
        session, client = store._session, store._session._bridge._client
        mine, path = session.session_id, f"{store._paths.root}/node"
        # From here on nothing reaches the loop.
        expire(fragile, store)
        wait_without_the_loop(lambda: client._session_id not in (None, mine) and client.connected)
        raw = other._session._bridge._client
        raw.create(path, b"of another process", ephemeral=True)
        changes = session.delete(path, within=mine), session.set(path, b"ours", within=mine)
        assert session.session_id == mine
        # Until here.
        for change in changes:
            with pytest.raises(MetadataUnavailableError, match="ended the session that this belonged to"):
                await change
        assert raw.get(path)[0] == b"of another process"
        assert await session.exists(path) is not None


async def test_a_lock_ends_with_its_session_and_clears_nothing_afterwards(fragile: ZooKeeperProcess) -> None:
    """Another worker may have it by then, and the ledger may have been marked again at the same version."""
    ledger_id = LedgerId(7)
    async with cluster(fragile) as (store, root), opened(fragile, root) as other:
        await store.repair.mark(ledger_id, [B1], 5)
        version = (await store.repair.read_mark(ledger_id)).version
        lock = await store.repair.lock(ledger_id, "first")
        candidacy = await store.repair.stand("first:1")
        rival = await other.repair.stand("second:2")
        assert lock is not None and await candidacy.is_elected() and not await rival.is_elected()
        before = store._session.session_id
        await asyncio.to_thread(expire, fragile, store)
        await eventually(lambda: store._session.session_id != before)
        taken = await other.repair.lock(ledger_id, "second")
        assert taken is not None and not await lock.is_held()
        with pytest.raises(LockLostError):
            await lock.clear_mark(version)
        late = store._session.delete(store._paths.under_replicated(ledger_id), version, within=before)
        with pytest.raises(MetadataUnavailableError, match="ended the session that this belonged to"):
            await late
        await lock.release()
        assert await taken.is_held()
        assert (await other.repair.read_mark(ledger_id)).version == version
        # It stands again by itself, behind the other.
        assert await rival.is_elected() and not await candidacy.is_elected()
        await rival.close()
        assert await candidacy.is_elected()


async def test_a_lock_that_is_taken_in_a_session_of_which_the_loop_does_not_know_is_held(
    fragile: ZooKeeperProcess,
) -> None:
    """It was taken for one of another worker, and kept from all of them until this process looked again."""
    async with cluster(fragile) as (store, root), opened(fragile, root) as other:
        await store.repair.mark(LedgerId(7), [B1], 5)
        client, mine = store._session._bridge._client, store._session.session_id
        create = store._session.create

        def create_late(path: str, value: bytes = b"", **options: Any) -> asyncio.Future[str]:
            if "/locks/" in path and store._session.session_id == mine:
                expire(fragile, store)
                wait_without_the_loop(lambda: client._session_id not in (None, mine) and client.connected)
            return create(path, value, **options)

        store._session.create = create_late  # type: ignore[method-assign]
        lock = await store.repair.lock(LedgerId(7), "first")
        assert store._session.session_id != mine
        assert lock is not None and await lock.is_held()
        assert await other.repair.lock(LedgerId(7), "second") is None
        await lock.release()
        assert await other.repair.lock(LedgerId(7), "second") is not None


async def test_a_killed_bookies_place_is_free_when_its_session_ends(fragile: ZooKeeperProcess) -> None:
    """Who registers under the id meanwhile waits for that and gets it; a watch tells the others."""
    options = "session_timeout_ms=2000"
    async with cluster(fragile, options) as (store, root), opened(fragile, root, options) as other:
        with child("register", store.uri) as process:
            assert await asyncio.to_thread(line, process) == "registered"
            told = asyncio.Event()
            other.watch_bookies(told.set)
            assert await lists(other, writable=[B1], read_only=[])
        assert await lists(other, writable=[B1], read_only=[])
        await store.register_bookie(bookie(B1))
        await asyncio.wait_for(told.wait(), 10)
        assert await lists(other, writable=[B1], read_only=[])
        assert (
            store._session.session_id
            == store._session._bridge._client.exists(f"{root}/available/{B1}").ephemeralOwner
        )


async def test_a_killed_bookie_started_again_waits_for_the_servers_tick(tmp_path: Path) -> None:
    """A server with the usual tick ends a session up to a tick after its timeout."""
    server = ZooKeeperProcess(tmp_path, tick_ms=2000)
    server.start()

    async def restart_bookie(root: str, number: int) -> None:
        info = bookie(BookieId(f"b{number}:3181"))
        await asyncio.sleep(number * 0.5)  # at four moments of a tick
        async with opened(server, root, options) as store:
            with child("register", store.uri, info.bookie_id) as process:
                assert await asyncio.to_thread(line, process) == "registered"
            await store.register_bookie(info)

    options = "session_timeout_ms=4000"
    try:
        async with cluster(server, options) as (_, root):
            await asyncio.gather(*(restart_bookie(root, number) for number in range(4)))
    finally:
        server.kill()


async def test_closing_does_not_wait_for_a_dead_server(fragile: ZooKeeperProcess) -> None:
    async with cluster(fragile) as (store, _):
        waiting = asyncio.ensure_future(store.read_record("/a"))
        await asyncio.sleep(0)
        fragile.kill()
        try:
            async with asyncio.timeout(30):
                await store.close()
            with pytest.raises((MetadataUnavailableError, RecordNotFoundError)):
                await waiting
            assert await store_is_closed(store)
        finally:
            await asyncio.to_thread(fragile.start)


async def test_a_forked_childs_use_is_refused(fragile: ZooKeeperProcess) -> None:
    async with cluster(fragile) as (store, _):
        with child("fork_and_use", store.uri) as process:
            answers = [await asyncio.to_thread(line, process) for _ in range(2)]
        assert all(each.startswith("ConfigurationError") and "forked" in each for each in answers), answers


async def test_no_server_at_the_address_is_said_in_one_sentence() -> None:
    with pytest.raises(
        MetadataUnavailableError, match=r"no ZooKeeper answered at 127\.0\.0\.1:1 within 0\.3 s"
    ):
        await open_store("zk://127.0.0.1:1/ledgers?request_timeout_ms=300")


async def test_an_opening_that_is_cancelled_leaves_no_thread() -> None:
    """It would try to connect until the process ends."""
    before = set(threading.enumerate())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await open_store("zk://127.0.0.1:1/ledgers")
    await eventually(lambda: set(threading.enumerate()) <= before)


async def has_value(store: ZooKeeperStore, value: bytes) -> bool:
    try:
        return (await store.read_record("/a")).value == value
    except MetadataUnavailableError:
        return False


async def lists(store: ZooKeeperStore, *, writable: list[str], read_only: list[str]) -> bool:
    found: BookieSet = await store.bookies()
    return [info.bookie_id for info in found.writable] == writable and [
        info.bookie_id for info in found.read_only
    ] == read_only


async def store_is_closed(store: ZooKeeperStore) -> bool:
    with pytest.raises(MetadataUnavailableError, match="closed"):
        await store.bookies()
    return True


async def test_the_server_forgets_watches_that_nothing_needs(
    fragile: ZooKeeperProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that follows a log passes one ledger after the other, and closed ones do not change again."""
    monkeypatch.setattr(watches_module, "UNWATCHED_MAX", 3)
    keys = [f"/{number}" for number in range(20)]
    async with cluster(fragile) as (store, root), opened(fragile, root) as other:
        for key in keys:
            await store.create_record(key, b"one")
            store.watch_record(key, lambda: None)()
        heard: list[str] = []
        store._session.listeners.node_event.append(lambda event: heard.append(event.path))
        seen = asyncio.Event()
        store.watch_record(keys[0], seen.set)  # the server has forgotten that it watched this one before
        await store.read_record(keys[0])
        for key in keys:
            await other.write_record(key, b"two", 0)
        await asyncio.wait_for(seen.wait(), 30)
        await store.read_record(keys[-1])  # after the events of all changes
        assert sorted(heard) == sorted(f"{root}-records{key}" for key in (keys[0], *keys[-3:]))
        assert len(store._session._bridge._client._data_watchers) < 8
