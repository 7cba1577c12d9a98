"""Replica by replica: after healing every entry has its ack quorum of intact, equal copies where metadata says."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.bookie_reads import read_entry
from ledger.client import LedgerClient
from ledger.model import BookieId, BookieInfo, LedgerId
from ledger.transport.pool import ConnectionPool
from ledger.wire.digest import make_digester


async def audit_ledger(ledgers: LedgerClient, pool: ConnectionPool, ledger_id: LedgerId) -> list[str]:
    """What is wrong with the copies of a sealed ledger, in words."""
    metadata = (await ledgers.store.read_ledger(ledger_id)).value
    digester = make_digester(metadata.digest_type, metadata.password)
    found: dict[int, list[bytes]] = {entry_id: [] for entry_id in range(metadata.last_entry + 1)}
    for entry_id, payloads in found.items():
        ensemble = metadata.fragment_of(entry_id).ensemble
        for offset in range(metadata.quorum.write):
            bookie_id = ensemble[(entry_id + offset) % len(ensemble)]
            connection = await pool.v2(bookie_id)
            answer = await read_entry(connection, ledger_id, entry_id, digester, 10.0)
            payloads += [bytes(entry.payload) for entry in answer.entries]
    return [
        f"entry {ledger_id}:{entry_id} has {len(payloads)} copies, {len(set(payloads))} different"
        for entry_id, payloads in found.items()
        if len(payloads) < metadata.quorum.ack or len(set(payloads)) != 1
    ]


async def audit(ledgers: LedgerClient, ledger_ids: Iterable[LedgerId]) -> list[str]:
    async def where(bookie_id: BookieId) -> BookieInfo | None:
        return ledgers.bookies().find(bookie_id)

    pool = ConnectionPool(where, ledgers.config)
    try:
        return [wrong for ledger_id in ledger_ids for wrong in await audit_ledger(ledgers, pool, ledger_id)]
    finally:
        await pool.close()
