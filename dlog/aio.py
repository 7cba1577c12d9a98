"""The asyncio face of dlog: `connect` and `standalone`.

async with dlog.aio.connect("sqlite:///data/meta.db") as client:
    async with await client.open_writer("orders") as writer: ...
"""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import Any

from dlog import client as _client
from dlog.client import DEFAULT_NAMESPACE, LogClient
from dlog.config import LogConfig
from dlog.local.embedded import AsyncStandalone as standalone
from dlog.read.reader import Reader
from dlog.write.writer import LogWriter
from ledger.environment import Environment

__all__ = ["LogClient", "LogConfig", "LogWriter", "Reader", "connect", "standalone"]


def connect(
    uri: str,
    namespace: str = DEFAULT_NAMESPACE,
    *,
    config: LogConfig | None = None,
    environment: Environment | None = None,
) -> Connecting:
    """A client of the cluster whose metadata is at `uri`: `async with connect(…)`, or `await connect(…)`.

    Starts nothing. MetadataUnavailableError if there is no such store.
    """
    return Connecting(uri, namespace, config, environment)


class Connecting:
    """A connection about to be made: await it and close the client yourself, or leave both to `async with`."""

    def __init__(
        self, uri: str, namespace: str, config: LogConfig | None, environment: Environment | None
    ) -> None:
        self._uri = uri
        self._namespace = namespace
        self._config = config
        self._environment = environment
        self._client: LogClient | None = None

    def __await__(self) -> Generator[Any, None, LogClient]:
        return _client.connect(
            self._uri, self._namespace, config=self._config, environment=self._environment
        ).__await__()

    async def __aenter__(self) -> LogClient:
        self._client = await self
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.__aexit__(kind, error, trace)
