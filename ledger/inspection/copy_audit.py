"""Reads every copy of a ledger's entries from the bookie that should have it, and verifies each digest.

Fences nothing and writes nothing: these are the reads of a reader. Protocol: docs/bookkeeper.md#reads, #batch-reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from ledger.client import LedgerClient
from ledger.core.distribution import holds
from ledger.errors import BookieUnavailableError, DigestMismatchError
from ledger.inspection.copies import Copies, Copy, CopyState, LedgerCopies
from ledger.model import BookieId, BookieInfo, LedgerId, LedgerMetadata
from ledger.reading.bookie_reads import BookieAnswer, Entry, read_batch, read_entry
from ledger.transport.entry_connection import EntryConnection
from ledger.transport.force import force
from ledger.transport.pool import ConnectionPool
from ledger.transport.v2_connection import V2Connection
from ledger.wire.digest import Digester, make_digester
from ledger.wire.status import Answer, Status

_ENTRIES_AT_ONCE = 1000
"""Entries of which all copies are compared at the same time; of each copy only a hash is kept."""
_SINGLE_READS_AT_ONCE = 64
_BATCH_BYTES = 1 << 20
_PLACES_MAX = 10
"""Changes of the bookies of some entries that one check of these entries follows; repair makes one per lost bookie."""
_TRIES = 2
"""A connection that was idle for long may have lost its bookie unnoticed."""
_HASH_BYTES = 16
_HAS_NO_COPY = (Status.EIO, Status.EUNKNOWNLEDGERSTATE)
"""Answers about one entry: the bookie cannot read its copy, or is in limbo and finds none. Others are about itself."""
SILENCE_S = 60.0
"""A bookie that has not answered within a timeout is not asked for this time: a hung one costs a check of many ledgers
one timeout a minute, and one that was only slow is asked again."""


class CopyAudit:
    """Reads copies over connections of its own. `close` ends them."""

    def __init__(self, ledgers: LedgerClient) -> None:
        self._ledgers = ledgers
        self._pool = ConnectionPool(self._where, ledgers.config)
        self._silence_s = min(ledgers.config.connect_timeout_s, ledgers.config.read_timeout_s)
        self._silent: dict[BookieId, tuple[float, str]] = {}
        """Bookies that did not answer in time: until when they are not asked, and what was the matter."""

    async def _where(self, bookie_id: BookieId) -> BookieInfo | None:
        return self._ledgers.bookies().find(bookie_id)

    async def close(self) -> None:
        await self._pool.close()

    async def audit(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        last_entry: int,
        on_progress: Callable[[int], None] = lambda entries: None,
    ) -> LedgerCopies:
        """Check entries 0 to `last_entry`. `on_progress` is called with the number of entries just checked.

        `metadata` may become old during the call: see `current_copies`. The copies on a bookie that did not answer in
        time are unreachable; it is asked again after `SILENCE_S`. No answer of a bookie raises: it is the result.

        Raises:
            LedgerNotFoundError: a copy is not intact, and the ledger was deleted.
            MetadataUnavailableError: a copy is not intact, and the metadata store cannot be reached.
        """
        found = LedgerCopies(ledger_id, metadata.quorum)
        first = 0
        while first <= last_entry:
            metadata, part = await self.current_copies(ledger_id, metadata, first, last_entry)
            for entry_id, copies in part.items():
                found.add(entry_id, copies)
            on_progress(len(part))
            first += len(part)
        return found

    async def current_copies(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, first: int, last_entry: int
    ) -> tuple[LedgerMetadata, dict[int, Copies]]:
        """The copies of some entries from `first` on, at most up to `last_entry`, and the metadata that locates them.

        Repair may move copies, a writer replace members and retention delete the ledger after `metadata` was read, so
        copies that are not intact are a result only if fresh metadata has them on the same bookies.

        Raises: as `audit`.
        """
        place = _place(metadata, first, last_entry)
        for _ in range(_PLACES_MAX):
            copies = await self.copies(ledger_id, metadata, first, place.last)
            if all(copy.state is CopyState.INTACT for each in copies.values() for copy in each.values()):
                break
            fresh = (await self._ledgers.store.read_ledger(ledger_id)).value
            before, place = place, _place(fresh, first, last_entry)
            if place == before:
                break
            metadata = fresh
        return metadata, copies

    async def copies(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, first: int, last: int
    ) -> dict[int, Copies]:
        """For each entry from `first` to `last`, all of one fragment, the copies on its write set."""
        ensemble = metadata.fragment_of(first).ensemble
        digester = make_digester(metadata.digest_type, metadata.password)
        readings = [
            self.copies_on(
                bookie_id,
                ledger_id,
                digester,
                [entry_id for entry_id in range(first, last + 1) if holds(at, entry_id, metadata.quorum)],
            )
            for at, bookie_id in enumerate(ensemble)
        ]
        answers = dict(zip(ensemble, await asyncio.gather(*readings), strict=True))
        return {
            entry_id: {
                bookie_id: found[entry_id] for bookie_id, found in answers.items() if entry_id in found
            }
            for entry_id in range(first, last + 1)
        }

    async def copies_on(
        self, bookie_id: BookieId, ledger_id: LedgerId, digester: Digester, entry_ids: list[int]
    ) -> dict[int, Copy]:
        """The state of these entries, ascending, on one bookie."""
        now = asyncio.get_running_loop().time
        if reason := self._silence_of(bookie_id):
            return dict.fromkeys(entry_ids, Copy(CopyState.UNREACHABLE, reason=reason))
        timeout_s = self._ledgers.config.read_timeout_s
        reading = _Reading(self._pool, bookie_id, ledger_id, digester, timeout_s, self._silence_s)
        found = await reading.run(entry_ids)
        if reading.silence:
            self._silent[bookie_id] = (now() + SILENCE_S, reading.silence)
        else:
            self._silent.pop(bookie_id, None)
        return found

    async def durable_copies_on(
        self, bookie_id: BookieId, ledger_id: LedgerId, digester: Digester, entry_ids: list[int]
    ) -> dict[int, Copy]:
        """As `copies_on`, and what is intact is on the bookie's disk: unreachable if it does not sync it in time.

        A bookie returns entries that its journal has not synced yet, which a power cut would take.
        """
        now, timeout_s = asyncio.get_running_loop().time, self._ledgers.config.read_timeout_s
        reason = self._silence_of(bookie_id)
        for _ in range(0 if reason else _TRIES):
            asked = now()
            try:
                # From before the reads: if it lasts, one process has answered them all.
                connection = await self._pool.v3(bookie_id)
                found = await self.copies_on(bookie_id, ledger_id, digester, entry_ids)
                if any(copy.state is CopyState.INTACT for copy in found.values()):
                    asked = now()
                    await force(connection, ledger_id, timeout_s)
                return found
            except BookieUnavailableError as error:
                reason = str(error)
                if now() - asked >= self._silence_s:
                    self._silent[bookie_id] = (now() + SILENCE_S, reason)
                    break
        return dict.fromkeys(entry_ids, Copy(CopyState.UNREACHABLE, reason=reason))

    def _silence_of(self, bookie_id: BookieId) -> str:
        """Why it is not asked now; empty if it is."""
        until, reason = self._silent.get(bookie_id, (0.0, ""))
        return reason if asyncio.get_running_loop().time() < until else ""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where consecutive entries of one fragment are."""

    ensemble: tuple[BookieId, ...]
    last: int


