"""A cluster of real bookie processes, for a test or a benchmark: on a SQLite file, or on the given store."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ledger.metadata.drivers import open_store
from tests.helpers.processes.python import Child, start_forked, start_python


@dataclass(frozen=True, slots=True)
class Cluster:
    """Running bookies, in the order of their directories, and the address of their metadata."""

    uri: str
    directory: Path
    bookies: list[Child]
    forked: bool

    def bookie_directory(self, number: int) -> Path:
        return self.directory / f"bookie-{number}"

    async def restart(self, number: int, *, extra: Sequence[str] = ()) -> None:
        """Start bookie `number` again, after it was stopped or killed."""
        self.bookies[number] = await self.start_bookie(number, extra)

    async def add_bookie(self, *, extra: Sequence[str] = ()) -> int:
        """Start another bookie on empty directories; its number."""
        number = len(self.bookies)
        self.bookies.append(await self.start_bookie(number, extra))
        return number

    async def start_bookie(self, number: int, extra: Sequence[str]) -> Child:
        """Start it on the directories of bookie `number`; that it is one of `bookies` is up to the caller."""
        arguments = [
            "start",
            "--metadata",
            self.uri,
            "--data",
            str(self.bookie_directory(number)),
            "--port",
            "0",
        ]
        if self.forked:
            return await start_forked("bookie_server", *arguments, *extra)
        return await start_python(["-m", "bookie_server", *arguments, *extra])


@asynccontextmanager
async def running_cluster(
    directory: Path,
    *,
    bookies: int = 3,
    extra: Sequence[str] = (),
    metadata: str | None = None,
    forked: bool = False,
) -> AsyncIterator[Cluster]:
    """Initialise a cluster in a fresh directory below `directory` and run its bookies; remove all at the end.

    `extra` goes to every `bookie start`. `metadata`: an address without a cluster; the default is a SQLite file.
    `forked`: they start more quickly, and their memory includes what other commands import: not for what is measured.
    """
    home = Path(tempfile.mkdtemp(prefix="cluster-", dir=directory))
    uri = metadata or f"sqlite:///{home / 'meta.db'}"
    started: list[Child] = []
    try:
        await _initialise(uri)
        cluster = Cluster(uri, home, started, forked)
        await _start_all([cluster.start_bookie(number, extra) for number in range(bookies)], started)
        yield cluster
    finally:
        await asyncio.gather(*(child.stop() for child in started))
        shutil.rmtree(home)


async def _initialise(uri: str) -> None:
    store = await open_store(uri)
    try:
        await store.init_cluster()
    finally:
        await store.close()


async def _start_all(starting: Sequence[Coroutine[Any, Any, Child]], started: list[Child]) -> None:
    """At the same time; those that came up are in `started`, in order, even if another one did not."""
    results = await asyncio.gather(*starting, return_exceptions=True)
    started += [result for result in results if isinstance(result, Child)]
    for result in results:
        if isinstance(result, BaseException):
            raise result


forked_cluster = partial(running_cluster, forked=True)
"""The cluster of a test: its bookies are forked from a process that has imported what they import."""
