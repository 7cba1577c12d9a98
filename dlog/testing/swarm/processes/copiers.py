"""Copiers of the swarm: as a replication worker does, they copy entries of closed ledgers between bookies.

Entries go to any bookie, in any order and with gaps, as recovery adds of the bytes that one of their own bookies has
stored. So bookies get entries late, twice, and between others, which writers and recoveries hardly ever cause, and are
asked for them later. It changes no outcome: a closed ledger is read as its metadata says.

Protocol: docs/bookkeeper.md#repeated-adds.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

from dlog.client import LogClient
from dlog.errors import LogNotFoundError
from dlog.inspection.ledgers import listed_ledgers
from dlog.testing.checks.copies import write_set_of
from ledger.config import WireProtocol
from ledger.errors import DigestMismatchError, LedgerNotFoundError, UnavailableError
from ledger.model import BookieId, BookieInfo, LedgerId, LedgerMetadata
from ledger.transport.entry_connection import EntryConnection
from ledger.transport.pool import ConnectionPool
from ledger.wire import v2
from ledger.wire.constants import HIGH_PRIORITY, RECOVERY_ADD
from ledger.wire.digest import Digester, make_digester, master_key
from ledger.wire.messages import AddRequest
from ledger.wire.status import Status

_ANSWER_S = 2.0
_COPIES_MAX = 24
_READ_BACK_MAX = 30
_ROUNDS = 4


class _Answers:
    """The outcomes of the adds on one connection."""

    unacknowledged_bytes = 0

    def __init__(self) -> None:
        self.conflicts: list[int] = []

    def on_adds_acked(self, first: int, last: int) -> None:
        """The bookie has them, as before or from now on."""

    def on_scattered_adds_acked(self, entry_ids: list[int]) -> None:
        """The same for entries that are no run."""

    def on_add_refused(self, entry_id: int, status: Status) -> None:
        if status is Status.EBADREQ:  # another status: it is full, or has deleted the ledger
            self.conflicts.append(entry_id)

    def on_connection_lost(self, error: Exception) -> None:
        """Some entries are not copied; no check expects them to be."""


class SwarmCopier:
    """One process."""

    def __init__(self, client: LogClient, log: str, name: str, chance: Random) -> None:
        self._client = client
        self._log = log
        self._name = name
        self._chance = chance
        config = replace(client.config.ledger, wire=WireProtocol.V2)
        self._pool = ConnectionPool(self._where, config)
        self.wrong: list[str] = []
        """What must not happen and did."""
        self.loud: list[str] = []
        """Errors that only a fault beyond the contract excuses."""

    async def _where(self, bookie_id: BookieId) -> BookieInfo | None:
        return self._client.ledgers.bookies().find(bookie_id)

    async def run(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._chance.random())
                try:
                    await self._copy_some()
                except (UnavailableError, LogNotFoundError, LedgerNotFoundError, TimeoutError):
                    continue
        finally:
            await self._pool.close()

    async def _copy_some(self) -> None:
        listed = await listed_ledgers(self._client, self._log)
        sealed = [each.ledger_id for each in listed if each.seal is not None and not each.known_empty]
        if not sealed:
            return
        ledger_id = self._chance.choice(sealed)
        metadata = (await self._client.ledgers.store.read_ledger(ledger_id)).value
        if not metadata.closed or metadata.last_entry < 0 or not self._client.ledgers.bookies().writable:
            return
        entry_ids = range(metadata.last_entry + 1)
        target = self._target(metadata)
        for _ in range(_ROUNDS):
            most = min(_COPIES_MAX, 1 + len(entry_ids) // 2)
            chosen = self._chance.sample(entry_ids, self._chance.randint(1, most))
            await self._copy(ledger_id, metadata, chosen, target)
            await self._read_back(ledger_id, entry_ids[:_READ_BACK_MAX], target)
            await asyncio.sleep(self._chance.random())

    def _target(self, metadata: LedgerMetadata) -> BookieId:
        """A bookie that is no member of the ledger lacks everything, so that each copy falls into a gap."""
        bookies = [info.bookie_id for info in self._client.ledgers.bookies().writable]
        members = {each for fragment in metadata.fragments for each in fragment.ensemble}
        others = [each for each in bookies if each not in members]
        return self._chance.choice(others if others and self._chance.random() < 0.7 else bookies)

    async def _copy(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, entry_ids: list[int], target: BookieId
    ) -> None:
        writer = await self._pool.entries(target)
        answers, digester = _Answers(), make_digester(metadata.digest_type, metadata.password)
        writer.attach(ledger_id, answers)
        try:
            for entry_id in entry_ids:
                source = await self._pool.entries(self._chance.choice(write_set_of(metadata, entry_id)))
                entry = await self._read(source, ledger_id, entry_id, digester)
                if entry is not None:
                    writer.send(_recovery_add(metadata.password, entry), _ANSWER_S)
            await asyncio.sleep(0.2 * self._chance.random())
        finally:
            writer.detach(ledger_id, answers)
        if answers.conflicts:
            self.wrong.append(
                f"c5_all_readers_agree: {self._name}: entries {answers.conflicts} of ledger {ledger_id} are "
                f"different on {target} and on other bookies"
            )

    async def _read_back(self, ledger_id: LedgerId, entry_ids: range, target: BookieId) -> None:
        """Each answer is compared with what the bookie has acknowledged (checks/instants/denials.py)."""
        reader = await self._pool.entries(target)
        async with asyncio.timeout(_ANSWER_S):
            await asyncio.gather(*(reader.read(ledger_id, each, _ANSWER_S) for each in entry_ids))

    async def _read(
        self, bookie: EntryConnection, ledger_id: LedgerId, entry_id: int, digester: Digester
    ) -> bytes | None:
        """The entry as stored, if it is there and intact."""
        async with asyncio.timeout(_ANSWER_S):
            status, entry = await bookie.read(ledger_id, entry_id, _ANSWER_S)
        if status is not Status.EOK:
            return None
        try:
            digester.verify(entry, ledger_id, entry_id)
        except DigestMismatchError:
            return None
        return bytes(entry)


def _recovery_add(password: bytes, entry: bytes) -> bytes:
    flags = RECOVERY_ADD | HIGH_PRIORITY
    return v2.encode_request(AddRequest(master_key=master_key(password), entry=entry, flags=flags))
