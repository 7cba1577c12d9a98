"""Metadata in one SQLite file that several processes of one machine share: `sqlite:///dir/meta.db`.

This is the face on the event loop; the work is done in a thread (thread.py) by the engine
(engine.py). Handles of one file in one process share thread and connection; each has its own session.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from functools import partial
from typing import cast
from urllib.parse import quote, unquote

from ledger.environment import Environment
from ledger.errors import (
    ConfigurationError,
    LogStoreError,
    MetadataUnavailableError,
)
from ledger.metadata.sqlite.engine import Kind, SqliteEngine
from ledger.metadata.sqlite.sessions import Session
from ledger.metadata.sqlite.thread import SqliteThread, SqliteThreads, process_threads
from ledger.metadata.sqlite.watches import Watcher
from ledger.metadata.store import Unwatch, Watch
from ledger.metadata.transactions import sessions
from ledger.metadata.transactions.key_value import Job, T
from ledger.metadata.transactions.store import KeyValueStore

_SESSION_NAMES = 8
"""Fresh names offered for a session; a second one is needed only when a sweeper meets a file being made."""


class SqliteBackend:
    def __init__(
        self, uri: str, path: str, environment: Environment, threads: SqliteThreads = process_threads
    ) -> None:
        self._uri = uri
        self._path = path
        self._environment = environment
        self._threads = threads
        self._thread: SqliteThread | None = threads.acquire(path)
        self._session: Session | None = None
        self._session_lock = asyncio.Lock()
        self._watchers: dict[Watcher, None] = {}

    @property
    def uri(self) -> str:
        return self._uri

    async def open(self) -> None:
        """Look at the file, if there is one. Typed errors for a wrong, damaged or newer one."""
        try:
            await self._open_thread().ask(Kind.CALL, SqliteEngine.open_if_present)
        except BaseException:
            await self.close()
            raise

    async def read(self, job: Job[T]) -> T:
        return cast(T, await self._open_thread().ask(Kind.READ, job))

    async def write(self, job: Job[T]) -> T:
        return cast(T, await self._open_thread().ask(Kind.WRITE, job))

    async def create(self, job: Job[T]) -> T:
        return cast(T, await self._open_thread().ask(Kind.CREATE, job))

    async def session(self) -> str:
        async with self._session_lock:
            if self._session is None:
                process_id = self._environment.process_id()
                names = [f"{process_id}-{self._environment.token():016x}" for _ in range(_SESSION_NAMES)]
                await self._open_thread().ask(Kind.CALL, partial(self._begin_session, names))
            assert self._session is not None
            return self._session.name

    def _begin_session(self, names: list[str], engine: SqliteEngine) -> None:
        """In the thread: it is kept, and ended, also if the caller was cancelled in the meantime."""
        if self._session is None:
            self._session = engine.begin_session(names)

    def _end_unknown_session(self, _: SqliteEngine) -> None:
        if self._session is not None:
            self._session.close()

    def watch_key(self, key: str, watch: Watch, *, urgent: bool) -> Unwatch:
        return self._add(Watcher(asyncio.get_running_loop(), watch, key, urgent=urgent))

    def watch_range(self, prefix: str, watch: Watch) -> Unwatch:
        return self._add(Watcher(asyncio.get_running_loop(), watch, prefix, is_range=True))

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            for watcher in tuple(self._watchers):
                self._drop(thread, watcher)
            if self._session is not None:
                await _end_session(thread, self._session)
            else:
                thread.tell(self._end_unknown_session)  # it may begin just now, for a cancelled caller
        finally:
            await self._threads.release(self._path, thread)

    def _add(self, watcher: Watcher) -> Unwatch:
        thread = self._open_thread()
        self._watchers[watcher] = None
        thread.tell(partial(SqliteEngine.add_watch, watcher=watcher))
        return partial(self._drop, thread, watcher)

    def _drop(self, thread: SqliteThread, watcher: Watcher) -> None:
        if watcher in self._watchers:
            del self._watchers[watcher]
            watcher.active = False
            thread.tell(lambda engine: engine.watches.remove(watcher))

    def _open_thread(self) -> SqliteThread:
        if self._thread is None:
            raise MetadataUnavailableError(f"the metadata store {self._uri} is closed on this handle")
        return self._thread


async def open_sqlite(rest: str, query: str, environment: Environment) -> KeyValueStore:
    """A handle on the file that `sqlite:<rest>` names; while there is none, only `init_cluster` works."""
    path = _path(rest)
    uri = f"sqlite:///{quote(path)}?{query}" if query else f"sqlite:///{quote(path)}"
    backend = SqliteBackend(uri, path, environment)
    await backend.open()
    return KeyValueStore(backend, environment)


async def _end_session(thread: SqliteThread, session: Session) -> None:
    """Withdraw what the session registered, politely if the store can be written; its lock ends it anyhow."""
    try:
        with contextlib.suppress(LogStoreError):
            await thread.ask(Kind.WRITE, partial(sessions.end_session, session=session.name))
    finally:
        session.close()


def _path(rest: str) -> str:
    """The real absolute path: one file must have one name, whatever links lead to it."""
    try:
        name = unquote(rest.removeprefix("///"), errors="strict")
    except UnicodeDecodeError:
        raise ConfigurationError(
            f"metadata address 'sqlite:{rest}' is not valid: what its % stand for is not UTF-8"
        ) from None
    if not rest.startswith("///") or not name or "\0" in name or name.endswith("/"):
        raise ConfigurationError(
            f"metadata address 'sqlite:{rest}' is not valid: write sqlite:///relative/file.db or "
            f"sqlite:////absolute/file.db"
        )
    path = os.path.realpath(name)
    if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises where it may not look
        raise ConfigurationError(f"metadata address names the directory {path}: name a file in it")
    return path
