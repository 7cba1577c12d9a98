"""The blocking API: the same client, writer and reader for programs without an event loop.

Every object here holds its asyncio twin and passes calls to one background loop (loop_thread.py); nothing is decided
here. Safe to use from several threads, each call on its own. After a fork the child connects again: what it inherited
raises ForkedError.
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
    """The logs of one namespace. Obtained from dlog.connect; `with` closes it and all that it opened."""

    def __init__(self, thread: LoopThread, client: LogClient) -> None:
        self._thread = thread
        self._client = client
        self._writers: set[Writer] = set()
        self._warned = False
        _open_clients.add(self)

    @property
    def uri(self) -> str:
        return self._client.uri

    @property
    def namespace(self) -> str:
        return self._client.namespace

    # ---- writing and reading

    def open_writer(self, log: str, *, create: bool = True, given_up: Collection[LedgerId] = ()) -> Writer:
        """Take the log over: fence whoever wrote it, go on in a new ledger. Creates the log if asked.

        `given_up`: ledgers that are lost and whose loss you accept.
        """
        return self._thread.run(self._open_writer, log, create, given_up)

    async def _open_writer(self, log: str, create: bool, given_up: Collection[LedgerId]) -> Writer:
        writer = Writer(self._thread, await self._client.open_writer(log, create=create, given_up=given_up))
        # Held although its user may drop it: what fails of its appends is told at the end.
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
        """Messages from `start` (inclusive), behind `after`, or the `last` n, up to `until` (exclusive).

        Without `until` the reader waits for more. Fences nothing.
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
        """Messages as they come, from now on unless `start` or `last` (so many before now) says otherwise.

        Without `follow` it ends at the tail as it is when the reader opens.
        """
        return Reader(
            self._thread, self._client.tail(log, start=start, last=last, follow=follow, config=config)
        )

    # ---- administration

    def create(self, log: str) -> None:
        """Make an empty log. LogExistsError."""
        self._thread.run(self._client.create, log)

    def list(self) -> list[str]:
        """Names of the logs in the namespace, sorted."""
        return self._thread.run(self._client.list)

    def describe(self, log: str) -> LogInfo:
        """The log's record. LogNotFoundError."""
        return self._thread.run(self._client.describe, log)

    def rotate(self, log: str) -> LogInfo:
        """Take the log over, which seals its ledger, and give it up again."""
        return self._thread.run(self._client.rotate, log)

    def shrink(self, log: str, before: MessageId | str) -> LogMetadata:
        """Make every message below `before` invisible for good. ShrinkRefusedError above the tail."""
        return self._thread.run(self._client.shrink, log, before)

    def seal(self, log: str) -> LogMetadata:
        """End the log for good: it stays readable and takes no writer any more."""
        return self._thread.run(self._client.seal, log)

    def delete(self, log: str) -> bool:
        """Delete the log and all its messages."""
        return self._thread.run(self._client.delete, log)

    # ---- life

    def close(self) -> None:
        """Close writers (settling what they accepted), readers, connections and the store.

        In a process forked from the one that connected it does nothing: what it holds belongs to that one.
        AppendsFailedError, once all is closed, if an append failed whose outcome nobody has read.
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
        """ResourceWarning if it is not closed; what would be lost with this process is logged, too."""
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
    """A client of the cluster whose metadata is at `uri`, for example `sqlite:///data/meta.db`. Starts nothing.

    MetadataUnavailableError if there is no such store.
    """
    thread = LoopThread("dlog client")
    try:
        return Client(thread, thread.run(connect_async, uri, namespace, config=config))
    except BaseException:
        thread.close()
        raise
