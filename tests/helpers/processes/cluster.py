"""A cluster of real bookie processes, for the length of a benchmark: on a SQLite file, or on the given store."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.metadata.drivers import open_store
from tests.helpers.processes.python import Child, start_python


@dataclass(frozen=True, slots=True)
class Cluster:
    """Running bookies, in the order of their directories, and the address of their metadata."""

    uri: str
    directory: Path
    bookies: list[Child]

    def bookie_directory(self, number: int) -> Path:
        return self.directory / f"bookie-{number}"

    async def restart(self, number: int, *, extra: Sequence[str] = ()) -> None:
        """Start bookie `number` again, after it was stopped or killed."""
        self.bookies[number] = await _start_bookie(self.uri, self.bookie_directory(number), extra)

    async def add_bookie(self, *, extra: Sequence[str] = ()) -> int:
        """Start another bookie on empty directories; its number."""
        number = len(self.bookies)
        self.bookies.append(await _start_bookie(self.uri, self.bookie_directory(number), extra))
        return number


@asynccontextmanager
async def running_cluster(
    directory: Path, *, bookies: int = 3, extra: Sequence[str] = (), metadata: str | None = None
) -> AsyncIterator[Cluster]:
    """Initialise a cluster in a fresh directory below `directory` and run its bookies; remove all at the end.

    `extra` goes to every `bookie start`. `metadata`: an address without a cluster; the default is a SQLite file.
    """
    home = Path(tempfile.mkdtemp(prefix="cluster-", dir=directory))
    uri = metadata or f"sqlite:///{home / 'meta.db'}"
    started: list[Child] = []
    try:
        await _initialise(uri)
        cluster = Cluster(uri, home, started)
        await _start_all(
            [_start_bookie(uri, cluster.bookie_directory(n), extra) for n in range(bookies)], started
        )
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


async def _start_bookie(uri: str, data: Path, extra: Sequence[str]) -> Child:
    arguments = ["-m", "bookie_server", "start", "--metadata", uri, "--data", str(data), "--port", "0"]
    return await start_python([*arguments, *extra])