def _place(metadata: LedgerMetadata, first: int, last_entry: int) -> _Place:
    """Of at most `_ENTRIES_AT_ONCE` entries from `first` on, up to `last_entry`."""
    later = (fragment.first_entry - 1 for fragment in metadata.fragments if fragment.first_entry > first)
    last = min(first + _ENTRIES_AT_ONCE - 1, last_entry, *later)
    return _Place(metadata.fragment_of(first).ensemble, last)


class _Reading:
    """The copies of some entries on one bookie."""

    def __init__(
        self,
        pool: ConnectionPool,
        bookie_id: BookieId,
        ledger_id: LedgerId,
        digester: Digester,
        timeout_s: float,
        silence_s: float,
    ) -> None:
        self._pool = pool
        self._bookie_id = bookie_id
        self._ledger_id = ledger_id
        self._digester = digester
        self._timeout_s = timeout_s
        self._silence_s = silence_s
        self._found: dict[int, Copy] = {}
        self._heard = 0.0
        """When it was asked first, or answered last."""
        self.silence = ""
        """Why the bookie counts as silent: it answered nothing for a whole timeout."""

    async def run(self, entry_ids: list[int]) -> dict[int, Copy]:
        """The state of every copy. `entry_ids` ascend."""
        now = asyncio.get_running_loop().time
        reason = ""
        for _ in range(_TRIES):
            self._heard = now()
            left = [entry_id for entry_id in entry_ids if entry_id not in self._found]
            if not left:
                break
            try:
                await self._read(await self._pool.entries(self._bookie_id), left)
            except BookieUnavailableError as error:
                reason = str(error)
                if now() - self._heard >= self._silence_s:
                    self.silence = reason
                    break
        unreachable = Copy(CopyState.UNREACHABLE, reason=reason)
        return {entry_id: self._found.get(entry_id, unreachable) for entry_id in entry_ids}

    async def _read(self, connection: EntryConnection, entry_ids: list[int]) -> None:
        consecutive = entry_ids[-1] - entry_ids[0] + 1 == len(entry_ids)
        if isinstance(connection, V2Connection) and consecutive:
            await self._read_batches(connection, entry_ids[0], entry_ids[-1])
            return
        for at in range(0, len(entry_ids), _SINGLE_READS_AT_ONCE):
            some = entry_ids[at : at + _SINGLE_READS_AT_ONCE]
            answers = await asyncio.gather(
                *(
                    read_entry(connection, self._ledger_id, entry_id, self._digester, self._timeout_s)
                    for entry_id in some
                )
            )
            for entry_id, answer in zip(some, answers, strict=True):
                self._take(entry_id, answer)

    async def _read_batches(self, connection: V2Connection, first: int, last: int) -> None:
        entry_id = first
        while entry_id <= last:
            answer = await read_batch(
                connection,
                self._ledger_id,
                entry_id,
                last - entry_id + 1,
                _BATCH_BYTES,
                self._digester,
                self._timeout_s,
            )
            if answer.status is Status.ENOLEDGER:
                missing = Copy(CopyState.MISSING, reason=str(answer.reason))
                self._found |= dict.fromkeys(range(entry_id, last + 1), missing)
                return
            self._take(entry_id, answer)
            entry_id += max(1, len(answer.entries))

    def _take(self, first: int, answer: BookieAnswer) -> None:
        """Note an answer about the entries from `first` on.

        Raises:
            BookieUnavailableError: the bookie did not answer, or answered that it cannot now.
        """
        if answer.status is not None:
            self._heard = asyncio.get_running_loop().time()
        if answer.answer is Answer.YES:
            self._found |= {entry.entry_id: _intact(entry) for entry in answer.entries}
        elif answer.answer is Answer.PROVED_NO:
            self._found[first] = Copy(CopyState.MISSING, reason=str(answer.reason))
        elif isinstance(answer.reason, DigestMismatchError) or answer.status in _HAS_NO_COPY:
            self._found[first] = Copy(CopyState.DAMAGED, reason=str(answer.reason))
        else:
            raise BookieUnavailableError(str(answer.reason), bookie_id=self._bookie_id)


def _intact(entry: Entry) -> Copy:
    hashed = blake2b(entry.payload, digest_size=_HASH_BYTES, salt=entry.length.to_bytes(16, "big"))
    return Copy(CopyState.INTACT, hashed.digest(), len(entry.payload))
