# mypy: disable-error-code="empty-body"
"""The blocking API of a metadata cache: what changes it runs on the loop, its snapshot is read from any thread."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from dlog.blocking.forwarding import forwards
from dlog.blocking.loop_thread import LoopThread
from dlog.blocking.not_copied import NotCopied
from dlog.cache.metadata_cache import MetadataCache as AsyncMetadataCache
from dlog.cache.snapshot import MetadataSnapshot
from dlog.model import LogName
from ledger.model import LedgerId


class MetadataCache(NotCopied):
    """Cluster and bookies, and the logs and ledgers that are followed. Obtained from `Client.metadata_cache`.

    `with` closes it. A log is given by its name in the client's namespace, or as a LogName. May be used from several
    threads. Once the cache or its client is closed every call but `close` raises ConfigurationError, and in a process
    forked from the one that opened it ForkedError; a snapshot that was taken before stays as it is.
    """

    def __init__(self, thread: LoopThread, cache: AsyncMetadataCache) -> None:
        self._thread = thread
        self._target = cache

    def __repr__(self) -> str:
        return repr(self._target)

    # ---- reading

    @property
    def snapshot(self) -> MetadataSnapshot:
        """The view as of now, immutable. Take the reference once for facts that must agree with each other."""
        # Without the loop: it replaces one reference by another.
        if not self._thread.usable:
            raise self._thread.refusal()
        return self._target.snapshot

    @forwards(AsyncMetadataCache.wait_for_change)
    def wait_for_change(
        self, seen: MetadataSnapshot, *, timeout_s: float | None = None
    ) -> MetadataSnapshot: ...

    # ---- what is followed

    @forwards(AsyncMetadataCache.follow_logs)
    def follow_logs(self, logs: Iterable[LogName | str], *, timeout_s: float | None = None) -> None: ...

    @forwards(AsyncMetadataCache.follow_ledgers)
    def follow_ledgers(self, ledger_ids: Iterable[LedgerId], *, timeout_s: float | None = None) -> None: ...

    def forget(self, key: LogName | str | LedgerId) -> None:
        """Do not follow this log or ledger any more; it leaves the snapshot.

        Raises:
            ConfigurationError: `key` is neither the name of a log nor the number of a ledger.
        """
        self._thread.call(lambda: self._target.forget(key))

    def refresh(self, key: LogName | str | LedgerId) -> None:
        """Read this log or ledger again soon: the answer of a bookie or of the store shows that it is stale.

        Does nothing if it is not followed.

        Raises:
            ConfigurationError: `key` is neither the name of a log nor the number of a ledger.
        """
        self._thread.call(lambda: self._target.refresh(key))

    # ---- life

    def close(self, *, timeout_s: float | None = None) -> None:
        """End all watches and reads; a second call does nothing. In a forked process it does nothing.

        Raises:
            CallTimeoutError: not closed within `timeout_s` seconds.
        """
        if self._thread.usable and not self._thread.lost:
            with self._thread.unless_closed():
                self._thread.run_within(timeout_s, "close", self._target.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
