"""Runs jobs on one SQLite file, synchronously. Whoever calls it (a thread, a simulator) serialises the calls.

Invariant: writes that wait together are committed together, one fsync chain for all, in the order they came; reads
see committed state only. A compare-and-set is an UPDATE with the version in its WHERE clause, inside BEGIN
IMMEDIATE. Before COMMIT every failure means "certainly not changed", and so does a full disk at COMMIT; an I/O error of
COMMIT itself means "unknown". Waiting for other processes' locks is bounded.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from ledger.errors import LogStoreError, MetadataUnavailableError
from ledger.metadata.sqlite import sessions
from ledger.metadata.sqlite.errors import commit_failed, is_busy, is_full, translated
from ledger.metadata.sqlite.file import create_file, is_there, open_file
from ledger.metadata.sqlite.forks import NO_FORK
from ledger.metadata.sqlite.sessions import Session
from ledger.metadata.sqlite.transaction import SqliteTransaction
from ledger.metadata.sqlite.watches import Watcher, WatchTable
from ledger.metadata.transactions.key_value import T

BUSY_WAIT_S = 5.0
"""How long we try to get a lock. Others hold one for a millisecond, rarely for a slow disk's second."""
_SESSIONS_INTERVAL_S = 0.05
"""Sessions are looked at no more often than this, however short the interval of watches is."""


_UNKNOWN = -1


class Kind(Enum):
    READ = 1
    WRITE = 2
    CREATE = 3
    """As WRITE; makes the file when there is none."""
    CALL = 4
    """Not a transaction: `job` is called with the engine."""


@dataclass(eq=False, slots=True)
class Work:
    """One request. After `run` either `error` is set or `result` is the answer."""

    kind: Kind
    job: Callable[[Any], Any]
    result: Any = None
    error: Exception | None = None


