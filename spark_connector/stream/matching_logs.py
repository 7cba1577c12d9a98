"""The logs of a namespace that match the pattern of a stream, which asks for them again and again.

A name that logs have or had is listed permanently, so each is looked up until its log exists, and again once a read has
found that it no longer does. All others cost an idle stream nothing: a listing is one request.
"""

from __future__ import annotations

import asyncio

from dlog.errors import LogNotFoundError
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogName
from dlog.together import each
from spark_connector.options.log_choice import LogPattern
from spark_connector.retrying import retrying


class MatchingLogs:
    """Not for use by several tasks at a time. A request with its retries takes `timeout_ms` at most."""

    def __init__(
        self, pattern: LogPattern, namespace: str, logs: LogMetadataStore, timeout_ms: int, kept_s: float
    ) -> None:
        """`kept_s`: how long a listing is used again."""
        self._pattern = pattern
        self._namespace = namespace
        self._logs = logs
        self._timeout_ms = timeout_ms
        self._kept_s = kept_s
        self._existing: set[str] = set()
        self._listed_at_s: float | None = None

    async def names(self) -> list[str]:
        """Those that exist, sorted, as far as is known; a log that was deleted is among them until `forget`."""
        now_s = asyncio.get_running_loop().time()
        if self._listed_at_s is None or now_s - self._listed_at_s >= self._kept_s:
            await self._list()
            self._listed_at_s = now_s
        return sorted(self._existing)

    def forget(self, name: str) -> None:
        """The log does not exist: look its name up again at the next listing."""
        self._existing.discard(name)

    async def _list(self) -> None:
        used = await retrying(
            lambda: self._logs.used_names(self._namespace),
            self._timeout_ms,
            f"the names of logs in {self._namespace}",
        )
        matching = self._pattern.matching(used)
        unknown = [name for name in matching if name not in self._existing]
        exist = await each(unknown, self._exists)
        found = {name for name, exists in zip(unknown, exist, strict=True) if exists}
        self._existing = self._existing.intersection(matching) | found

    async def _exists(self, name: str) -> bool:
        log = LogName(namespace=self._namespace, name=name)
        try:
            await retrying(lambda: self._logs.find(log), self._timeout_ms, f"log {log}")
        except LogNotFoundError:
            return False
        return True
