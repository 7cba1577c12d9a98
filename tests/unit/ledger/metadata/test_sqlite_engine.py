"""The engine by itself: which failure means what, group commit, waiting for locks."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ledger.environment import SystemEnvironment
from ledger.errors import (
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
    MetadataVersionError,
    RecordNotFoundError,
)
from ledger.metadata.drivers import open_store
from ledger.metadata.errors import MetadataStoreDamagedError
from ledger.metadata.sqlite import engine as sqlite_engine
from ledger.metadata.sqlite import file
from ledger.metadata.sqlite.engine import Kind, SqliteEngine, Work
from ledger.metadata.sqlite.thread import Request, SqliteThread
from ledger.metadata.sqlite.watches import Watcher
from ledger.metadata.transactions import records
from ledger.model import BookieId, BookieInfo, LedgerId

create = partial(records.create, prefix="records", key="/a", value=b"")
read = partial(records.read, prefix="records", key="/a")


def write(value: bytes, version: int) -> Callable[[Any], int]:
    return lambda tx: records.write(tx, "records", "/a", value, version)


class FailingConnection(sqlite3.Connection):
    """Fails the next COMMIT, before or after the real one, or each read of the keys below `unreadable`."""

    fail: str | None = None
    unreadable: str | None = None
    code = sqlite3.SQLITE_IOERR

    def execute(self, statement: str, *rest: Any) -> sqlite3.Cursor:
        if self.unreadable is not None and rest and rest[0][0] == self.unreadable:
            raise self._error()
        if statement != "COMMIT" or self.fail is None:
            return super().execute(statement, *rest)
        if self.fail == "after":
            super().execute(statement)
        FailingConnection.fail = None
        raise self._error()

    def _error(self) -> sqlite3.OperationalError:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = self.code
        return error


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteEngine]:
    real = sqlite3.connect
    monkeypatch.setattr(file.sqlite3, "connect", partial(real, factory=FailingConnection))
    made = SqliteEngine(str(tmp_path / "meta.db"))
    one(made, Kind.CREATE, create)
    yield made
    made.close()


def one(engine: SqliteEngine, kind: Kind, job: Callable[[Any], Any]) -> Any:
    work = Work(kind, job)
    engine.run([work])
    if work.error is not None:
        raise work.error
    return work.result


@pytest.mark.parametrize(("when", "version"), [("before", 0), ("after", 1)])
def test_an_io_error_of_commit_leaves_the_outcome_unknown(
    engine: SqliteEngine, when: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading afterwards tells, and the store works on."""
    one(engine, Kind.READ, read)
    monkeypatch.setattr(FailingConnection, "fail", when)
    with pytest.raises(MetadataOutcomeUnknownError):
        one(engine, Kind.WRITE, write(b"new", 0))
    assert one(engine, Kind.READ, read).version == version
    assert one(engine, Kind.WRITE, write(b"next", version)) == version + 1


