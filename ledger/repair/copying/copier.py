"""Copies entries of a closed fragment to one bookie. On return they are durable there; metadata is not touched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from ledger.client import LedgerClient
from ledger.config import LedgerClientConfig, WireProtocol
from ledger.errors import BookieUnavailableError, LogStoreError
from ledger.model import BookieId, BookieInfo, BookieSet, LedgerId, LedgerMetadata
from ledger.repair.config import RepairConfig
from ledger.repair.copying.source import Source
from ledger.repair.copying.target import Target, copy_failed, unreachable
from ledger.repair.core.fragments import ClosedFragment
from ledger.transport.pool import ConnectionPool
from ledger.transport.probe import responds
from ledger.wire.digest import make_digester

_PART_BYTES = 256 * 1024
"""Read and sent at a time. An append waits in the bookie for what arrived before it, and longer for a larger part."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What was copied: entries, and bytes of their payloads."""

    entries: int = 0
    payload_bytes: int = 0
    skipped: Mapping[int, LogStoreError] = field(default_factory=dict)
    """Entries that were left out, ascending, each with the reason."""


class Pace:
    """Spreads bytes over time for all copies of a worker. Nothing is paced at a rate of 0."""

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_at = 0.0

    async def spend(self, count: int) -> None:
        if not self._bytes_per_s:
            return
        now = asyncio.get_running_loop().time()
        begins_at = max(now, self._free_at)
        self._free_at = begins_at + count / self._bytes_per_s
        await asyncio.sleep(begins_at - now)


class Copier:
    """Reads and writes over connections of its own. `close` ends them."""

    def __init__(self, ledgers: LedgerClient, config: RepairConfig) -> None:
        self._ledgers = ledgers
        self._config = config
        # Batches exist in version 2 only, and every bookie speaks it.
        self._client_config: LedgerClientConfig = replace(
            ledgers.config, wire=WireProtocol.V2, read_window_bytes=_PART_BYTES
        )
        self._pool = ConnectionPool(self._where, self._client_config)
        self._pace = Pace(config.bytes_per_s)

    async def _where(self, bookie_id: BookieId) -> BookieInfo | None:
        return self._ledgers.bookies().find(bookie_id)

    async def close(self) -> None:
        await self._pool.close()

    async def check_target(self, ledger_id: LedgerId, bookie_id: BookieId) -> None:
        """CopyFailedError unless the bookie answers: a hung one still accepts connections."""
        try:
            connection = await self._pool.entries(bookie_id)
        except BookieUnavailableError as error:
            raise unreachable(ledger_id, error, bookie_id) from error
        if not await responds(connection, ledger_id, self._client_config):
            raise copy_failed(ledger_id, bookie_id, "it does not respond")

    async def require_readable(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        fragment: ClosedFragment,
        entry_id: int,
        bookies: BookieSet,
    ) -> None:
        """ReadError, DigestMismatchError: a copy to a bookie that is no member would end at this entry; as `copy`."""
        source = Source(self._pool, bookies, ledger_id, metadata, fragment, self._client_config, ())
        async with aclosing(source.read([entry_id])) as parts:
            await anext(parts)

    async def copy(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        fragment: ClosedFragment,
        entry_ids: Sequence[int],
        target: BookieId,
        bookies: BookieSet,
        avoid: Collection[BookieId] = (),
        on_sent: Callable[[int, int], None] = lambda entries, payload_bytes: None,
        *,
        skips: bool = False,
    ) -> Copied:
        """Copy these entries, ascending, to `target`. `avoid`: members that are not read.

        `on_sent` is called with the entries and payload bytes just sent. `skips`: leave out entries that no registered
        member can give, as long as there are not many.

        Raises:
            CopyFailedError: the target refused, or does not answer.
            ReadError: no registered member can give one of the entries.
            DigestMismatchError: the only copies of one are damaged.
        """
        if not entry_ids:
            return Copied()
        config = self._client_config
        avoided = {target, *avoid}
        source = Source(self._pool, bookies, ledger_id, metadata, fragment, config, avoided, skips=skips)
        # A connection for this copy alone: answers to adds are told apart by ledger and entry only.
        connections = self._pool.for_recovery()
        overhead = make_digester(metadata.digest_type, metadata.password).overhead_bytes
        entries = payload_bytes = 0
        try:
            connection = await connections.get(target)
            with Target(
                connection,
                ledger_id,
                metadata,
                window_bytes=self._config.window_bytes,
                timeout_s=config.add_timeout_s,
            ) as receiving:
                async with aclosing(source.read(entry_ids)) as parts:
                    async for part in parts:
                        size = sum(map(len, part.entries)) - overhead * len(part.entries)
                        await self._pace.spend(size)
                        await receiving.add(part)
                        entries += len(part.entries)
                        payload_bytes += size
                        on_sent(len(part.entries), size)
                await receiving.finish()
        except BookieUnavailableError as error:
            raise unreachable(ledger_id, error, target) from error
        finally:
            connections.end(f"the copy of ledger {ledger_id} is over")
        return Copied(entries, payload_bytes, dict(sorted(source.skipped.items())))
