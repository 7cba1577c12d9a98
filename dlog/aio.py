"""The asyncio API of dlog: `connect` and `standalone`.

    async with dlog.aio.connect("sqlite:///data/meta.db") as client:
        async with await client.open_writer("orders") as writer:
            await writer.append(b"payload")

The objects are those of the blocking API (`dlog.connect`), with calls to await.
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
    """Connect to the cluster whose metadata is at `uri`: `async with connect(…)`, or `await connect(…)`.

    Once awaited, the client knows the registered bookies. Starts no process. A client that was awaited must be closed
    by the caller; `async with` closes it, and everything opened through it.

    Raises:
        ConfigurationError: `uri` has an unknown scheme, or `config` is not a LogConfig.
        InvalidNameError: `namespace` is not a valid name.
        MissingExtraError: the metadata driver or the codec needs a package that is not installed.
        MetadataUnavailableError: there is no cluster at `uri`, or the metadata store cannot be reached.
    """
    return Connecting(uri, namespace, config, environment)


class Connecting:
    """A connection to be made: `await` returns the client, `async with` also closes it."""

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
