"""C17, ledger by ledger: what no log lists any more is forgotten by the metadata store and then by every bookie."""

from __future__ import annotations

import asyncio

from dlog.client import LogClient
from dlog.core.orphans import origin_of
from dlog.errors import LogNotFoundError
from dlog.inspection.ledgers import listed_ledgers
from dlog.testing.cluster import SimulatedCluster
from ledger.errors import LedgerNotFoundError, UnavailableError

_TRY_AGAIN_S = 1.0


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
