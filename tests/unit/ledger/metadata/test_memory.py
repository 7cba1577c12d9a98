"""What the memory store promises beyond the rules of all stores, for the simulator's sake."""

from __future__ import annotations

import asyncio

from ledger.environment import SystemEnvironment
from ledger.metadata.memory import MemoryBackend, MemoryCluster
from ledger.metadata.transactions.key_value import Transaction

KEYS = [f"/key/{number}" for number in (5, 1, 4, 0, 3, 2)]


async def test_watches_fire_in_the_order_in_which_their_keys_changed() -> None:
    """Not in the order of a set, which is another in each process."""
    backend = MemoryBackend("memory:x", MemoryCluster(), SystemEnvironment())
    fired: list[str] = []
    for key in sorted(KEYS):
        backend.watch_key(key, lambda key=key: fired.append(key), urgent=False)  # type: ignore[misc]

    def create_all(tx: Transaction) -> None:
        for key in KEYS:
            tx.create(key, b"")

    await backend.write(create_all)
    await asyncio.sleep(0)
    assert fired == KEYS
    await backend.close()
