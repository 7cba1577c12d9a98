"""The blocking face: the same client, writer and reader for programs without an event loop.

Every object here holds its asyncio twin and hands calls to one background loop (dlog/loop_thread.py); nothing is
decided here. Safe to use from several threads, each call on its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Self

from dlog.admin import LogInfo
from dlog.batch import MessageBatch
from dlog.client import DEFAULT_NAMESPACE, LogClient
from dlog.client import connect as connect_async
from dlog.config import LogConfig
from dlog.core.tailing import Gap, OnMissing
from dlog.loop_thread import LoopThread
from dlog.model import LogRecord, Message, MessageId
from dlog.read_range import Where
from dlog.reader import Lag
from dlog.reader import Reader as AsyncReader
from dlog.reader_config import ReaderConfig
from dlog.sync_writer import Writer
from ledger.model import LedgerId

_ITEMS_AT_ONCE = 64
"""Entries decoded in one visit to the loop: a visit costs as much as decoding some dozen small ones."""


class Reader:
    """A reader of a log, as an iterator of messages; `with` closes it."""

    def __init__(self, thread: LoopThread, reader: AsyncReader) -> None:
        self._thread = thread
        self._reader = reader
        self._items: Iterator[MessageBatch | Gap] = iter(())
        self._messages: Iterator[Message] = iter(())
        self._position: MessageId | None = None
        self._returned: Message | None = None

    # ---- iteration

    def __iter__(self) -> Iterator[Message]:
        aiter(self._reader)  # it refuses where gaps could come
        return self._iterate()

    def __next__(self) -> Message:
        for message in self._iterate():
            return message
        raise StopIteration

    def _iterate(self) -> Iterator[Message]:
        while True:
            for message in self._messages:
                self._returned = message
                yield message
            item = self._next_item()
            if item is None:
                return
            assert isinstance(item, MessageBatch), "gaps were refused"
            self._messages = iter(item)

    def batches(self) -> Iterator[MessageBatch]:
        """A batch per entry, in columns: the fast way to read much."""
        aiter(self._reader)
        for item in self.batch_items():
            assert isinstance(item, MessageBatch)
            yield item

    def items(self) -> Iterator[Message | Gap]:
        """Messages, and gaps where the policy is `gap`."""
        for item in self.batch_items():
            if isinstance(item, Gap):
                yield item
                continue
            for message in item:
                self._returned = message
                yield message

    def batch_items(self) -> Iterator[MessageBatch | Gap]:
        """Batches, and gaps where the policy is `gap`."""
        while (item := self._next_item()) is not None:
            yield item

    def _next_item(self) -> MessageBatch | Gap | None:
        while True:
            for item in self._items:
                self._returned = None
                behind = item.resume_at if isinstance(item, Gap) else _behind(item.last_id)
                self._position = behind
                return item
            found = self._thread.run(self._reader.next_items(_ITEMS_AT_ONCE))
            if not found:
                return None
            self._items = iter(found)

    # ---- where it is

    @property
    def position(self) -> MessageId:
        """The next id to return; a reader started there goes on without loss or repetition."""
        if self._returned is not None:
            return _behind(self._returned.id)
        return self._reader.position if self._position is None else self._position

    @property
    def at_tail(self) -> bool:
        """Everything that is known to be readable has been returned."""
        return self._thread.call(lambda: self._reader.at_tail) and self.position >= self._reader.position

    @property
    def lag(self) -> Lag:
        """As far as known here; asks nobody."""
        return self._thread.call(lambda: self._reader.lag)

    @property
    def waits_for(self) -> str | None:
        """Why nothing comes at the moment, as a sentence; None while there is something to return."""
        return self._thread.call(lambda: self._reader.waits_for)

    # ---- life

    def open(self) -> None:
        """Find the log, and fix where the reader begins and ends."""
        self._thread.run(self._reader.open())

    def close(self) -> None:
        """Stop reading ahead."""
        if not self._thread.closed:
            self._thread.run(self._reader.close())

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _behind(message_id: MessageId) -> MessageId:
    return message_id._replace(batch_index=message_id.batch_index + 1)


class Client:
    """The logs of one namespace. Obtained from dlog.connect; `with` closes it and all that it opened."""

    def __init__(self, thread: LoopThread, client: LogClient) -> None:
        self._thread = thread
        self._client = client

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
        writer = self._thread.run(self._client.open_writer(log, create=create, given_up=given_up))
        return Writer(self._thread, writer)

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
        self._thread.run(self._client.create(log))

    def list(self) -> list[str]:
        """Names of the logs in the namespace, sorted."""
        return self._thread.run(self._client.list())

    def describe(self, log: str) -> LogInfo:
        """The log's record. LogNotFoundError."""
        return self._thread.run(self._client.describe(log))

    def rotate(self, log: str) -> LogInfo:
        """Take the log over, which seals its ledger, and give it up again."""
        return self._thread.run(self._client.rotate(log))

    def shrink(self, log: str, before: MessageId) -> LogRecord:
        """Make every message below `before` invisible for good. ShrinkRefusedError above the tail."""
        return self._thread.run(self._client.shrink(log, before))

    def seal(self, log: str) -> LogRecord:
        """End the log for good: it stays readable and takes no writer any more."""
        return self._thread.run(self._client.seal(log))

    def delete(self, log: str) -> bool:
        """Delete the log and all its messages."""
        return self._thread.run(self._client.delete(log))

    # ---- life

    def close(self) -> None:
        """Close writers (settling what they accepted), readers, connections and the store."""
        if not self._thread.closed:
            try:
                self._thread.run(self._client.close())
            finally:
                self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(uri: str, namespace: str = DEFAULT_NAMESPACE, *, config: LogConfig | None = None) -> Client:
    """A client of the cluster whose metadata is at `uri`, for example `sqlite:///data/meta.db`. Starts nothing.

    MetadataUnavailableError if there is no such store.
    """
    thread = LoopThread("dlog client")
    try:
        return Client(thread, thread.run(connect_async(uri, namespace, config=config)))
    except BaseException:
        thread.close()
        raise
