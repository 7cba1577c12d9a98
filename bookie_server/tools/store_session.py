"""One opening of the metadata store for the length of a command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ledger import whole_loop
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore

T = TypeVar("T")


def with_store(metadata: str, work: Callable[[MetadataStore], Awaitable[T]]) -> T:
    """Run `work` on an event loop of its own; the store is closed on return."""

    async def run() -> T:
        store = await open_store(metadata)
        try:
            return await work(store)
        finally:
            await store.close()

    return whole_loop.run(run())
