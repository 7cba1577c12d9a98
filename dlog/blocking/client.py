# mypy: disable-error-code="empty-body"
"""The blocking API: the same client, writer and reader for programs without an event loop.

Every object here holds its asyncio counterpart and passes calls to one background loop (loop_thread.py); nothing is
decided here. A method whose body is `...` is implemented by its decorator (forwarding.py). Thread-safe: calls from
several threads are independent. After a fork the child must connect again: objects that it inherited raise ForkedError.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import warnings
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self
from weakref import WeakSet

from dlog.admin import LogInfo
from dlog.blocking.deadline import Deadline
from dlog.blocking.forwarding import forwards
from dlog.blocking.loop_thread import LoopThread
from dlog.blocking.metadata_cache import MetadataCache
from dlog.blocking.not_copied import NotCopied
from dlog.blocking.reader import Reader
from dlog.blocking.writer import Writer
from dlog.cache.metadata_cache import MetadataCache as AsyncMetadataCache
from dlog.client import LogClient
from dlog.client import connect as connect_async
from dlog.config import LogConfig
from dlog.core.tailing import OnMissing
from dlog.core.takeover import OnTakeoverLost
from dlog.errors import AppendsFailedError, CallTimeoutError
from dlog.inspection.explain import Explanation
from dlog.inspection.history import HistoryEvent
from dlog.inspection.overview import Overview
from dlog.inspection.verify import Progress, UncheckedLedger
from dlog.log_retention import RetentionPlan
from dlog.model import DEFAULT_NAMESPACE, Cursor, ListedLedger, LogMetadata, MessageId, Retention
from dlog.read.backlog import Lag
from dlog.read.config import ReaderConfig
from dlog.read.range import Where
from dlog.read.reader import Reader as AsyncReader
from dlog.read.resolution import Resolution
from dlog.write.unread_failures import in_one, raise_unless_raising
from dlog.write.writer import LogWriter
from ledger.errors import ConfigurationError
from ledger.inspection.copies import LedgerCopies
from ledger.model import LedgerId

_log = logging.getLogger(__name__)


class Client(NotCopied):
    """The logs of one namespace. Obtained from `dlog.connect`; `with` closes it and everything opened through it.

    Every method raises ForkedError in a process forked from the one that connected, ConfigurationError once the client
    is closed, MetadataUnavailableError if the metadata store cannot be reached (the change was not made), and
    MetadataOutcomeUnknownError if the answer to a change was lost (it may have been made). Ctrl-C cancels the call, and
    so does `timeout_s` (in seconds; without it a call may wait as long as the client's settings allow).
    """

    def __init__(self, thread: LoopThread, client: LogClient) -> None:
        self._thread = thread
        self._target = client
        self._writers: set[Writer] = set()
        self._warned = False
        _open_clients.add(self)

    def __repr__(self) -> str:
        text = repr(self._target)
        return f"{text[:-1]} closed>" if self._thread.closed else text

    @property
    def uri(self) -> str:
        """Canonical address of the metadata store."""
        return self._target.uri

    @property
    def namespace(self) -> str:
        """The namespace of this client's logs."""
        return self._target.namespace

    # ---- writing and reading

    def _writer(self, writer: LogWriter) -> Writer:
        opened = Writer(self._thread, writer)
        # Kept although its user may drop it: failed appends are reported when the client is closed.
        self._writers = {one for one in self._writers if one.is_open} | {opened}
        return opened

    def _reader(self, reader: AsyncReader) -> Reader:
        return Reader(self._thread, reader)

    def _cache(self, cache: AsyncMetadataCache) -> MetadataCache:
        return MetadataCache(self._thread, cache)

    @forwards(LogClient.open_writer, _writer)
    def open_writer(
        self,
        log: str,
        *,
        create: bool = False,
        given_up: Collection[LedgerId] = (),
        wait_for_current_owner: float | None = None,
        hand_over: bool = True,
        on_takeover_lost: OnTakeoverLost | str = OnTakeoverLost.FAIL,
        timeout_s: float | None = None,
    ) -> Writer: ...

    @forwards(LogClient.reader, _reader)
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
    ) -> Reader: ...

    @forwards(LogClient.tail, _reader)
    def tail(
        self,
        log: str,
        *,
        start: Where | None = None,
        last: int | None = None,
        follow: bool = True,
        config: ReaderConfig | None = None,
    ) -> Reader: ...

    # ---- cursors

    @forwards(LogClient.cursors)
    def cursors(self, log: str, *, timeout_s: float | None = None) -> Sequence[Cursor]: ...

    @forwards(LogClient.cursor_lag)
    def cursor_lag(self, log: str, cursor: str, *, timeout_s: float | None = None) -> Lag: ...

    @forwards(LogClient.set_cursor)
    def set_cursor(
        self,
        log: str,
        cursor: str,
        position: Where,
        *,
        properties: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Cursor: ...

    @forwards(LogClient.delete_cursor)
    def delete_cursor(self, log: str, cursor: str, *, timeout_s: float | None = None) -> None: ...

    # ---- looking into a log

    @forwards(LogClient.overview)
    def overview(self, log: str, *, timeout_s: float | None = None) -> Overview: ...

    @forwards(LogClient.list_ledgers)
    def list_ledgers(self, log: str, *, timeout_s: float | None = None) -> Sequence[ListedLedger]: ...

    @forwards(LogClient.history)
    def history(self, log: str, *, timeout_s: float | None = None) -> Sequence[HistoryEvent]: ...

    @forwards(LogClient.verify)
    def verify(
        self, log: str, *, on_progress: Progress | None = None, timeout_s: float | None = None
    ) -> Sequence[LedgerCopies | UncheckedLedger]: ...

    @forwards(LogClient.explain)
    def explain(
        self, log: str, message_id: MessageId | str, *, timeout_s: float | None = None
    ) -> Explanation: ...

    @forwards(LogClient.metadata_cache, _cache)
    def metadata_cache(self, *, timeout_s: float | None = None) -> MetadataCache: ...

    # ---- properties

    @forwards(LogClient.properties)
    def properties(self, log: str, *, timeout_s: float | None = None) -> dict[str, str]: ...

    @forwards(LogClient.update_properties)
    def update_properties(
        self, log: str, changes: Mapping[str, str | None], *, timeout_s: float | None = None
    ) -> dict[str, str]: ...

    # ---- retention

    @forwards(LogClient.retention)
    def retention(self, log: str, *, timeout_s: float | None = None) -> Retention: ...

    @forwards(LogClient.set_retention)
    def set_retention(self, log: str, retention: Retention, *, timeout_s: float | None = None) -> None: ...

    @forwards(LogClient.plan_retention)
    def plan_retention(
        self, log: str, retention: Retention | None = None, *, timeout_s: float | None = None
    ) -> RetentionPlan: ...

    @forwards(LogClient.apply_retention)
    def apply_retention(self, log: str, *, timeout_s: float | None = None) -> RetentionPlan: ...

    # ---- administration

    @forwards(LogClient.create)
    def create(self, log: str, *, timeout_s: float | None = None) -> None: ...

    @forwards(LogClient.describe)
    def describe(self, log: str, *, timeout_s: float | None = None) -> LogInfo: ...

    @forwards(LogClient.resolve)
    def resolve(
        self, log: str, message_id: MessageId | str, *, timeout_s: float | None = None
    ) -> Resolution: ...

    @forwards(LogClient.rotate)
    def rotate(self, log: str, *, force: bool = False, timeout_s: float | None = None) -> LogInfo: ...

    @forwards(LogClient.shrink)
    def shrink(self, log: str, before: MessageId | str, *, timeout_s: float | None = None) -> LogMetadata: ...

    @forwards(LogClient.seal)
    def seal(self, log: str, *, timeout_s: float | None = None) -> LogMetadata: ...

    @forwards(LogClient.delete)
    def delete(
        self, log: str, *, given_up: Collection[LedgerId] = (), timeout_s: float | None = None
    ) -> bool: ...

    @forwards(LogClient.sweep)
    def sweep(self, *, timeout_s: float | None = None) -> Sequence[LedgerId]: ...

    @forwards(LogClient.collect)
    def collect(self, log: str, *, timeout_s: float | None = None) -> LogMetadata | None: ...

    # Last of them: below it `list` is this method.
    @forwards(LogClient.list)
    def list(self, *, timeout_s: float | None = None) -> list[str]: ...

    # ---- life

    def close(self, timeout_s: float | None = None) -> None:
        """Close everything opened through it, connections and the background loop; a second call does nothing.

        Writers are closed first: each waits for the outcome of every append it has accepted. Bookies that are behind
        get up to 10 s, while they answer, to store their copies; what they lack is marked for repair. After `timeout_s`
        seconds, or if interrupted, appends in flight end indeterminate and those not sent are aborted; everything is
        closed all the same. In a process forked from the one that connected, and in what Python calls after the
        functions of `atexit`, it does nothing.

        Raises:
            AppendsFailedError: an append failed and its outcome was not read. Raised after everything is closed.
            ConfigurationError: `timeout_s` is not a number of 0 or more; or a function that the client calls, as the
                callback of an append, has called this. Nothing is closed then.
        """
        if self._thread.lost:
            return
        Deadline(timeout_s)  # checked before anything is closed
        with self._thread.unless_closed():
            if self._thread.usable:
                self._thread.check()
        try:
            # No call between `try` and this one: an interrupt there would end the thread with everything open.
            if self._thread.usable:
                self._settle(timeout_s)
        except ConfigurationError:
            if not self._thread.closed:  # else another thread has closed it first
                raise
        finally:
            self._thread.close()
        found = [writer.unread_failures() for writer in self._writers]
        if (failure := in_one([one for one in found if one is not None])) is not None:
            raise failure

    def abandon(self) -> None:
        """As `close`, but waits for nothing and raises nothing; from any thread, that of the loop included."""
        if self._thread.usable:
            self._thread.end_after(self._target.close)

    def _settle(self, timeout_s: float | None) -> None:
        try:
            self._thread.run_within(timeout_s, "close", self._close)
        except CallTimeoutError:  # perhaps before it had begun
            self._thread.run(self._give_up)
        except BaseException:  # Ctrl-C
            with suppress(ConfigurationError):  # closed by another thread
                self._thread.run(self._give_up)
            raise

    async def _close(self) -> None:
        try:
            # What was submitted and is still on its way to the loop was accepted, too.
            await asyncio.gather(*(writer.drain() for writer in self._writers))
        except asyncio.CancelledError:
            await self._give_up()
            raise
        await self._target.close()

    async def _give_up(self) -> None:
        for writer in self._target.writers:
            writer.abort()
        self._target.ledgers.hurry()
        await self._target.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except AppendsFailedError as failure:
            raise_unless_raising(failure, error)

    def __del__(self) -> None:
        self.warn_unclosed()

    def warn_unclosed(self) -> None:
        """Emit a ResourceWarning if it is not closed, and log which writers have appends without an outcome."""
        if self._warned or not self._thread.usable:
            return
        self._warned = True
        warnings.warn(f"unclosed client of {self.uri}", ResourceWarning, source=self, stacklevel=3)
        for writer in self._writers:
            if writer.has_undecided:
                _log.warning(
                    "the client of log %s was not closed: appends that are under way may be lost; call close() or "
                    "flush(), or use 'with'",
                    writer.log,
                )


_open_clients: WeakSet[Client] = WeakSet()


@atexit.register
def _warn_unclosed() -> None:
    for client in list(_open_clients):
        client.warn_unclosed()


def connect(
    uri: str | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    *,
    config: LogConfig | None = None,
    timeout_s: float | None = None,
) -> Client:
    """Connect to the cluster whose metadata is at `uri`, for example `sqlite:///data/meta.db`.

    Without `uri` the environment variable DLOG_METADATA gives the address, as for the `dlog` command. On return the
    client knows the registered bookies and runs a background thread with its event loop. Starts no process. Closing the
    client, also by `with`, closes everything opened through it.

    Raises:
        ConfigurationError: no address is given, `uri` has an unknown scheme, or `config` is not a LogConfig.
        InvalidNameError: `namespace` is not a valid name.
        MissingExtraError: the metadata driver or the codec needs a package that is not installed.
        MetadataUnavailableError: there is no cluster at `uri`, or the metadata store cannot be reached.
        CallTimeoutError: not connected within `timeout_s` seconds.
    """
    thread = LoopThread("dlog client")
    try:
        client = thread.run_within(timeout_s, "connect", connect_async, uri, namespace, config=config)
        client.warns_unclosed = False  # the blocking one does
        return Client(thread, client)
    except BaseException:
        thread.close()
        raise
