"""Keeps a snapshot of a cluster's metadata current: watches name what to read again, one task reads it.

Changes that come close together are one new snapshot. While the metadata store is unavailable the last one stays.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self

from dlog.admin import LogInfo
from dlog.backoff import Backoff
from dlog.cache.snapshot import Changes, Disappeared, MetadataSnapshot, checked_ledger_id, log_name
from dlog.core.metadata_keys import name_key
from dlog.errors import LogNotFoundError
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogName
from ledger.arguments import require_type
from ledger.environment import Environment
from ledger.errors import (
    ConfigurationError,
    CorruptionError,
    LayoutMismatchError,
    LedgerNotFoundError,
    LogStoreError,
)
from ledger.metadata.refusals import checked_ledger_id as require_possible
from ledger.metadata.store import MetadataStore, Unwatch
from ledger.model import LedgerId, LedgerMetadata, Versioned
from ledger.signal import Signal
from ledger.tasks import start_task

_READS_AT_ONCE = 32
_PAUSE_S = 0.01
"""Between two snapshots, so that changes which come together are one."""


class _Bookies:
    """The key of the registrations."""


_BOOKIES = _Bookies()
Key = _Bookies | LogName | LedgerId
OnChange = Callable[[MetadataSnapshot, Disappeared], None]


class MetadataCache:
    """Cluster and bookies, and the logs and ledgers that are followed. Obtained from `LogClient.metadata_cache`.

    A log is given by its name in the client's namespace, or as a LogName. Once the cache or its client is closed every
    call but `close` raises ConfigurationError; a snapshot that was taken before stays as it is.
    """

    def __init__(
        self, store: MetadataStore, logs: LogMetadataStore, environment: Environment, namespace: str
    ) -> None:
        self._store = store
        self._logs = logs
        self._environment = environment
        self._namespace = namespace
        self._closed = False
        self._snapshot: MetadataSnapshot | None = None
        self._unwatch: dict[Key, Unwatch] = {}
        self._records: dict[LogName, tuple[LogRef, Unwatch]] = {}
        """The incarnation whose record is watched."""
        self._dirty: dict[Key, None] = {}
        self._begun = 0
        """Number of reads that have begun."""
        self._applied: dict[Key, int] = {}
        """The latest of them that is in the snapshot."""
        self._wanted = Signal()
        self._listeners: list[OnChange] = []
        self._unreported: deque[tuple[MetadataSnapshot, Disappeared]] = deque()
        """With which listeners are called: more than one while they change what is followed."""
        self._changed = Signal()
        """Set for an instant by each new snapshot, and when there will be none."""
        self._updating: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<MetadataCache of {self._store.uri}{' closed' if self._closed else ''}>"

    # ---- life

    async def start(self) -> None:
        """Read cluster id, layout and registered bookies, and follow the bookies from then on. Once.

        Raises:
            MetadataUnavailableError: the metadata store cannot be reached, or holds no cluster.
        """
        if self._snapshot is not None:  # it was awaited, and is entered now
            return
        self._unwatch[_BOOKIES] = self._store.watch_bookies(partial(self._read_soon, _BOOKIES))
        self._snapshot = MetadataSnapshot(
            cluster_id=await self._store.instance_id(),
            layout=await self._store.layout(),
            namespace=self._namespace,
            bookies=await self._store.bookies(),
        )
        self._updating = start_task(self._update())
        self._updating.add_done_callback(lambda _: self._wake())

    async def close(self) -> None:
        """End all watches and reads; a second call does nothing. Raises what a listener has raised."""
        self._closed = True
        for key in list(self._unwatch):
            self._unfollow(key)
        self._wake()
        updating, self._updating = self._updating, None
        if updating is not None:
            updating.cancel()
            await asyncio.wait([updating])
            if not updating.cancelled():
                updating.result()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # ---- reading

    @property
    def snapshot(self) -> MetadataSnapshot:
        """The view as of now. Take the reference once for facts that must agree with each other."""
        if self._closed:
            raise ConfigurationError("the metadata cache is closed: open another one with metadata_cache()")
        if self._snapshot is None:
            raise ConfigurationError("the metadata cache was not started: open one with metadata_cache()")
        return self._snapshot

    async def wait_for_change(self, seen: MetadataSnapshot) -> MetadataSnapshot:
        """Wait until there is a snapshot other than `seen`, and return it; immediately if there is one already.

        Several changes may have become one snapshot. Raises what a listener has raised: then there are no more.
        """
        require_type("seen", seen, MetadataSnapshot)
        while (found := self.snapshot) is seen:
            if self._updating is not None and self._updating.done():
                if self._updating.cancelled():
                    raise ConfigurationError(
                        "the task of this metadata cache was cancelled by the program; open another one with "
                        "metadata_cache()"
                    )
                self._updating.result()
            await self._changed.future()
        return found

    def on_change(self, listener: OnChange) -> Unwatch:
        """Call `listener` with each new snapshot and what disappeared, in order; the result ends that.

        Raises:
            ConfigurationError: `listener` is not a function.
        """
        self._require_open()
        if not callable(listener):
            raise ConfigurationError(f"listener must be a function, got {listener!r}")
        self._listeners.append(listener)

        def remove() -> None:
            with suppress(ValueError):  # a second call
                self._listeners.remove(listener)

        return remove

    # ---- what is followed

    async def follow_logs(self, logs: Iterable[LogName | str]) -> None:
        """Keep the records of these logs in the snapshot, while they exist. On return the existing ones are in it.

        Raises:
            MetadataUnavailableError: the metadata store cannot be reached. The logs are followed nevertheless, and
                read as soon as it can be.
            ConfigurationError: `logs` is not a collection of names. None of them is followed.
            InvalidNameError: one of them is not a valid name. None of them is followed.
        """
        self._require_open()
        _require_many("logs", logs)
        names = [log_name(log, self._namespace) for log in logs]
        unread = [log for log in names if log not in self._applied]
        for log in unread:
            if log not in self._unwatch:
                self._unwatch[log] = self._store.watch_record(
                    name_key(self._logs.root, log), partial(self._read_soon, log)
                )
        await self._read_followed(unread)

    async def follow_ledgers(self, ledger_ids: Iterable[LedgerId]) -> None:
        """The same for the metadata of ledgers.

        Raises:
            MetadataUnavailableError: as `follow_logs`.
            ConfigurationError: `ledger_ids` is not a collection of numbers. None of them is followed.
            InvalidNameError: one of them is an id that no ledger has. None of them is followed.
        """
        self._require_open()
        _require_many("ledger_ids", ledger_ids)
        checked = [checked_ledger_id(ledger_id) for ledger_id in ledger_ids]
        for ledger_id in checked:
            require_possible(ledger_id)
        unread = [ledger_id for ledger_id in checked if ledger_id not in self._applied]
        for ledger_id in unread:
            if ledger_id not in self._unwatch:
                self._unwatch[ledger_id] = self._store.watch_ledger(
                    ledger_id, partial(self._read_soon, ledger_id)
                )
        await self._read_followed(unread)

    def forget(self, key: LogName | str | LedgerId) -> None:
        """Do not follow this log or ledger any more; it leaves the snapshot.

        Raises:
            ConfigurationError: `key` is neither the name of a log nor the number of a ledger.
        """
        self._require_open()
        followed = self._key(key)
        self._unfollow(followed)
        if isinstance(followed, LogName):
            self._replace(Changes(logs={followed: None}))
        else:
            self._replace(Changes(ledgers={followed: None}))

    def refresh(self, key: LogName | str | LedgerId) -> None:
        """Read this log or ledger again soon: the answer of a bookie or of the store shows that it is stale.

        Does nothing if it is not followed.

        Raises:
            ConfigurationError: `key` is neither the name of a log nor the number of a ledger.
        """
        self._require_open()
        # Only what is followed was checked: a read of an id that no ledger has fails each time, and what is read
        # together with it is not applied.
        if (followed := self._key(key)) in self._unwatch:
            self._read_soon(followed)

    # ---- parts

    def _require_open(self) -> None:
        self.snapshot  # noqa: B018 - it raises

    def _key(self, key: LogName | str | LedgerId) -> LogName | LedgerId:
        require_type("key", key, LogName, str, int)
        return log_name(key, self._namespace) if isinstance(key, LogName | str) else key

    def _read_soon(self, key: Key) -> None:
        self._dirty[key] = None
        self._wanted.set()

    def _wake(self) -> None:
        self._changed.set()
        self._changed.clear()

    def _unfollow(self, key: Key) -> None:
        unwatch = self._unwatch.pop(key, None)
        if unwatch is not None:
            unwatch()
        if isinstance(key, LogName):
            self._unwatch_record(key)
        self._dirty.pop(key, None)
        self._applied.pop(key, None)

    def _unwatch_record(self, log: LogName) -> None:
        watched = self._records.pop(log, None)
        if watched is not None:
            watched[1]()

    async def _update(self) -> None:
        backoff = Backoff(self._environment)
        while True:
            await self._wanted.future()
            await asyncio.sleep(_PAUSE_S)
            self._wanted.clear()
            dirty, self._dirty = list(self._dirty), {}
            try:
                await self._read_and_replace(dirty)
            except LogStoreError:  # another cluster's store, too, may be there for a while only
                self._dirty = {**dict.fromkeys(dirty), **self._dirty}
                self._wanted.set()
                await asyncio.sleep(backoff.next_s())
            else:
                backoff.reset()

    async def _read_followed(self, keys: list[LogName] | list[LedgerId]) -> None:
        try:
            await self._read_and_replace(keys)
        except BaseException:
            # They are watched: without this only a change, or another call, would have them read.
            for key in keys:
                if key in self._unwatch:
                    self._read_soon(key)
            raise

    async def _read_and_replace(self, keys: list[Key] | list[LogName] | list[LedgerId]) -> None:
        for at in range(0, len(keys), _READS_AT_ONCE):
            some = keys[at : at + _READS_AT_ONCE]
            self._begun += 1
            number = self._begun
            found = await asyncio.gather(*(self._read(key) for key in some))
            self._replace(
                *(each for key, each in zip(some, found, strict=True) if self._applies(key, number))
            )

    def _applies(self, key: Key, number: int) -> bool:
        """Whether this read changes the snapshot: the key is still followed, and no later read has been applied.

        Versions do not order reads of which one found nothing, nor those of two incarnations of a log.
        """
        if key not in self._unwatch:
            return False
        if number < self._applied.get(key, 0):
            self._read_soon(key)  # it may have put its watch in the place of the later one's
            return False
        self._applied[key] = number
        return True

    def _replace(self, *changes: Changes) -> None:
        """One new snapshot with all changes; listeners see it only if it differs."""
        whole = Changes(
            bookies=next((each.bookies for each in changes if each.bookies is not None), None),
            logs={name: info for each in changes for name, info in each.logs.items()},
            ledgers={ledger_id: value for each in changes for ledger_id, value in each.ledgers.items()},
            damaged={key: why for each in changes for key, why in each.damaged.items()},
        )
        before = self._snapshot
        assert before is not None, "what is followed was followed after the start"
        new, disappeared = before.updated(whole)
        if new != before:
            self._snapshot = new
            self._wake()
            self._unreported.append((new, disappeared))
            if len(self._unreported) == 1:  # else a listener has called this, and its caller goes on with it
                self._report()

    def _report(self) -> None:
        """Call the listeners: each of them gets the snapshots in order."""
        try:
            while self._unreported:
                for listener in list(self._listeners):
                    listener(*self._unreported[0])
                self._unreported.popleft()
        finally:
            self._unreported.clear()  # a listener has failed

    async def _read(self, key: Key) -> Changes:
        """What is there now."""
        if isinstance(key, _Bookies):
            return Changes(bookies=await self._store.bookies())
        try:
            if isinstance(key, LogName):
                return Changes(logs={key: await self._read_log(key)})
            return Changes(ledgers={key: await self._read_ledger(key)})
        except CorruptionError as error:
            return Changes(damaged={key: str(error)})
        except LayoutMismatchError as error:
            if error.log is None:
                raise  # of the store, not of this record
            return Changes(damaged={key: str(error)})

    async def _read_log(self, log: LogName) -> LogInfo | None:
        try:
            ref = await self._logs.find(log)
            self._watch_record(log, ref)
            read = await self._logs.read(ref)
        except LogNotFoundError:
            return None
        return LogInfo(ref, read.value, read.version)

    def _watch_record(self, log: LogName, ref: LogRef) -> None:
        watched = self._records.get(log)
        if log in self._unwatch and (watched is None or watched[0] != ref):
            self._unwatch_record(log)
            self._records[log] = (ref, self._logs.watch(ref, partial(self._read_soon, log)))

    async def _read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata] | None:
        try:
            return await self._store.read_ledger(ledger_id)
        except LedgerNotFoundError:
            return None


def _require_many(what: str, values: object) -> None:
    """A text is a collection of its letters; a single name is what it is most likely meant to be."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ConfigurationError(f"{what} must be a collection, as a list, got {values!r:.80}")
