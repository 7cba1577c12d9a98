"""C17, ledger by ledger: what no log lists any more is forgotten by the metadata store and then by every bookie.

And file by file: a bookie removes each file in which no ledger lives, at the latest its next process.
"""

from __future__ import annotations

import asyncio

from bookie_server.storage.config import StorageConfig
from dlog.client import LogClient
from dlog.core.orphans import origin_of
from dlog.errors import LogNotFoundError
from dlog.inspection.ledgers import listed_ledgers
from dlog.testing.bookies import SimulatedBookie
from dlog.testing.checks.checks import first_findings
from dlog.testing.checks.leftovers import c17_no_file_is_left_over
from dlog.testing.cluster import SimulatedCluster
from ledger.errors import LedgerNotFoundError, UnavailableError

_TRY_AGAIN_S = 1.0
_PASSES = 5
"""Of the collector of a bookie that was started again."""


async def garbage_is_deleted(client: LogClient, cluster: SimulatedCluster, logs: tuple[str, ...]) -> None:
    """Returns when it is. Nothing may go on in these logs until then; they must be all there are under their root."""
    while True:
        try:
            listed = await _listed(client, logs)
            known, own = await _known(client)
        except (LedgerNotFoundError, UnavailableError):
            known, own, listed = set(), set(), {-1}
        if own == listed and all(held <= known for held in _held(cluster)):
            break
        await asyncio.sleep(_TRY_AGAIN_S)
    # One more pass of every bookie's collector: an entry log is removed after the last of its ledgers.
    await asyncio.sleep(cluster.config.gc_interval_s + _TRY_AGAIN_S)


async def _known(client: LogClient) -> tuple[set[int], set[int]]:
    """What metadata has, and what of it was made for logs under this root."""
    known, own = set(), set()
    async for ledger_id in client.ledgers.store.ledger_ids():
        known.add(int(ledger_id))
        origin = origin_of((await client.ledgers.store.read_ledger(ledger_id)).value)
        if origin is not None and origin.root == client.logs.root:
            own.add(int(ledger_id))
    return known, own


async def _listed(client: LogClient, logs: tuple[str, ...]) -> set[int]:
    """What the logs list, after what they do not list was offered for deletion."""
    found: set[int] = set()
    for log in logs:
        try:
            await client.collect(log)
            found |= {listed.ledger_id for listed in await listed_ledgers(client, log)}
        except LogNotFoundError:
            continue
    await client.admin.sweep(age_s=0.0)
    return found


def _held(cluster: SimulatedCluster) -> list[set[int]]:
    """The ledgers of each bookie; what none can hold, of one that does not serve."""
    servers = [bookie.server for bookie in cluster.bookies]
    return [
        {-1} if server is None or server.storage is None else set(server.storage.ledger_ids())
        for server in servers
    ]


async def dead_files_are_removed(cluster: SimulatedCluster, config: StorageConfig) -> list[str]:
    """C17, of bookies that have stopped after `garbage_is_deleted`.

    One that has left a file without a live ledger is started once more, and must remove it: a stop may come between
    the compaction or the deletion that took the last entries from a file and its removal, and a process removes nothing
    from a ledger directory that has failed.
    """
    passes_s = _PASSES * (cluster.config.gc_interval_s + _TRY_AGAIN_S)
    sound = [bookie for bookie in cluster.bookies if bookie.sound]
    await asyncio.gather(*(_start_again(bookie, passes_s) for bookie in sound if _left_over(bookie, config)))
    return [each for bookie in sound for each in _left_over(bookie, config)]


async def _start_again(bookie: SimulatedBookie, serves_s: float) -> None:
    bookie.rebuild_interval_s = 0.0  # during a rebuild it removes nothing, however long that takes
    bookie.start()
    await bookie.wait_until_serving()
    await asyncio.sleep(serves_s)
    await bookie.stop()


def _left_over(bookie: SimulatedBookie, config: StorageConfig) -> list[str]:
    files = c17_no_file_is_left_over(bookie.disk, config, swept=True)
    return [f"{each} ({bookie.name})" for each in first_findings("c17_no_file_is_left_over", files)]
