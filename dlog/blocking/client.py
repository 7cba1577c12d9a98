"""The blocking API: the same client, writer and reader for programs without an event loop.

Every object here holds its asyncio counterpart and passes calls to one background loop (loop_thread.py); nothing is
decided here. Thread-safe: calls from several threads are independent. After a fork the child must connect again:
objects that it inherited raise ForkedError.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import warnings
from collections.abc import Collection
from types import TracebackType
from typing import Self
from weakref import WeakSet

from dlog.admin import LogInfo
from dlog.blocking.loop_thread import LoopThread
from dlog.blocking.reader import Reader
from dlog.blocking.writer import Writer
from dlog.client import DEFAULT_NAMESPACE, LogClient
from dlog.client import connect as connect_async
from dlog.config import LogConfig
from dlog.core.tailing import OnMissing
from dlog.errors import AppendsFailedError
from dlog.model import LogMetadata, MessageId
from dlog.read.config import ReaderConfig
from dlog.read.range import Where
from dlog.write.unread_failures import in_one, raise_unless_raising
from ledger.model import LedgerId

_log = logging.getLogger(__name__)


class Client:
    """The logs of one namespace. Obtained from `dlog.connect`; `with` closes it and everything opened through it.

    Every method raises ForkedError in a process forked from the one that connected, ConfigurationError once the client
    is closed, MetadataUnavailableError if the metadata store cannot be reached (the change was not made), and
    MetadataOutcomeUnknownError if the answer to a change was lost (it may have been made). Ctrl-C cancels the call.
    """

    def __init__(self, thread: LoopThread, client: LogClient) -> None:
        self._thread = thread
        self._client = client
        self._writers: set[Writer] = set()
        self._warned = False
        _open_clients.add(self)

    def __repr__(self) -> str:
        return repr(self._client)

    @property
    def uri(self) -> str:
        """Canonical address of the metadata store."""
        return self._client.uri

    @property
    def namespace(self) -> str:
        """The namespace of this client's logs."""
        return self._client.namespace

    # ---- writing and reading

    def open_writer(self, log: str, *, create: bool = True, given_up: Collection[LedgerId] = ()) -> Writer:
        """Take the log over and return its writer. With `create` a missing log is created first.

        On return the previous writer is fenced and appends go to a new, listed ledger.
        `given_up`: ids of listed ledgers that are lost and whose loss is accepted.

        Raises:
            LogNotFoundError: no such log, and `create` is false.
            LogSealedError: the log is sealed or being deleted.
            TakeoverLostError: another client took the log over first.
            TakeoverContendedError: the log's record changed during every attempt, and no other client won; try again.
            TakeoverTimeoutError: not done within `takeover_timeout_s`; the takeover may have happened.
            NotEnoughBookiesError: too few writable bookies for a ledger.
            LedgerRecoveryError: too few bookies respond to fence and recover the log's last ledgers.
            DataLossError: a ledger to be fenced does not exist and is not in `given_up`.
            UnauthorizedError: `config.password` is not the password of the log's ledgers.

        Source: docs/log-semantics.md#rule-20 to #rule-23.
        """
        return self._thread.run(self._open_writer, log, create, given_up)

    async def _open_writer(self, log: str, create: bool, given_up: Collection[LedgerId]) -> Writer:
        writer = Writer(self._thread, await self._client.open_writer(log, create=create, given_up=given_up))
        # Kept although its user may drop it: failed appends are reported when the client is closed.
        self._writers = {one for one in self._writers if one.is_open} | {writer}
        return writer

    def reader(
        self,
        log: str,
        start: Where | None = None,
        *,
        after: Where | None = None,
        until: Where | None = None,
        last: int | None = None,
        on_trimmed: OnMissing | str = OnMissing.FAIL,
        on_data_loss: OnMissing | str = OnMissing.FAIL,
        config: ReaderConfig | None = None,
    ) -> Reader:
        """A reader of messages from `start` (inclusive), after `after`, or of the `last` n, up to `until` (exclusive).

        Give at most one of `start`, `after` and `last`; the default is the earliest message. Each position is a
        MessageId, its text, `"earliest"` or `"latest"` (`after` takes an id only). `"latest"` is the tail when the
        reader opens. Without `until` the reader waits for more messages. It fences nothing and changes nothing.

        `on_trimmed`: `fail`, `skip` or `gap`, when messages at the position were trimmed; `on_data_loss`: `fail` or
        `gap`.

        Raises:
            ConfigurationError: more than one start, `last` below 1, or an unknown policy.
            InvalidNameError: a position is not a valid message id.

        Source: docs/log-semantics.md#rule-28, #rule-29.
        """
        return Reader(
            self._thread,
            self._client.reader(
                log,
                start,
                after=after,
                until=until,
                last=last,
                on_trimmed=on_trimmed,
                on_data_loss=on_data_loss,
                config=config,
            ),
        )

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
        return Reader(
            self._thread, self._client.tail(log, start=start, last=last, follow=follow, config=config)
        )

    # ---- administration

    def create(self, log: str) -> None:
        """Create an empty log: no ledgers, epoch 0, no owner.

        Raises:
            LogExistsError: a log of this name exists.
        """
        self._thread.run(self._client.create, log)

    def list(self) -> list[str]:
        """Names of the logs in the namespace, sorted. Includes logs whose deletion is not finished."""
        return self._thread.run(self._client.list)

    def describe(self, log: str) -> LogInfo:
        """The log's record, read linearizably. Asks no bookie.

        Raises:
            LogNotFoundError: no such log.
        """
        return self._thread.run(self._client.describe, log)

    def rotate(self, log: str) -> LogInfo:
        """Seal the log's active ledger by taking the log over and closing the writer; returns the new record.

        Deposes the current writer. A program that has it open calls `Writer.rotate` instead.

        Raises:
            LogNotFoundError: no such log.
            The errors of `open_writer`.
        """
        return self._thread.run(self._client.rotate, log)

    def shrink(self, log: str, before: MessageId | str) -> LogMetadata:
        """Trim: make every message below `before` invisible for good; returns the log's record.

        Readers opened afterwards do not return them. Ledgers completely below `before` whose seal is recorded leave
        the list and are deleted later. An id at or below the current trim position changes nothing.

        Raises:
            ShrinkRefusedError: `before` is above the tail, or the tail cannot be proved as too few bookies respond.
            LogNotFoundError: no such log, or it is being deleted.
            InvalidNameError: `before` is not a valid message id.
            DataLossError: the tail cannot be determined since an unsealed listed ledger does not exist.
            ContendedError: the record changed during every attempt; try again.

        Source: docs/log-semantics.md#rule-33.
        """
        return self._thread.run(self._client.shrink, log, before)

    def seal(self, log: str) -> LogMetadata:
        """Seal the log permanently: it stays readable and takes no writer; returns the log's record.

        On return its writer is fenced and every ledger is sealed. A sealed log is left as it is.

        Raises:
            LogNotFoundError: no such log.
            LogSealedError: the log is being deleted.
            TakeoverLostError, TakeoverContendedError, TakeoverTimeoutError: as in `open_writer`.
            LedgerRecoveryError: too few bookies respond to fence and recover the log's last ledgers.
            DataLossError: a ledger to be fenced does not exist.

        Source: docs/log-semantics.md#rule-34b.
        """
        return self._thread.run(self._client.seal, log)

    def delete(self, log: str) -> bool:
        """Fence the writer, then delete the log and its ledgers. True once all are deleted and the name is free.

        False if some ledgers must be kept for the log's grace, because a paused writer may still add entries to them:
        call again later. An interrupted deletion is resumed by calling again.

        Raises:
            LogNotFoundError: no such log.
            The errors of `seal`, except LogSealedError.

        Source: docs/log-semantics.md#rule-25, #rule-34b.
        """
        return self._thread.run(self._client.delete, log)

    # ---- life

    def close(self) -> None:
        """Close writers, readers, connections, the metadata store and the background loop; a second call does nothing.

        Writers are closed first: each waits for the outcome of every append it has accepted. In a process forked from
        the one that connected it does nothing.

        Raises:
            AppendsFailedError: an append failed and its outcome was not read. Raised after everything is closed.
        """
        if self._thread.forked:
            return
        try:
            if self._thread.usable:
                self._settle()
        finally:
            self._thread.close()
        found = [writer.unread_failures() for writer in self._writers]
        if (failure := in_one([one for one in found if one is not None])) is not None:
            raise failure

    def _settle(self) -> None:
        try:
            self._thread.run(self._close)
        except BaseException:  # Ctrl-C, perhaps before it had begun
            self._thread.run(self._give_up)
            raise

    async def _close(self) -> None:
        try:
            # What was submitted and is still on its way to the loop was accepted, too.
            await asyncio.gather(*(writer.drain() for writer in self._writers))
        except asyncio.CancelledError:
            await self._give_up()
            raise
        await self._client.close()

    async def _give_up(self) -> None:
        for writer in self._client.writers:
            writer.abort()
        await self._client.close()

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


def connect(uri: str, namespace: str = DEFAULT_NAMESPACE, *, config: LogConfig | None = None) -> Client:
    """Connect to the cluster whose metadata is at `uri`, for example `sqlite:///data/meta.db`.

    On return the client knows the registered bookies and runs a background thread with its event loop. Starts no
    process. Closing the client, also by `with`, closes everything opened through it.

    Raises:
        ConfigurationError: `uri` has an unknown scheme, or `config` is not a LogConfig.
        InvalidNameError: `namespace` is not a valid name.
        MissingExtraError: the metadata driver or the codec needs a package that is not installed.
        MetadataUnavailableError: there is no cluster at `uri`, or the metadata store cannot be reached.
    """
    thread = LoopThread("dlog client")
    try:
        return Client(thread, thread.run(connect_async, uri, namespace, config=config))
    except BaseException:
        thread.close()
        raise
