"""Where the demonstration runs: on bookies of its own, or on those of a cluster that is there already.

    nothing named               three bookies and SQLite, all in the demonstration's directory
    an address without bookies  three bookies in the directory, metadata at that address
    an address with bookies     those; they are somebody's, so none is killed

What the demonstration made at an address it takes away again: its log, its bookies' cookies, its cluster.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dlog.client import connect
from dlog.config import LogConfig
from dlog.errors import LogNotFoundError
from dlog.local.embedded import Standalone
from ledger.errors import MetadataUnavailableError, RecordNotFoundError
from ledger.metadata.drivers import open_store
from ledger.model import BookieId

LOG = "flights"
CONFIG = LogConfig(deletion_grace_s=0)
"""The writers are processes that have ended when the log is deleted, so none of them can be merely asleep."""


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster, the name of the log in it, and its bookies' names. `own` is None where they are somebody's."""

    uri: str
    log: str
    bookies: tuple[str, ...]
    own: Standalone | None


@contextmanager
def find_place(metadata: str | None, directory: Path, *, keep: bool) -> Iterator[Place]:
    """The cluster for one demonstration; what was made at an address is gone afterwards, unless `keep`."""
    if metadata is None:
        with Standalone(directory / "cluster", restart=False) as cluster:
            yield _on_own(cluster, LOG)
        return
    log = f"{LOG}-{secrets.token_hex(4)}"  # whoever uses the cluster may have a log of that name
    uri, bookies = asyncio.run(_look(metadata))
    if bookies:
        with _log_for_a_while(uri, log, keep=keep):
            yield Place(uri, log, bookies, None)
        return
    with Standalone(directory / "cluster", metadata=uri, restart=False) as cluster:
        place, made = _on_own(cluster, log), cluster.made
        with _log_for_a_while(uri, log, keep=keep):
            yield place
    if not keep:
        asyncio.run(take_away(uri, place.bookies, made=made))


def _on_own(cluster: Standalone, log: str) -> Place:
    return Place(cluster.uri, log, tuple(bookie.bookie_id for bookie in cluster.bookies), cluster)


@contextmanager
def _log_for_a_while(uri: str, log: str, *, keep: bool) -> Iterator[None]:
    try:
        yield
    finally:
        if not keep:
            asyncio.run(_delete(uri, log))


async def _delete(uri: str, log: str) -> None:
    async with await connect(uri, config=CONFIG) as client:
        with suppress(LogNotFoundError):
            await client.delete(log)


async def _look(metadata: str) -> tuple[str, tuple[str, ...]]:
    """The address in full, and the writable bookies there."""
    store = await open_store(metadata)
    try:
        found = await store.bookies()
        return store.uri, tuple(info.bookie_id for info in found.writable)
    except (RecordNotFoundError, MetadataUnavailableError):
        return store.uri, ()  # no cluster yet; if it is something else, starting bookies there will tell
    finally:
        await store.close()


async def take_away(uri: str, bookies: Iterable[str], *, made: bool) -> None:
    """The cookies of these bookies, which have ended; and the cluster, if it was `made` for them.

    A cluster that another bookie has joined meanwhile is somebody's, and stays.
    """
    store = await open_store(uri)
    try:
        for bookie_id in map(BookieId, bookies):
            await store.remove_cookie(bookie_id, (await store.read_cookie(bookie_id)).version)
        if made and not await store.list_cookies():
            await store.nuke_cluster(await store.instance_id())
    finally:
        await store.close()
