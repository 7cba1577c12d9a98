"""One connection to a cluster, opened for planning or for one task and closed with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ledger.client import LedgerClient
from ledger.environment import Environment, SystemEnvironment
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore


@dataclass(frozen=True, slots=True)
class Cluster:
    store: MetadataStore
    ledgers: LedgerClient
    environment: Environment


@asynccontextmanager
async def open_cluster(uri: str) -> AsyncIterator[Cluster]:
    """Store and ledger client of the cluster at `uri`. Starts nothing and changes nothing."""
    environment = SystemEnvironment()
    store = await open_store(uri, environment)
    try:
        ledgers = LedgerClient(store, environment=environment)
        await ledgers.start()
        try:
            yield Cluster(store, ledgers, environment)
        finally:
            await ledgers.close()
    finally:
        await store.close()
