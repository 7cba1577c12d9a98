"""The log client in asyncio: create, open, read, list, describe, shrink, seal, delete.

    async with connect("sqlite:///data/meta.db") as client:
        async with client.open_writer("orders", create=True) as writer:
            await writer.append(b"payload")

The blocking API (dlog/blocking/client.py) is the same, one call at a time.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Self
from weakref import WeakKeyDictionary

from dlog.address import metadata_address
from dlog.admin import LogAdmin, LogInfo
from dlog.cache.metadata_cache import MetadataCache
from dlog.config import LogConfig
from dlog.core import metadata_keys
from dlog.core.tailing import OnMissing
from dlog.core.takeover import OnTakeoverLost
from dlog.errors import AppendsFailedError, OwnerUnresponsiveError, RotationFailedError
from dlog.format.entry import encode_entry
from dlog.format.message import NO_HEADERS, Columns
from dlog.format.properties import checked_properties
from dlog.inspection.explain import Explanation, explain
from dlog.inspection.history import HistoryEvent, history
from dlog.inspection.ledgers import listed_ledgers
from dlog.inspection.overview import Overview, overview
from dlog.inspection.unsealed import with_own_seals
from dlog.inspection.verify import Progress, UncheckedLedger, verify
from dlog.log_retention import LogRetention, RetentionPlan
from dlog.metadata.log_properties import LogProperties
from dlog.metadata.store import LogMetadataStore
from dlog.model import (
    DEFAULT_NAMESPACE,
    Cursor,
    ListedLedger,
    LogMetadata,
    LogName,
    MessageId,
    Retention,
    check_log_name,
    position_of,
)
from dlog.opening import Opening
from dlog.read.backlog import Lag, lag_behind
from dlog.read.config import ReaderConfig
from dlog.read.places import Places
from dlog.read.range import Where, read_range
from dlog.read.reader import Reader
from dlog.read.resolution import Resolution, resolve
from dlog.read.slow_polls import SlowPolls
from dlog.read_ahead_budget import ReadAheadBudget
from dlog.write.unread_failures import in_one, raise_unless_raising
from dlog.write.writer import LogWriter
from dlog.writer_opening import OwnerWait, WriterOpening, owner_wait, require_ledger_ids
from ledger.arguments import require_choice, require_type
from ledger.client import LedgerClient
from ledger.environment import Environment, SystemEnvironment
from ledger.errors import ConfigurationError
from ledger.inspection.copies import LedgerCopies
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore
from ledger.metadata.uri import parse_uri
from ledger.model import LedgerId
from ledger.tasks import start_task

_log = logging.getLogger(__name__)


def connect(
    uri: str | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    *,
    config: LogConfig | None = None,
    environment: Environment | None = None,
) -> Opening[LogClient]:
    """Connect to the cluster whose metadata is at `uri`: `async with connect(…)`, or `await connect(…)`.

    Without `uri` the environment variable DLOG_METADATA gives the address, as for the `dlog` command. Once awaited, the
    client knows the registered bookies. Starts no process. A client that was awaited must be closed by the caller;
    `async with` closes it, and everything opened through it.

    Raises:
        ConfigurationError: no address is given, `uri` has an unknown scheme, or `config` is not a LogConfig.
        InvalidNameError: `namespace` is not a valid name.
        MissingExtraError: the metadata driver or the codec needs a package that is not installed.
        MetadataUnavailableError: there is no cluster at `uri`, or the metadata store cannot be reached.
    """
    return Opening(_connect(uri, namespace, config, environment or SystemEnvironment()))


async def _connect(
    uri: str | None, namespace: str, config: LogConfig | None, environment: Environment
) -> LogClient:
    check_log_name(namespace)
    require_type("config", config, LogConfig, type(None))
    address = metadata_address(uri)
    store = await open_store(address, environment)
    root = parse_uri(address).option("root") or metadata_keys.DEFAULT_ROOT
    client = LogClient(store, namespace, config=config, environment=environment, root=root)
    try:
        await client.start()
    except BaseException:
        await client.close()
        raise
    return client


class LogClient:
    """The logs of one namespace. Owns the metadata store that it is given; belongs to the loop on which it was started.

    Every method that reads or changes metadata raises MetadataUnavailableError if the metadata store cannot be
    reached (the change was not made), and MetadataOutcomeUnknownError if the answer to a change was lost (it may have
    been made). Every method that takes the name of a log raises InvalidNameError if that is not a valid name, and every
    one but `close` ConfigurationError once the client is closed.
    """

    _started = False

    def __init__(
        self,
        store: MetadataStore,
        namespace: str = DEFAULT_NAMESPACE,
        *,
        config: LogConfig | None = None,
        environment: Environment | None = None,
        root: str = metadata_keys.DEFAULT_ROOT,
    ) -> None:
        """`store` is closed with the client. `root`: the key below which the logs of every namespace are stored.

        Raises:
            ConfigurationError: `config` is not a LogConfig.
            MissingExtraError: the codec needs a package that is not installed.
        """
        require_type("config", config, LogConfig, type(None))
        self.config = config or LogConfig()
        self.namespace = namespace
        self._environment = environment or SystemEnvironment()
        self._store = store
        self.ledgers = LedgerClient(store, config=self.config.ledger, environment=self._environment)
        self.logs = LogMetadataStore(store, self._environment, root=root)
        self.admin = LogAdmin(self.logs, self.ledgers, self.config)
        self._properties = LogProperties(store, self._environment)
        self._retention = LogRetention(store, self.logs, self.admin, self._environment)
        self._opening = WriterOpening(self.logs, self.ledgers, self._retention, self.config)
        self._writers: dict[LogWriter, None] = {}
        self._ended: list[LogWriter] = []
        """With failed appends whose outcome was not read when they ended: `close` raises for them."""
        self._openings: set[asyncio.Timeout] = set()
        """Of writers that are being opened: each expires when the client is closed."""
        # Weak: a reader that its user has dropped stops by itself.
        self._readers: WeakKeyDictionary[Reader, None] = WeakKeyDictionary()
        # Weak: one that was closed is held by nothing.
        self._caches: WeakKeyDictionary[MetadataCache, None] = WeakKeyDictionary()
        self._slow_polls = SlowPolls(self.ledgers.environment.rng)
        self._read_ahead = ReadAheadBudget(self.config.read_ahead_bytes_max)
        # A simulated process that is killed closes nothing.
        self.warns_unclosed = isinstance(self._environment, SystemEnvironment)
        """The blocking client, which drives this one, warns in its place."""
        self._releasing: asyncio.Future[None] | None = None
        _check_codec(self.config)

    def __repr__(self) -> str:
        return f"<Client {self.uri} namespace {self.namespace}>"

    @property
    def uri(self) -> str:
        """Canonical address of the metadata store."""
        return self._store.uri

    @property
    def writers(self) -> frozenset[LogWriter]:
        """Writers opened by this client that have not ended."""
        return frozenset(self._writers)

    async def start(self) -> None:
        """Read the registered bookies and follow changes from then on.

        Raises:
            MetadataUnavailableError: there is no cluster, or the metadata store cannot be reached.
        """
        self._check_usable()
        await self.ledgers.start()
        self._started = True

    async def close(self) -> None:
        """Close writers, readers, metadata caches, connections and the metadata store; a second call does nothing.

        Writers are closed first: each waits for the outcome of every append it has accepted (`LogWriter.close`).
        Bookies that are behind get up to 10 s, while they answer, to store their copies; what they lack is marked for
        repair, for which the metadata store gets as much. If cancelled, appends in flight end indeterminate and those
        not sent are aborted; everything is closed all the same. An `open_writer` that is under way ends with
        ConfigurationError.

        Raises:
            AppendsFailedError: an append failed and its outcome was not read. Raised after everything is closed.
            ConfigurationError: the client was connected in another event loop. Nothing is closed then.
        """
        self.ledgers.check_loop()
        failures: list[AppendsFailedError] = []
        try:
            await asyncio.gather(*(_close(writer, failures) for writer in (*self._ended, *self._writers)))
            await self.ledgers.settle()
        except asyncio.CancelledError:
            await self._released()
            raise
        await self._released()
        if (failure := in_one(failures)) is not None:
            raise failure

    async def _released(self) -> None:
        if self._releasing is None:
            self._releasing = start_task(self._release())
        cancelled: asyncio.CancelledError | None = None
        while not self._releasing.done():
            try:
                await asyncio.wait((self._releasing,))
            except asyncio.CancelledError as error:
                cancelled = error  # it takes milliseconds, and half closed is worse
        if cancelled is not None:
            raise cancelled
        if not self._releasing.cancelled():  # as by a program that cancels all tasks of its loop
            self._releasing.result()

    async def _release(self) -> None:
        """Close everything, whatever of it fails, and raise the first error.

        No `finally` waits here: a process that is killed in the simulator drops this coroutine where it is.
        """
        for opening in self._openings:
            opening.reschedule(asyncio.get_running_loop().time())
        for writer in list(self._writers):
            writer.abort()
        self.ledgers.hurry()  # `close` has waited, or was cancelled
        errors: list[Exception] = []
        for close in (
            *(reader.close for reader in list(self._readers)),
            *(cache.close for cache in list(self._caches)),
            self.ledgers.close,
            self._store.close,
        ):
            try:
                await close()
            except Exception as error:  # noqa: BLE001 - raised below, once everything is closed
                errors.append(error)
        if errors:
            raise errors[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except AppendsFailedError as failure:
            raise_unless_raising(failure, error)

    def __del__(self) -> None:
        self.warn_unclosed()

    def warn_unclosed(self) -> None:
        """Emit a ResourceWarning if it is not closed, and log which writers have appends without an outcome."""
        if not (self._started and self.warns_unclosed and self._releasing is None):
            return
        self.warns_unclosed = False
        warnings.warn(f"unclosed client of {self.uri}", ResourceWarning, source=self, stacklevel=3)
        # asyncio.run cancels the tasks of a writer with all others, and it may have ended for that.
        for writer in (*self._ended, *self._writers):
            if writer.buffered_bytes or writer.unread_failures() is not None:
                _log.warning(
                    "the client of log %s was not closed: appends that are under way may be lost; await close() or "
                    "flush(), or use 'async with'",
                    writer.log,
                )

    def name(self, log: str) -> LogName:
        """The full name of a log in this client's namespace.

        Raises:
            InvalidNameError: not 1 to 200 letters, digits, `.`, `_` or `-`.
            ConfigurationError: the client is closed.
        """
        self._check_usable()
        return LogName(namespace=self.namespace, name=log)

    # ---- writing

    async def create(self, log: str) -> None:
        """Create an empty log: no ledgers, epoch 0, no owner.

        Raises:
            LogExistsError: a log of this name exists.

        Source: docs/log-semantics.md#rule-4, #rule-5.
        """
        await self.logs.create(self.name(log), grace_us=self.config.grace_us)

    def open_writer(
        self,
        log: str,
        *,
        create: bool = False,
        given_up: Collection[LedgerId] = (),
        wait_for_current_owner: float | None = None,
        hand_over: bool = True,
        on_takeover_lost: OnTakeoverLost | str = OnTakeoverLost.FAIL,
    ) -> Opening[LogWriter]:
        """Take the log over and return its writer, closed with its block. With `create` a missing log is created.

        On return the previous writer is fenced: none of its appends can be acknowledged any more. This client owns the
        log in a new epoch and appends go to a new ledger, which is in the log's ledger list.

        `given_up`: ids of listed ledgers that are lost and whose loss is accepted. The writer of such a ledger is not
        fenced: end it first (docs/log-semantics.md#rule-23).

        `wait_for_current_owner`: ask the current writer to hand the log over, and wait up to this number of seconds
        until it has: it then has the outcome of every append, and none is in doubt. A writer that does not answer
        within `owner_answer_s`, or does not end in time, is fenced. With `hand_over` false it is only waited for, until
        it ends by itself or does not answer any more; `math.inf` makes this client a standby.

        `on_takeover_lost`: what to do if another client takes the log over first: `fail` or `retry`.

        Raises:
            LogNotFoundError: no such log, and `create` is false.
            LogSealedError: the log is sealed or being deleted.
            TakeoverLostError: another client took the log over first.
            TakeoverContendedError: the log's record changed during every attempt, and no other client won; try again.
            TakeoverTimeoutError: not done within `takeover_timeout_s`; the takeover may have happened.
            NotEnoughBookiesError: too few writable bookies for a ledger (docs/log-semantics.md#rule-19b).
            LedgerRecoveryError: too few bookies respond to fence and recover the log's last ledgers.
            DataLossError: a ledger whose end is not recorded does not exist and is not in `given_up`
                (docs/log-semantics.md#rule-23).
            UnauthorizedError: `config.password` is not the password of the log's ledgers.
            ConfigurationError: `wait_for_current_owner` is negative, `hand_over` is false without it,
                `on_takeover_lost` is unknown, or the log has more producers than `ledger.entry_bytes_max` leaves
                capacity for; or the client was closed in the meantime, and the takeover may have happened.

        Source: docs/log-semantics.md#rule-20 to #rule-23.
        """
        require_type("create", create, bool)
        wait = owner_wait(wait_for_current_owner, hand_over=hand_over)
        on_lost = require_choice("on_takeover_lost", on_takeover_lost, tuple(OnTakeoverLost))
        return Opening(self._open_writer(log, create, given_up, wait, on_lost))

    async def _open_writer(
        self,
        log: str,
        create: bool,
        given_up: Collection[LedgerId],
        wait: OwnerWait | None,
        on_lost: OnTakeoverLost,
    ) -> LogWriter:
        self._check_open(log)
        ended_by_close = asyncio.timeout(None)
        try:
            async with ended_by_close:
                self._openings.add(ended_by_close)
                try:
                    writer = await self._opening.open(
                        self.name(log), create=create, given_up=given_up, wait=wait, on_lost=on_lost
                    )
                finally:
                    self._openings.discard(ended_by_close)
        except TimeoutError:
            if ended_by_close.expired():
                self._check_open(log)
            raise
        try:
            self._check_open(log)
        except ConfigurationError:
            writer.abort()
            raise
        self._ended = [ended for ended in self._ended if ended.has_unread_failures]
        self._writers[writer] = None
        writer.over.add_done_callback(lambda _: self._on_over(writer))
        return writer

    def _on_over(self, writer: LogWriter) -> None:
        del self._writers[writer]
        if writer.has_unread_failures:
            self._ended.append(writer)

    def _check_open(self, log: str) -> None:
        self.ledgers.check_loop()
        if self._releasing is not None:
            raise ConfigurationError(
                f"the client was closed before the writer of log {log} was open: connect again"
            )

    # ---- reading

    def reader(
        self,
        log: str,
        start: Where | None = None,
        *,
        after: Where | None = None,
        until: Where | None = None,
        last: int | None = None,
        cursor: str | None = None,
        on_trimmed: OnMissing | str = OnMissing.FAIL,
        on_data_loss: OnMissing | str = OnMissing.FAIL,
        config: ReaderConfig | None = None,
    ) -> Reader:
        """A reader of messages from `start` (inclusive), after `after`, or of the `last` n, up to `until` (exclusive).

        Give at most one of `start`, `after` and `last`; the default is the earliest message. Each position is a
        MessageId, its text, `"earliest"`, `"latest"`, or a datetime with its time zone (`after` takes an id only).
        `NO_MESSAGE` is an id before everything. `"latest"` is the tail when the reader opens; a time is the first
        message that was appended at or after it, the tail if there is none then. Without `until` the reader waits for
        more messages. It fences nothing and changes nothing. Nothing is read before the reader opens, which is also
        when a missing log is reported.

        `cursor`: the name of a position that is stored with the log. The reader starts there, and `Reader.ack` moves
        it. If the log has none of this name, it is created when the reader opens, where the reader would start without
        it. Opening takes it over: an older reader with this cursor can no longer move it.

        `on_trimmed`: what to do when messages at the position were trimmed: `fail`, `skip` or `gap` (returned by
        `items` and `batch_items`). `on_data_loss`: the same for messages that are lost; `skip` is not allowed.

        Raises:
            ConfigurationError: more than one start, `last` below 1, a time without a time zone, an unknown policy, or
                `until` before where the reader begins: two ids or two times in the wrong order, or `"earliest"`.
            InvalidNameError: a position is not a valid message id, or `cursor` not a valid name.

        Source: docs/log-semantics.md#rule-28, #rule-29, #rule-31, #rule-35.
        """
        reader = Reader(
            self.logs,
            self.ledgers,
            self.name(log),
            read_range(start=start, after=after, until=until, last=last),
            self._slow_polls,
            self._read_ahead,
            config=config,
            on_trimmed=on_trimmed,
            on_data_loss=on_data_loss,
            password=self.config.password,
            cursor=cursor,
        )
        self._readers[reader] = None
        return reader

    def tail(
        self,
        log: str,
        *,
        start: Where | None = None,
        last: int | None = None,
        follow: bool = True,
        config: ReaderConfig | None = None,
    ) -> Reader:
        """A reader of new messages: from the tail, from `start`, or from the `last` n before the tail.

        Without `follow` the reader ends at the tail as of its opening, otherwise it waits for more messages.

        Raises:
            ConfigurationError: both `start` and `last` are given, or `last` is negative.
            InvalidNameError: `start` is not a valid message id.
        """
        require_type("last", last, int, type(None))
        require_type("follow", follow, bool)
        if start is None and not last:
            start, last = "latest", None
        return self.reader(log, start, last=last, until=None if follow else "latest", config=config)

    # ---- cursors

    async def cursors(self, log: str) -> Sequence[Cursor]:
        """The log's cursors, sorted by name.

        Raises:
            LogNotFoundError: no such log.
            RecordFormatError: a cursor is damaged.
        """
        return await self.logs.cursors.all(await self.logs.find(self.name(log)))

    async def cursor_lag(self, log: str, cursor: str) -> Lag:
        """How far the cursor is behind the tail: readable messages, entries and bytes from its position on, and
        ledgers after it.

        Raises:
            LogNotFoundError: no such log, or it is being deleted.
            CursorNotFoundError: no such cursor.
            ReadError, DataLossError: the tail cannot be determined.
        """
        ref = await self.logs.find(self.name(log))
        found = await self.logs.cursors.read(ref, check_log_name(cursor))
        return await lag_behind(found.position, self.logs, ref, self.ledgers, self.config.password)

    async def set_cursor(
        self, log: str, cursor: str, position: Where, *, properties: Mapping[str, str] | None = None
    ) -> Cursor:
        """Set the cursor to a position, forward or back, or create it there; returns it.

        The reader that holds it can no longer move it: its next `ack` raises CursorMovedError. `position` is what a
        reader takes as its start; a time in a ledger or an entry that is lost is where that begins. Without
        `properties` the cursor keeps those that it has.

        Raises:
            UnknownPositionError: the position is above the tail.
            LogNotFoundError: no such log, or it is being deleted.
            InvalidNameError: `cursor` is not a valid name, or `position` not a valid message id.
            ConfigurationError: `position` is a time without a time zone, or the properties are not valid.
            ReadError, DataLossError: the tail cannot be determined.
            ContendedError: others changed it during every attempt; try again.

        Source: docs/log-semantics.md#rule-35.
        """
        require_type("position", position, MessageId, str, datetime)
        wanted, name = read_range(start=position), check_log_name(cursor)
        kept = None if properties is None else checked_properties(properties)
        ref = await self.logs.find(self.name(log))
        places = Places(self.logs, ref, self.ledgers, self.config.password, accept_loss=True)
        found = await places.begin(wanted)

        def change(now: Cursor) -> Cursor:
            return replace(now, position=found, properties=now.properties if kept is None else kept)

        async def begin() -> MessageId:
            return found

        taken = (await self.logs.cursors.take(ref, name, begin, change)).value.cursor
        assert taken is not None, "it was just set"
        return taken

    async def delete_cursor(self, log: str, cursor: str) -> None:
        """Remove a cursor. The reader that holds it can no longer move it; a later one creates it anew.

        Raises:
            LogNotFoundError: no such log.
            CursorNotFoundError: no such cursor.
            ContendedError: others changed it during every attempt; try again.
        """
        await self.logs.cursors.remove(await self.logs.find(self.name(log)), check_log_name(cursor))

    # ---- looking into a log

    async def overview(self, log: str) -> Overview:
        """The log in a few facts: its record, its first and its next id, and what its ledgers hold.

        `messages` and `bytes` are those of all ledgers, also of the open one; they and `tail` are None if too few
        bookies respond.

        Raises:
            LogNotFoundError: no such log.
            DataLossError: an unsealed listed ledger does not exist.
            UnauthorizedError: `config.password` is not the password of the log's ledgers.
        """
        return await overview(self, log)

    async def list_ledgers(self, log: str) -> Sequence[ListedLedger]:
        """Every ledger that the log lists, oldest first.

        A ledger that was closed after the last change of the log's record has the seal that it has itself. Bookies
        are asked for the first and the last entry of such a ledger only, and are not needed; nor is the log's password,
        without which such a ledger is shown without its seal.

        Raises:
            LogNotFoundError: no such log.
            HistoryPageError: a part of the list is lost.
        """
        return await with_own_seals(self, await listed_ledgers(self, log))

    async def history(self, log: str) -> Sequence[HistoryEvent]:
        """Takeovers and rotations of the log, and its seal, oldest first. Bookies are asked as `list_ledgers` does.

        The first entry of an open ledger is read for the pause before it, if enough bookies respond.

        Raises:
            LogNotFoundError: no such log.
            HistoryPageError: a part of the list is lost.
        """
        return await history(self, log)

    async def verify(
        self, log: str, *, on_progress: Progress | None = None
    ) -> Sequence[LedgerCopies | UncheckedLedger]:
        """Read every copy of every entry from the bookie that should have it; returns what was found, by ledger.

        Of a ledger that is lost, or open while too few bookies respond, it is why nothing could be checked.
        `on_progress` is called, in the thread of the client's loop, with the number of entries that were just checked.
        It reads the whole log, on each bookie.

        Raises:
            LogNotFoundError: no such log, or it is being deleted.
            HistoryPageError: a part of the list is lost.
        """
        if on_progress is not None and not callable(on_progress):
            raise ConfigurationError(f"on_progress must be a function or None, got {on_progress!r}")
        return [found async for found in verify(self, log, on_progress or (lambda entries: None))]

    async def explain(self, log: str, message_id: MessageId | str) -> Explanation:
        """What became of the message, and where its copies are.

        Raises:
            InvalidNameError: `message_id` is not a valid message id.
            LogNotFoundError: no such log, or it is being deleted.
            UnknownPositionError: the id is above every ledger of the log.
            DataLossError: the listed ledger of the id does not exist, or its metadata is damaged.
            ReadError, EntryNotFoundError, DataLossError: the entry is confirmed, and no copy can be read.
            EntryFormatError: the entry cannot be decoded.
        """
        return await explain(self, log, MessageId.of(message_id))

    def metadata_cache(self) -> Opening[MetadataCache]:
        """Open a view of the cluster's metadata in memory, which watches keep current; it is closed with its block.

        On return it has the registered bookies; logs and ledgers are in it once they are followed. For programs that
        ask often: open one and share it. It may be stale, and decides nothing that must be right.

        Raises:
            MetadataUnavailableError: the metadata store cannot be reached, or holds no cluster.
            ConfigurationError: the client is closed.
        """
        return Opening(self._metadata_cache())

    async def _metadata_cache(self) -> MetadataCache:
        cache = MetadataCache(self._store, self.logs, self._environment, self.namespace)
        try:
            self._check_usable()
            await cache.start()
            self._check_usable()
        except BaseException:
            await cache.close()
            raise
        self._caches[cache] = None
        return cache

    def _check_usable(self) -> None:
        if self._releasing is not None:
            raise ConfigurationError("this client is closed: connect again")

    # ---- properties

    async def properties(self, log: str) -> dict[str, str]:
        """What programs have stored with the log, by name.

        Raises:
            LogNotFoundError: no such log.
            RecordFormatError: they are damaged.
        """
        return await self._properties.read(await self.logs.find(self.name(log)))

    async def update_properties(self, log: str, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Store texts with the log, in one change: those whose value is None are removed, others are kept; returns all.

        They have 64 names at most, and 32 KiB together. They do not disturb the log's writer.

        Raises:
            LogNotFoundError: no such log.
            ConfigurationError: they are no texts, too many or too long.
            RecordFormatError: those that are there are damaged.
            ContendedError: others changed them during every attempt; try again.
        """
        require_type("changes", changes, Mapping)
        return await self._properties.update(await self.logs.find(self.name(log)), changes)

    # ---- retention

    async def retention(self, log: str) -> Retention:
        """What of the log is kept; without rules if none was set: then everything is.

        Raises:
            LogNotFoundError: no such log.
            RecordFormatError: it is damaged.
        """
        return await self._retention.read(await self.logs.find(self.name(log)))

    async def set_retention(self, log: str, retention: Retention) -> None:
        """Replace what of the log is kept. Trims nothing: `apply_retention` does, and `dlog gc`.

        Raises:
            LogNotFoundError: no such log.
            ConfigurationError: `retention` is no Retention.
            ContendedError: others changed it during every attempt; try again.
        """
        require_type("retention", retention, Retention)
        await self._retention.set(await self.logs.find(self.name(log)), retention)

    async def plan_retention(self, log: str, retention: Retention | None = None) -> RetentionPlan:
        """What this retention, by default the log's own, would trim now. Changes nothing and asks no bookie.

        Raises:
            LogNotFoundError: no such log.
            RecordFormatError: the log's retention is damaged, or a cursor that it depends on.
        """
        require_type("retention", retention, Retention, type(None))
        return await self._retention.plan(await self.logs.find(self.name(log)), retention)

    async def apply_retention(self, log: str) -> RetentionPlan:
        """Trim what the log's retention lets go; returns what was trimmed.

        It trims as `shrink` does, whole ledgers only; their space is freed by `collect` or by the log's owner.

        Raises:
            LogNotFoundError: no such log.
            RecordFormatError: the retention is damaged, or a cursor that it depends on.
            ContendedError: the log's record changed during every attempt; try again.

        Source: docs/log-semantics.md#rule-34.
        """
        return await self._retention.apply(await self.logs.find(self.name(log)))

    # ---- administration

    async def list(self) -> list[str]:
        """Names of the logs in the namespace, sorted. Includes logs whose deletion is not finished."""
        self._check_usable()
        return await self.logs.names(self.namespace)

    async def describe(self, log: str) -> LogInfo:
        """The log's record, read linearizably. Asks no bookie.

        A log whose deletion is not finished is described too, in state `deleting`.

        Raises:
            LogNotFoundError: no such log.
        """
        return await self.admin.describe(self.name(log))

    async def resolve(self, log: str, message_id: MessageId | str) -> Resolution:
        """The outcome of an append that raised AppendIndeterminateError; `message_id` is that error's.

        COMMITTED, ABSENT and TRIMMED are final (a committed message may be trimmed later). UNDECIDED: the id is above
        what is confirmed in a ledger that is not sealed; opening a writer decides it. Of a message that is COMMITTED, a
        call that reaches other bookies may say UNDECIDED until its ledger is sealed, and never ABSENT. Fences nothing.

        An id with a batch index above 0 takes a read of its entry, which says how many messages it has.

        Raises:
            InvalidNameError: `message_id` is not a valid message id.
            LogNotFoundError: no such log, or it is being deleted.
            UnknownPositionError: the id is above every ledger of the log, so no append can have had it.
            DataLossError: the listed ledger of the id, or its entry, is lost.
            EntryFormatError, DigestMismatchError: the entry of the id is damaged.
            ReadError: too few bookies respond.

        Source: docs/log-semantics.md#rule-8.
        """
        found = MessageId.of(message_id)
        ref = await self.logs.find(self.name(log))
        return await resolve(self.logs, ref, self.ledgers, found, self.config.password)

    async def rotate(self, log: str, *, force: bool = False) -> LogInfo:
        """Seal the log's active ledger; returns the new record.

        Only an owner rotates (docs/log-semantics.md#rule-16, #rule-34b), so the current writer is asked to, and goes on
        in a new ledger. An empty ledger is kept. If nothing is open, nothing changes. With `force` a writer that does
        not answer, or cannot rotate, is deposed: the log is taken over and closed.

        Raises:
            LogNotFoundError: no such log.
            OwnerUnresponsiveError: the writer does not answer within `owner_answer_s`, or has not rotated within
                `takeover_timeout_s`.
            RotationFailedError: the writer cannot rotate now.
            The errors of `open_writer`, with `force`.

        Source: docs/log-semantics.md#rule-22b.
        """
        require_type("force", force, bool)
        try:
            await self._opening.rotate(self.name(log))
        except (OwnerUnresponsiveError, RotationFailedError):
            if not force:
                raise
            writer = await self.open_writer(log)
            await writer.close()
        return await self.describe(log)

    async def shrink(self, log: str, before: MessageId | str) -> LogMetadata:
        """Trim: make every message below `before` invisible for good; returns the log's record.

        Readers opened afterwards do not return them. Ledgers completely below `before` leave the list if their seal is
        recorded, but never the last one; the owner or `collect` deletes them later. An id at or below the current trim
        position changes nothing. Needs no bookie unless `before` is inside or after an unsealed ledger.

        Raises:
            ShrinkRefusedError: `before` is above the tail.
            ReadError: too few bookies respond to determine the tail.
            LogNotFoundError: no such log, or it is being deleted.
            InvalidNameError: `before` is not a valid message id.
            DataLossError: the tail cannot be determined since an unsealed listed ledger does not exist.
            ContendedError: the record changed during every attempt; try again.

        Source: docs/log-semantics.md#rule-33.
        """
        return await self.admin.shrink(self.name(log), position_of(before))

    async def seal(self, log: str) -> LogMetadata:
        """Seal the log permanently: it stays readable and takes no writer; returns the log's record.

        On return its writer is fenced and every ledger is sealed; readers end at the last message. A sealed log is
        left as it is.

        Raises:
            LogNotFoundError: no such log.
            LogSealedError: the log is being deleted.
            TakeoverLostError: another client took the log over first.
            TakeoverContendedError: the log's record changed during every attempt; try again.
            TakeoverTimeoutError: not done within `takeover_timeout_s`; it may have happened.
            LedgerRecoveryError: too few bookies respond to fence and recover the log's last ledgers.
            DataLossError: a ledger whose end is not recorded does not exist.

        Source: docs/log-semantics.md#rule-34b.
        """
        return await self.admin.seal(self.name(log))

    async def delete(self, log: str, *, given_up: Collection[LedgerId] = ()) -> bool:
        """Fence the writer, then delete the log and its ledgers. True once all are deleted and the name is free.

        False if some ledgers must be kept for the log's grace, because a writer that is paused may still add entries
        to them. Then the log takes no writer and no reader; a later `delete` or `collect` finishes the deletion. An
        interrupted deletion is resumed by calling again.

        `given_up`: ids of listed ledgers that are lost, or whose bookies are. The writer of one that cannot be fenced
        must have ended: it may acknowledge messages that are deleted with the log (docs/log-semantics.md#rule-23).

        Raises:
            LogNotFoundError: no such log.
            HistoryPageError: a later release has written a part of the ledger list; delete with that release.
            The errors of `seal`, except LogSealedError.

        Source: docs/log-semantics.md#rule-25, #rule-34b.
        """
        require_ledger_ids(given_up)
        return await self.admin.delete(self.name(log), given_up)

    async def sweep(self) -> Sequence[LedgerId]:
        """Delete empty ledgers that crashed takeovers and rotations left behind, of any log under this root.

        Also the ledgers of a sink that are not listed, once their batch was published with others, or after a week.
        Returns their ids. A ledger younger than ten minutes, of another application, of another root, or a writer's
        that holds an entry is left alone. One that cannot be decided now, because bookies do not respond, is skipped
        with a warning.

        Also the metadata that an interrupted deletion of a log has left after the log's name was free.

        Source: docs/log-semantics.md#orphan-sweep, #crash-windows.
        """
        self._check_usable()
        await self.admin.remove_left_records()
        return await self.admin.sweep()

    async def collect(self, log: str) -> LogMetadata | None:
        """Delete the log's unlisted ledgers whose grace has passed, and finish an interrupted deletion of the log.

        Returns the log's record, or None once a log that was being deleted is completely deleted.

        Raises:
            LogNotFoundError: no such log.
            ContendedError: the record kept changing; what was deleted stays deleted.

        Source: docs/log-semantics.md#rule-25.
        """
        return await self.admin.collect(self.name(log))


async def _close(writer: LogWriter, failures: list[AppendsFailedError]) -> None:
    try:
        await writer.close()
    except AppendsFailedError as failure:
        failures.append(failure)


def _check_codec(config: LogConfig) -> None:
    """A compression library that is missing shows here, not at the first append."""
    encode_entry(Columns([None], [b"\0" * 256], [NO_HEADERS]), epoch=0, append_time_us=0, codec=config.codec)
