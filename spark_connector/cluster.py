"""One connection to a cluster, opened for planning or for one task and closed with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from dlog.core.metadata_keys import DEFAULT_ROOT
from dlog.metadata.store import LogMetadataStore
from dlog.password_file import password_in
from ledger.client import LedgerClient
from ledger.environment import Environment, SystemEnvironment
from ledger.errors import RequestTimeoutError
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore
from ledger.metadata.uri import parse_uri


@dataclass(frozen=True, slots=True)
class Cluster:
    store: MetadataStore
    ledgers: LedgerClient
    logs: LogMetadataStore
    """Of the logs below the root that the address names, as of `dlog.connect`."""
    environment: Environment
    password: bytes = field(default=b"", repr=False)
    """Of the logs."""


@asynccontextmanager
async def open_cluster(
    uri: str, read_timeout_ms: int | None = None, password_file: str | None = None
) -> AsyncIterator[Cluster]:
    """Store and ledger client of the cluster at `uri`. Starts nothing and changes nothing.

    Raises:
        ConfigurationError: the password file cannot be read, or holds no password.
        MetadataUnavailableError: the metadata store cannot be reached.
        RequestTimeoutError: it did not answer in time.
    """
    password = given_password(password_file)
    environment = SystemEnvironment()
    async with AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(None if read_timeout_ms is None else read_timeout_ms / 1000):
                store = await open_store(uri, environment)
                stack.push_async_callback(store.close)
                ledgers = LedgerClient(store, environment=environment)
                stack.push_async_callback(ledgers.close)
                await ledgers.start()
        except TimeoutError as error:
            raise RequestTimeoutError(
                f"the metadata store at {uri} did not answer within readTimeoutMs={read_timeout_ms}: check it, or "
                "raise readTimeoutMs"
            ) from error
        root = parse_uri(uri).option("root") or DEFAULT_ROOT
        logs = LogMetadataStore(store, environment, root=root)
        yield Cluster(store, ledgers, logs, environment, password)


def given_password(path: str | None) -> bytes:
    """What the file holds that the option `passwordFile` names, on this machine; empty without it.

    Raises:
        ConfigurationError: it cannot be read, or holds no password.
    """
    return b"" if path is None else password_in(path, "option 'passwordFile'")