def test_a_failed_commit_fails_everybody_in_it(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the one whose compare-and-set was refused because of a change that did not last."""
    one(engine, Kind.READ, read)
    monkeypatch.setattr(FailingConnection, "fail", "before")
    works = [Work(Kind.WRITE, write(b"x", 0)), Work(Kind.WRITE, write(b"y", 0))]
    engine.run(works)
    assert [type(work.error) for work in works] == [MetadataOutcomeUnknownError] * 2


def test_a_full_disk_means_not_done(engine: SqliteEngine) -> None:
    one(engine, Kind.READ, read)
    assert engine._connection is not None
    engine._connection.execute("PRAGMA max_page_count=5")
    with pytest.raises(MetadataUnavailableError, match="full"):
        one(engine, Kind.WRITE, write(bytes(100_000), 0))
    assert one(engine, Kind.READ, read).version == 0
    assert one(engine, Kind.WRITE, write(b"small", 0)) == 1


def test_a_disk_that_is_full_at_commit_means_not_done(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written before, so this is where a real disk is full (tests/integration/ledger/test_full_disk.py)."""
    one(engine, Kind.READ, read)
    monkeypatch.setattr(FailingConnection, "fail", "before")
    monkeypatch.setattr(FailingConnection, "code", sqlite3.SQLITE_FULL)
    with pytest.raises(MetadataUnavailableError, match="full"):
        one(engine, Kind.WRITE, write(b"new", 0))
    assert one(engine, Kind.READ, read).version == 0
    assert one(engine, Kind.WRITE, write(b"newer", 0)) == 1


def test_a_lock_held_by_others_is_waited_for_and_then_named(
    engine: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_engine, "BUSY_WAIT_S", 0.02)
    other = sqlite3.connect(tmp_path / "meta.db", isolation_level=None)
    for lock, kinds in (("IMMEDIATE", [Kind.WRITE]), ("EXCLUSIVE", [Kind.READ, Kind.WRITE])):
        other.execute(f"BEGIN {lock}")
        for kind in kinds:
            with pytest.raises(MetadataUnavailableError, match="locked by another process"):
                one(engine, kind, read)
        other.execute("ROLLBACK")
    assert one(engine, Kind.WRITE, write(b"", 0)) == 1
    other.close()


def test_what_is_requested_together_waits_once_for_a_lock_that_is_not_released(
    engine: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads, writes and watches take turns, up to 64 of them at a time."""
    monkeypatch.setattr(sqlite_engine, "BUSY_WAIT_S", 0.5)
    one(engine, Kind.READ, read)
    other = sqlite3.connect(tmp_path / "meta.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    loop = asyncio.new_event_loop()
    watch = partial(SqliteEngine.add_watch, watcher=Watcher(loop, lambda: None, "records/a"))
    loop.close()
    kinds = [(Kind.CALL, watch), (Kind.READ, read), (Kind.WRITE, write(b"", 0)), (Kind.CALL, watch)]
    works = [Work(kind, job) for _ in range(5) for kind, job in kinds]
    begun_s = time.monotonic()
    engine.run(works)
    assert time.monotonic() - begun_s < 2.0
    assert sum(isinstance(work.error, MetadataUnavailableError) for work in works) == 10
    other.execute("ROLLBACK")
    other.close()
    assert one(engine, Kind.WRITE, write(b"", 0)) == 1


def test_a_reader_in_the_way_of_the_commit_means_not_done(
    engine: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_engine, "BUSY_WAIT_S", 0.02)
    other = sqlite3.connect(tmp_path / "meta.db", isolation_level=None)
    other.execute("BEGIN")
    other.execute("SELECT * FROM nodes").fetchone()
    with pytest.raises(MetadataUnavailableError):
        one(engine, Kind.WRITE, write(b"", 0))
    other.close()
    assert one(engine, Kind.READ, read).version == 0


def test_writes_that_wait_together_share_a_commit(engine: SqliteEngine) -> None:
    """In order, each seeing those before it; a refused one changes nothing and disturbs nobody."""
    one(engine, Kind.READ, read)
    assert engine._connection is not None
    statements: list[str] = []
    engine._connection.set_trace_callback(statements.append)
    works = [Work(Kind.WRITE, write(b"%d" % version, version)) for version in (0, 1, 1, 2)]
    works.insert(2, Work(Kind.READ, read))
    engine.run([*works[:2], *works[3:], works[2]])
    assert statements.count("COMMIT") == 1
    assert [work.result for work in works if work.kind is Kind.WRITE] == [1, 2, None, 3]
    assert isinstance(works[3].error, MetadataVersionError)
    assert works[2].result.version == 3


def test_a_watch_whose_own_commit_failed_still_sees_the_same_change_by_others(
    engine: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our version 1 was never stored; when another process stores its own version 1, the watch fires."""
    loop = asyncio.new_event_loop()
    watcher = Watcher(loop, lambda: None, "records/a")
    loop.close()
    engine.add_watch(watcher)
    monkeypatch.setattr(FailingConnection, "fail", "before")
    with pytest.raises(MetadataOutcomeUnknownError):
        one(engine, Kind.WRITE, write(b"ours", 0))
    other = SqliteEngine(str(tmp_path / "meta.db"))
    one(other, Kind.READ, read)
    assert watcher in engine.poll()  # it has not seen anything certain: it may fire
    assert one(other, Kind.WRITE, write(b"theirs", 0)) == 1
    assert watcher in engine.poll()
    assert engine.poll() == []
    other.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_a_job_ends_the_thread_and_no_caller_hangs(tmp_path: Path) -> None:
    async def run() -> None:
        thread = SqliteThread(str(tmp_path / "meta.db"))
        await thread.ask(Kind.CREATE, create)
        results = await asyncio.gather(
            thread.ask(Kind.READ, lambda tx: 1 / 0), thread.ask(Kind.READ, read), return_exceptions=True
        )
        assert all(isinstance(result, MetadataUnavailableError) for result in results)
        with pytest.raises(MetadataUnavailableError, match="ZeroDivisionError"):
            await thread.ask(Kind.READ, read)
        thread._thread.join()
        assert thread._engine._connection is None, "its file and locks are let go"

    asyncio.run(run())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_change_that_is_made_before_a_bug_ends_the_thread_is_not_denied(tmp_path: Path) -> None:
    async def run() -> None:
        thread = SqliteThread(str(tmp_path / "meta.db"))
        await thread.ask(Kind.CREATE, create)
        busy, are_there = threading.Event(), threading.Event()

        def wait(_: Any) -> None:
            busy.set()
            are_there.wait(30)

        waiting = asyncio.ensure_future(thread.ask(Kind.READ, wait))
        await asyncio.to_thread(busy.wait, 30)
        together = [
            asyncio.ensure_future(thread.ask(kind, job))
            for kind, job in ((Kind.WRITE, write(b"", 0)), (Kind.READ, lambda tx: 1 / 0))
        ]
        await asyncio.sleep(0)  # both are asked
        are_there.set()
        await waiting
        changed, failed = await asyncio.gather(*together, return_exceptions=True)
        assert isinstance(changed, MetadataOutcomeUnknownError)
        assert isinstance(failed, MetadataUnavailableError)
        thread._thread.join()
        again = SqliteThread(str(tmp_path / "meta.db"))
        assert (await again.ask(Kind.READ, read)).version == 1
        await again.stop()

    asyncio.run(run())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_request_that_comes_while_the_thread_ends_by_a_bug_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread has answered all that it knew of; one more was let in and waited forever."""

    async def run() -> None:
        thread = SqliteThread(str(tmp_path / "meta.db"))
        await thread.ask(Kind.CREATE, create)
        check = thread._check_usable

        def check_and_let_it_end() -> None:
            check()
            thread._queue.put(Request(Kind.READ, lambda tx: 1 / 0))
            thread._thread.join()

        monkeypatch.setattr(thread, "_check_usable", check_and_let_it_end)
        with pytest.raises(MetadataUnavailableError, match="ZeroDivisionError"):
            await asyncio.wait_for(thread.ask(Kind.READ, read), 30.0)

    asyncio.run(run())


def test_work_cancelled_before_its_turn_is_not_done(tmp_path: Path) -> None:
    async def run() -> None:
        thread = SqliteThread(str(tmp_path / "meta.db"))
        await thread.ask(Kind.CREATE, create)
        slow = [asyncio.ensure_future(thread.ask(Kind.WRITE, write(b"", version))) for version in range(200)]
        task = asyncio.ensure_future(thread.ask(Kind.WRITE, write(b"", 200)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(*slow)
        assert (await thread.ask(Kind.READ, read)).version in (200, 201)
        await thread.stop()

    asyncio.run(run())


def test_a_stop_that_is_cancelled_before_its_turn_stops_the_thread(tmp_path: Path) -> None:
    async def run() -> None:
        thread = SqliteThread(str(tmp_path / "meta.db"))
        await thread.ask(Kind.CREATE, create)
        stop = asyncio.ensure_future(thread.stop())
        await asyncio.sleep(0)
        stop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stop
        thread._thread.join(10.0)
        assert not thread._thread.is_alive()

    asyncio.run(run())


def test_of_thousands_of_watches_those_fire_whose_key_was_changed_made_or_removed(
    engine: SqliteEngine, tmp_path: Path
) -> None:
    """More keys than one statement takes, two watches on one of them, and one that watches no longer."""

    def make(tx: Any) -> None:
        for number in range(0, 1_200, 2):
            records.create(tx, "records", f"/{number}", b"")

    one(engine, Kind.WRITE, make)
    loop = asyncio.new_event_loop()
    watchers = [Watcher(loop, lambda: None, f"records/{number}") for number in range(1_200)]
    again, ended = Watcher(loop, lambda: None, "records/4"), Watcher(loop, lambda: None, "records/6")
    loop.close()
    for watcher in (*watchers, again, ended):
        engine.add_watch(watcher)
    engine.poll()  # what the first look of a connection finds
    engine.watches.remove(ended)
    engine.watches.remove(ended)

    def change(tx: Any) -> None:
        records.write(tx, "records", "/4", b"changed", 0)
        records.write(tx, "records", "/6", b"changed", 0)
        records.create(tx, "records", "/1199", b"made")
        records.remove(tx, "records", "/998", 0)

    other = SqliteEngine(str(tmp_path / "meta.db"))
    one(other, Kind.WRITE, change)
    other.close()
    assert set(engine.poll()) == {watchers[4], again, watchers[6], watchers[1199], watchers[998]}
    assert engine.poll() == []


def test_an_urgent_watch_that_met_a_lock_counts_once(engine: SqliteEngine, tmp_path: Path) -> None:
    """Else the file is looked at 200 times a second for as long as the process lives."""
    loop = asyncio.new_event_loop()
    engine.add_watch(Watcher(loop, lambda: None, "/a"))
    idle = engine.watches.interval_s
    lock = sqlite3.connect(tmp_path / "meta.db", isolation_level=None, check_same_thread=False)
    lock.execute("BEGIN EXCLUSIVE")
    release = threading.Timer(0.05, lock.execute, ("ROLLBACK",))
    release.start()
    urgent = Watcher(loop, lambda: None, "/b", urgent=True)
    engine.add_watch(urgent)
    release.join()
    lock.close()
    loop.close()
    assert engine.watches.interval_s != idle
    engine.watches.remove(urgent)
    assert engine.watches.interval_s == idle


def test_a_call_that_meets_a_lock_does_not_keep_those_behind_it_from_being_made(
    engine: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that was not set would never fire, and a thread that was not stopped would stay."""
    monkeypatch.setattr(sqlite_engine, "BUSY_WAIT_S", 0.02)
    engine.close()
    other = sqlite3.connect(tmp_path / "meta.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    loop = asyncio.new_event_loop()
    watcher = Watcher(loop, lambda: None, "records/a")
    loop.close()
    works = [
        Work(Kind.CALL, SqliteEngine.open_if_present),
        Work(Kind.CALL, partial(SqliteEngine.begin_session, names=["1-00000000000000aa"])),
        Work(Kind.CALL, partial(SqliteEngine.add_watch, watcher=watcher)),
    ]
    engine.run(works)
    assert [type(work.error) for work in works] == [MetadataUnavailableError] * 2 + [type(None)]
    other.execute("ROLLBACK")
    other.close()
    assert watcher in engine.poll()


@pytest.mark.parametrize("is_range", [False, True], ids=["key", "range"])
def test_a_watch_that_was_set_while_the_file_was_locked_fires_once_it_can_be_read(
    engine: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_range: bool
) -> None:
    """Nothing is known of what was there when it was set: that nothing is there now may be news. A process that is
    killed commits nothing, so no commit may be waited for."""
    monkeypatch.setattr(sqlite_engine, "BUSY_WAIT_S", 0.02)
    one(engine, Kind.READ, read)
    engine.poll()
    holder = sqlite3.connect(tmp_path / "meta.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    loop = asyncio.new_event_loop()
    watcher = Watcher(loop, lambda: None, "nothing/", is_range=is_range)
    loop.close()
    engine.add_watch(watcher)
    holder.execute("ROLLBACK")
    holder.close()
    assert watcher in engine.poll()
    assert engine.poll() == []


@pytest.mark.parametrize("is_range", [False, True], ids=["key", "range"])
def test_a_watch_that_was_set_while_the_file_was_locked_sees_a_removal(
    engine: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_range: bool
) -> None:
    monkeypatch.setattr(sqlite_engine, "BUSY_WAIT_S", 0.02)
    one(engine, Kind.READ, read)
    other = SqliteEngine(str(tmp_path / "meta.db"))
    holder = sqlite3.connect(tmp_path / "meta.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    loop = asyncio.new_event_loop()
    watcher = Watcher(loop, lambda: None, "records/" if is_range else "records/a", is_range=is_range)
    loop.close()
    engine.add_watch(watcher)
    holder.execute("ROLLBACK")
    holder.close()
    assert one(engine, Kind.READ, read).version == 0
    one(other, Kind.WRITE, partial(records.remove, prefix="records", key="/a", version=0))
    assert watcher in engine.poll()
    assert engine.poll() == []
    other.close()


def watching(engine: SqliteEngine, *keys: str) -> list[Watcher]:
    """Watches that have seen what is there; one whose key ends with a slash is of all below it."""
    loop = asyncio.new_event_loop()
    watchers = [Watcher(loop, lambda: None, key, is_range=key.endswith("/")) for key in keys]
    loop.close()
    for watcher in watchers:
        engine.add_watch(watcher)
    engine.poll()
    return watchers


def test_a_damaged_value_does_not_silence_the_watches_on_others(engine: SqliteEngine, tmp_path: Path) -> None:
    """One bookie's registration that was edited by hand, for example: what is below it cannot be read, all else can."""
    one(engine, Kind.READ, read)
    *watchers, damaged_key = watching(engine, "records/a", "bookies/", "repair/votes/", "records/damaged")
    other = sqlite3.connect(tmp_path / "meta.db", isolation_level=None)
    other.execute("BEGIN")
    other.execute("INSERT INTO nodes VALUES ('bookies/writable/b', 0, 'text', NULL)")
    other.execute("INSERT INTO nodes VALUES ('repair/votes/1', 0, x'00', NULL)")
    other.execute("UPDATE nodes SET version = 1 WHERE key = 'records/a'")
    other.execute("COMMIT")
    assert engine.poll() == watchers
    assert engine.poll() == []
    assert one(engine, Kind.WRITE, lambda tx: tx.create("bookies/writable/c", b"")), (
        "a watch refuses no change"
    )
    other.execute("DELETE FROM nodes WHERE key = 'bookies/writable/b'")
    other.close()
    assert engine.poll() == [watchers[1]]
    other = sqlite3.connect(tmp_path / "meta.db", isolation_level=None)
    other.execute("INSERT INTO nodes VALUES ('records/damaged', 'text', x'00', NULL)")
    other.execute("UPDATE nodes SET version = 2 WHERE key = 'records/a'")
    other.close()
    assert engine.poll() == [watchers[0], damaged_key]


def test_text_that_is_not_utf_8_does_not_silence_the_watches_on_others(
    engine: SqliteEngine, tmp_path: Path
) -> None:
    """It is damage, too, which Python's module and not SQLite meets: for good, so that no watch would fire again."""
    one(engine, Kind.READ, read)
    record, bookies, votes = watching(engine, "records/a", "bookies/", "repair/votes/")
    with closing(sqlite3.connect(tmp_path / "meta.db")) as other, other:
        other.execute(
            "INSERT INTO nodes VALUES (CAST(? AS TEXT), 0, x'00', NULL)", (b"bookies/writable/\xff",)
        )
        other.execute("INSERT INTO nodes VALUES ('repair/votes/1', 0, x'00', NULL)")
        other.execute("UPDATE nodes SET version = 1 WHERE key = 'records/a'")
    assert engine.poll() == [record, bookies, votes]
    assert one(engine, Kind.WRITE, lambda tx: tx.create("bookies/writable/c", b"")), (
        "a watch refuses no change"
    )
    with pytest.raises(MetadataStoreDamagedError):
        one(engine, Kind.READ, lambda tx: tx.nodes("bookies/"))
    with closing(sqlite3.connect(tmp_path / "meta.db")) as other, other:
        other.execute("UPDATE nodes SET version = 2 WHERE key = 'records/a'")
    assert engine.poll() == [record]


def test_watches_that_saw_a_change_before_another_could_not_be_read_fire(
    engine: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not see it again: what they wait for would never come."""
    one(engine, Kind.READ, read)
    record, bookies = watching(engine, "records/a", "bookies/")
    with closing(sqlite3.connect(tmp_path / "meta.db")) as other, other:
        other.execute("INSERT INTO nodes VALUES ('bookies/writable/b', 0, x'00', NULL)")
        other.execute("UPDATE nodes SET version = 1 WHERE key = 'records/a'")
    monkeypatch.setattr(FailingConnection, "unreadable", "bookies/")
    assert engine.poll() == [record]
    monkeypatch.setattr(FailingConnection, "unreadable", None)
    assert engine.poll() == [bookies]
    assert engine.poll() == []


def test_a_watch_that_saw_a_change_of_ours_that_was_taken_back_sees_the_same_change_by_others(
    engine: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one(engine, Kind.READ, read)
    record, _ = watching(engine, "records/a", "bookies/")

    def change_both(tx: Any) -> None:
        write(b"ours", 0)(tx)
        tx.create("bookies/writable/b", b"")

    monkeypatch.setattr(FailingConnection, "unreadable", "bookies/")
    with pytest.raises(MetadataUnavailableError):
        one(engine, Kind.WRITE, change_both)
    monkeypatch.setattr(FailingConnection, "unreadable", None)
    with closing(sqlite3.connect(tmp_path / "meta.db")) as other, other:
        other.execute("UPDATE nodes SET version = 1 WHERE key = 'records/a'")
    assert record in engine.poll()


@pytest.mark.parametrize("kind", [Kind.READ, Kind.WRITE])
def test_a_damaged_value_keeps_no_other_process_from_writing(
    engine: SqliteEngine, tmp_path: Path, kind: Kind
) -> None:
    """The error, for as long as it is kept, kept the statement that had met it, and that a reader's lock."""
    one(engine, Kind.READ, read)
    with closing(sqlite3.connect(tmp_path / "meta.db")) as other, other:
        other.execute("INSERT INTO nodes VALUES ('bookies/writable/1', 0, 'text', NULL)")
        other.execute("INSERT INTO nodes VALUES ('bookies/writable/2', 0, x'00', NULL)")
        other.execute("INSERT INTO nodes VALUES ('bookies/writable/3', 0, x'00', NULL)")
    works = [
        Work(kind, lambda tx: tx.nodes("bookies/")),
        Work(kind, write(b"", 0) if kind is Kind.WRITE else read),
    ]
    engine.run(works)
    assert isinstance(works[0].error, MetadataStoreDamagedError) and works[1].error is None
    with closing(sqlite3.connect(tmp_path / "meta.db", timeout=0)) as other, other:
        other.execute("UPDATE nodes SET version = 9 WHERE key = 'records/a'")


async def test_a_handle_with_a_session_closes_next_to_a_damaged_value(tmp_path: Path) -> None:
    """What names the session cannot be removed then, and counts no longer: its lock has ended."""
    store = await open_store(f"sqlite:///{tmp_path}/m.db", SystemEnvironment())
    await store.init_cluster()
    await store.register_bookie(BookieInfo(bookie_id=BookieId("b:1"), host="h", port=1))
    with closing(sqlite3.connect(tmp_path / "m.db")) as damaging, damaging:
        damaging.execute("INSERT INTO nodes VALUES ('bookies/writable/a:1', 0, 'text', NULL)")
    await store.close()
    with closing(sqlite3.connect(tmp_path / "m.db")) as repairing, repairing:
        repairing.execute("DELETE FROM nodes WHERE key = 'bookies/writable/a:1'")
    other = await open_store(f"sqlite:///{tmp_path}/m.db", SystemEnvironment())
    assert (await other.bookies()).writable == ()
    await other.close()


async def test_a_damaged_row_fails_the_job_that_met_it_half_done_and_no_other(tmp_path: Path) -> None:
    """And leaves nothing of it, nor ends the thread, which all of the process share."""
    store = await open_store(f"sqlite:///{tmp_path}/m.db", SystemEnvironment())
    await store.init_cluster()
    await store.repair.mark(LedgerId(1), [BookieId("b:1")], 0)
    with closing(sqlite3.connect(tmp_path / "m.db")) as damaging, damaging:
        damaging.execute("UPDATE nodes SET value = 'text' WHERE key = 'repair/marked'")
    found = await asyncio.gather(
        store.create_record("/before", b"x"),
        store.repair.mark(LedgerId(2), [BookieId("b:1")], 0),
        store.create_record("/after", b"x"),
        return_exceptions=True,
    )
    assert isinstance(found[1], MetadataStoreDamagedError)
    assert [isinstance(each, BaseException) for each in found] == [False, True, False]
    assert (await store.read_record("/after")).value == b"x"
    with pytest.raises(RecordNotFoundError):
        await store.repair.read_mark(LedgerId(2))
    await store.close()