class SqliteEngine:
    def __init__(self, path: str) -> None:
        self._path = path
        self._sessions = f"{path}.sessions"
        self._connection: sqlite3.Connection | None = None
        self._tx: SqliteTransaction | None = None
        self._file: tuple[int, int] | None = None
        self._data_version = _UNKNOWN
        self._sessions_due_s = 0.0
        self._patience = _Patience()
        self.watches = WatchTable()

    # ---- work

    def run(self, works: Sequence[Work]) -> list[Watcher]:
        """Do it all in order; returns the watches to fire."""
        fired: list[Watcher] = []
        self._patience = _Patience()
        with NO_FORK:
            for kind, group in groupby(works, key=lambda work: work.kind):
                fired += self._run_group(kind, list(group))
                self._patience = self._patience.for_next()
        return fired

    def _run_group(self, kind: Kind, works: list[Work]) -> list[Watcher]:
        try:
            match kind:
                case Kind.CALL:
                    self._call(works)
                    return []
                case Kind.CREATE if self._connection is None and not is_there(self._path):
                    self._create(works[0])
                    return self._run_group(kind, works[1:]) if works[1:] else []
                case Kind.READ:
                    return self._read(self._connected(), works)
                case _:
                    return self._write(self._connected(), works)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            _fail(works, translated(error, self._path))
        except LogStoreError as error:
            _fail(works, error)
        return []

    def _read(self, tx: SqliteTransaction, works: list[Work]) -> list[Watcher]:
        self._patience.call(partial(self._in_transaction, "BEGIN", lambda: _run_jobs(tx, works)))
        return []

    def _write(self, tx: SqliteTransaction, works: list[Work]) -> list[Watcher]:
        try:
            return self._patience.call(
                partial(self._in_transaction, "BEGIN IMMEDIATE", lambda: self._change(tx, works))
            )
        except LogStoreError:
            if len(works) == 1:
                raise
            # One of them failed half done, so all were rolled back: each by itself, and the others are done.
            return [watcher for work in works for watcher in self._run_group(Kind.WRITE, [work])]

    def _change(self, tx: SqliteTransaction, works: list[Work]) -> list[Watcher]:
        tx.changed.clear()
        _run_jobs(tx, works)
        if not tx.changed:
            return []
        fired = self.watches.changed_by_us(tx.changed, tx)
        try:
            self._patience.call(lambda: self._execute("COMMIT"))
        except sqlite3.Error as error:
            self.watches.forget(fired)
            if is_busy(error):
                raise
            self.close()
            if is_full(error):
                raise
            _fail(works, commit_failed(error, self._path))
            return []
        return fired

    def _in_transaction(self, begin: str, body: Callable[[], T]) -> T:
        """Run `body` between BEGIN and whatever it does not commit itself, which is rolled back."""
        self._execute(begin)
        try:
            return body()
        finally:
            if self._connection is not None and self._connection.in_transaction:
                self._execute("ROLLBACK")

    def _call(self, works: Iterable[Work]) -> None:
        for work in works:
            try:
                work.result = work.job(self)
            except (sqlite3.Error, UnicodeDecodeError) as error:
                work.error = translated(error, self._path)
            except LogStoreError as error:
                work.error = error
            self._patience = self._patience.for_next()

    def _create(self, work: Work) -> None:
        def populate(connection: sqlite3.Connection) -> None:
            work.result = work.job(SqliteTransaction(connection, self._path, self._is_alive))

        create_file(self._path, populate)

    # ---- called as CALL work

    def open_if_present(self) -> None:
        """Connect, so that a wrong or damaged file is reported early; no file yet is no error."""
        if is_there(self._path):
            self._connected()

    def begin_session(self, names: Iterable[str]) -> Session:
        """A session under one of the fresh `names`."""
        self._connected()
        try:
            for name in names:
                session = sessions.begin(self._sessions, name)
                if session is not None:
                    return session
        except OSError as error:
            raise MetadataUnavailableError(f"no session can begin in {self._sessions}: {error}") from error
        raise MetadataUnavailableError(f"no session could begin in {self._sessions}: try again")

    def add_watch(self, watcher: Watcher) -> None:
        try:
            tx = self._connected()
            self._patience.call(partial(self._in_transaction, "BEGIN", lambda: self.watches.add(watcher, tx)))
        except (sqlite3.Error, UnicodeDecodeError, LogStoreError):
            # Nothing seen yet: the watch fires as soon as the store can be read, and reads report the error. No commit
            # is waited for, since a process that dies makes none.
            self.watches.add(watcher, None)
            self._data_version = _UNKNOWN

    def close(self) -> None:
        with NO_FORK:
            if self._connection is not None:
                self._connection.close()
            self._connection = self._tx = None

    # ---- looking for changes

    def poll(self) -> list[Watcher]:
        """Watches to fire for what other processes did. A store that cannot be read now is read next time."""
        self._patience = _Patience()
        with NO_FORK:
            return self._poll()

    def _poll(self) -> list[Watcher]:
        fired: list[Watcher] = []
        try:
            if (
                self._connection is not None
                and time.monotonic() < self._sessions_due_s
                and self._read_data_version() == self._data_version
            ):
                return []  # by far the most frequent outcome, so it costs one statement
            tx = self._connected()
            self._in_transaction("BEGIN", lambda: self._compare(tx, fired))
        except (sqlite3.Error, UnicodeDecodeError, LogStoreError):
            pass  # those that have seen a change do not see it again
        return fired

    def _compare(self, tx: SqliteTransaction, fired: list[Watcher]) -> None:
        data_version = self._read_data_version()
        if data_version != self._data_version:
            self.watches.changed_by_others(tx, fired)
            self._data_version = data_version
        if time.monotonic() >= self._sessions_due_s:
            self.watches.ended_sessions(tx, fired)
            self._sessions_due_s = time.monotonic() + _SESSIONS_INTERVAL_S

    def _read_data_version(self) -> int:
        """A number that changes when another connection commits."""
        version: int = self._execute("PRAGMA data_version").fetchone()[0]
        return version

    # ---- the connection

    def _connected(self) -> SqliteTransaction:
        if self._connection is None or self._tx is None:
            self._tx = self._patience.call(self._open)
        if _identity(self._path) != self._file:
            # Going on would write into a file that nobody else sees, or mix two clusters.
            raise MetadataUnavailableError(
                f"{self._path} was removed or replaced while in use: restart this program", path=self._path
            )
        return self._tx

    def _open(self) -> SqliteTransaction:
        self._connection = open_file(self._path)
        self._file = self._file or _identity(self._path)
        # Versions of different connections do not compare: let the next look go through all watches.
        self._data_version = _UNKNOWN
        return SqliteTransaction(self._connection, self._path, self._is_alive)

    def _execute(self, statement: str) -> sqlite3.Cursor:
        assert self._connection is not None
        return self._connection.execute(statement)

    def _is_alive(self, session: str) -> bool:
        return sessions.is_alive(self._sessions, session)


class _Patience:
    """Repeats what met a lock, in growing steps, until a common deadline."""

    def __init__(self) -> None:
        self._deadline_s = time.monotonic() + BUSY_WAIT_S
        self._pause_s = 0.0002
        self._is_over = False

    def for_next(self) -> _Patience:
        """For what was requested together and comes next: once one has waited in vain, the others try once only.

        Each would wait as long for the same lock, and all of them have waited already.
        """
        return self if self._is_over else _Patience()

    def call(self, action: Callable[[], T]) -> T:
        while True:
            try:
                return action()
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise
                if time.monotonic() >= self._deadline_s:
                    self._is_over = True
                    raise
            time.sleep(self._pause_s)
            self._pause_s = min(self._pause_s * 1.5, 0.005)


def _run_jobs(tx: SqliteTransaction, works: Iterable[Work]) -> None:
    for work in works:
        writes = tx.writes
        work.result = work.error = None
        try:
            work.result = work.job(tx)
        except LogStoreError as error:
            if tx.writes != writes:
                raise  # it met a damaged row after its first change: the transaction must not be committed
            work.error = error


def _fail(works: Iterable[Work], error: LogStoreError) -> None:
    for work in works:
        work.result, work.error = None, error


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
