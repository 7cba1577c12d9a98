"""A fork waits until no thread is in a SQLite call: a child that inherits half of one could not use the file."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ledger.metadata.sqlite import engine as sqlite_engine
from ledger.metadata.sqlite.engine import Kind, SqliteEngine, Work
from ledger.metadata.sqlite.forks import NO_FORK
from ledger.metadata.sqlite.thread import process_threads
from ledger.metadata.transactions import records

create = partial(records.create, prefix="records", key="/a", value=b"")
A_MOMENT_S = 0.3
"""A fork that does not wait is through long before."""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(sqlite_engine, "BUSY_WAIT_S", 0.5)
    yield str(tmp_path / "meta.db")


def forked(work: Callable[[], bool]) -> int:
    """The exit status of a forked process: 0 if the work returns True."""
    child = os.fork()
    if not child:
        status = 1
        try:
            status = 0 if work() else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def write_anew(path: str) -> bool:
    """What a child has to do: open the file for itself."""
    work = Work(Kind.WRITE, lambda tx: records.create(tx, prefix="records", key="/child", value=b""))
    engine = SqliteEngine(path)
    engine.run([work])
    engine.close()
    return work.error is None


@pytest.mark.parametrize("kind", [Kind.READ, Kind.WRITE])
def test_a_child_forked_during_a_transaction_can_write(path: str, kind: Kind) -> None:
    entered, released = threading.Event(), threading.Event()

    def job(tx: Any) -> None:
        records.read(tx, "records", "/a")
        if kind is Kind.WRITE:
            records.write(tx, "records", "/a", b"1", 0)
        entered.set()
        released.wait(A_MOMENT_S)

    def parent() -> None:
        engine = SqliteEngine(path)
        engine.run([Work(Kind.CREATE, create)])
        engine.run([Work(kind, job)])
        engine.close()

    thread = threading.Thread(target=parent)
    thread.start()
    entered.wait()
    status = forked(lambda: write_anew(path))
    released.set()
    thread.join()
    assert status == 0


@pytest.mark.timeout(30)
def test_a_child_forked_while_another_thread_opens_a_store_can_open_one(path: str) -> None:
    """The lock on the list of threads was held in the child by a thread that is not there."""
    opening, forking_is_over = threading.Event(), threading.Event()

    def open_slowly() -> None:
        with process_threads._lock:
            opening.set()
            forking_is_over.wait()

    def open_and_close() -> bool:
        signal.alarm(10)  # a child that waits in vain is killed
        thread = process_threads.acquire(path)
        asyncio.run(process_threads.release(path, thread))
        return True

    thread = threading.Thread(target=open_slowly)
    thread.start()
    opening.wait()
    try:
        assert forked(open_and_close) == 0
    finally:
        forking_is_over.set()
        thread.join()


def test_the_thread_in_a_transaction_may_fork_itself(path: str) -> None:
    engine = SqliteEngine(path)
    engine.run([Work(Kind.CREATE, create)])
    work = Work(Kind.READ, lambda tx: forked(lambda: True))
    engine.run([work])
    engine.close()
    assert work.result == 0
    assert free_for_another_thread() and forked(free_for_another_thread) == 0


def free_for_another_thread() -> bool:
    found: list[bool] = []

    def take() -> bool:
        if taken := NO_FORK.acquire(blocking=False):
            NO_FORK.release()
        return taken

    thread = threading.Thread(target=lambda: found.append(take()))
    thread.start()
    thread.join()
    return found == [True]
