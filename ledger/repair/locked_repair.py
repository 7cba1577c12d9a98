"""Repair of one ledger under its lock, with what an open ledger needs: time for its writer, then recovery.

The lock only keeps workers from copying the same thing twice. If it is lost on the way, what is copied is still right,
and metadata still changes by compare-and-set; but the mark is left to whoever has the lock then
(docs/pitfalls.md#mark-of-a-second-loss-removed).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress

from ledger.client import LedgerClient
from ledger.core.placement import Vacancies, can_replace
from ledger.errors import (
    LedgerNotFoundError,
    LogStoreError,
    MetadataVersionError,
    RecordNotFoundError,
    UnauthorizedError,
    UnavailableError,
)
from ledger.metadata.errors import LockLostError
from ledger.metadata.repair_store import RepairLock, UnderReplicated
from ledger.model import NO_ENTRY, BookieId, EntryId, LedgerId, LedgerMetadata, Versioned
from ledger.repair.config import RepairConfig
from ledger.repair.core.fragments import open_ensemble
from ledger.repair.ledger_repair import LedgerRepair, Scope
from ledger.repair.outcome import LedgerOutcome
from ledger.repair.progress import CopyProgress

_log = logging.getLogger(__name__)


class _Slot:
    """One of the ledgers that are repaired at the same time. While its writer has time, another may have the place."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._held = False

    async def __aenter__(self) -> _Slot:
        await self._slots.acquire()
        self._held = True
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._held:
            self._held = False
            self._slots.release()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        await self.__aexit__()
        yield
        await self.__aenter__()


class LockedRepair:
    def __init__(
        self,
        ledgers: LedgerClient,
        config: RepairConfig,
        holder: str,
        *,
        skip_open: bool = False,
        progress: CopyProgress | None = None,
    ) -> None:
        """`holder`: the name in the lock, for display. `skip_open`: leave open ledgers to their writers.

        `progress`: where the copies are counted.
        """
        self._ledgers = ledgers
        self._config = config
        self._holder = holder
        self._skip_open = skip_open
        self._repair = LedgerRepair(ledgers, config, progress)
        self._slots = asyncio.Semaphore(config.ledgers_at_once)
        self._attempts: dict[LedgerId, tuple[Versioned[UnderReplicated], EntryId]] = {}
        """Ledgers that stay marked: the mark, and through which entry everything was read because of it."""
        self._unreleased: list[RepairLock] = []
        """Locks whose release failed. The session that took them lives on, so they would keep out other clients."""
        self._in_doubt: set[LedgerId] = set()
        """Ledgers whose lock may have been taken although the call failed."""

    async def close(self) -> None:
        await self.release_again()
        await self._repair.close()

    async def release_again(self) -> None:
        """Release the locks whose release failed before, and those that may be held, until one fails again."""
        while self._unreleased and await self._release(self._unreleased.pop(0)):
            pass
        for ledger_id in tuple(self._in_doubt):
            # Taken again, it is known to be held: a lock of this session is no obstacle.
            with suppress(LogStoreError):
                lock = await self._lock(ledger_id)
                if lock is None or await self._release(lock):
                    continue
            break

    async def of_mark(self, ledger_id: LedgerId) -> LedgerOutcome | None:
        """Repair a marked ledger and remove its mark.

        None: another worker has it, it is not marked any more, or repair is switched off.
        """
        enabled = self._ledgers.store.repair.enabled

        async def work(lock: RepairLock, slot: _Slot) -> LedgerOutcome | None:
            # After the slot: a ledger may have waited for hours until it had one.
            if not await enabled():
                return None
            try:
                # Before the look at the ledger: what is marked later is not cleared.
                mark = await self._ledgers.store.repair.read_mark(ledger_id)
            except RecordNotFoundError:
                self.forget(ledger_id)
                return None
            # A ledger may stay open for hours: each attempt reads only what was not closed at the one before.
            before, read_through = self._attempts.get(ledger_id, (None, NO_ENTRY))
            if before != mark:
                read_through = NO_ENTRY
            # A damaged mark names none: any member may be meant.
            suspects = frozenset(mark.value.missing) or await self._members(ledger_id)
            scope = Scope(suspects=suspects, read_through=read_through)
            outcome = await self._with_grace(ledger_id, scope, slot, goes_on=enabled)
            if outcome.complete:
                await _clear(lock, mark.version, outcome)
                self.forget(ledger_id)
            else:
                self._attempts[ledger_id] = (mark, max(read_through, outcome.read_through))
            return outcome

        return await self._under_lock(ledger_id, work)

    def forget(self, ledger_id: LedgerId) -> None:
        """The ledger is not marked any more."""
        self._attempts.pop(ledger_id, None)
        self._repair.forget(ledger_id)

    async def drain(self, ledger_id: LedgerId, scope: Scope) -> LedgerOutcome | None:
        """Replace the drained bookies in a ledger, marked or not. None: another worker has it.

        A mark that names no other bookie is removed then; the copies of others are not read here.
        """

        async def work(lock: RepairLock, slot: _Slot) -> LedgerOutcome:
            outcome = await self._with_grace(ledger_id, scope, slot, goes_on=_always)
            await self._clear_void(lock, scope.drained)
            return outcome

        return await self._under_lock(ledger_id, work)

    async def clear_void_mark(self, ledger_id: LedgerId, bookie_ids: Collection[BookieId]) -> None:
        """Remove the ledger's mark if it names none but these bookies and the ledger none of them: it asks for nothing.

        Nothing is done while another worker has the ledger.
        """

        async def work(lock: RepairLock, slot: _Slot) -> None:
            await self._clear_void(lock, bookie_ids)

        await self._under_lock(ledger_id, work)

    async def _clear_void(self, lock: RepairLock, bookie_ids: Collection[BookieId]) -> None:
        try:
            # Before the metadata: one that is made later, for a bookie that was taken back, is not cleared.
            mark = await self._ledgers.store.repair.read_mark(lock.ledger_id)
        except RecordNotFoundError:
            return
        # A damaged mark names none, and may mean any.
        if not mark.value.missing or not set(mark.value.missing).issubset(bookie_ids):
            return
        if (await self._members(lock.ledger_id)).isdisjoint(bookie_ids):
            with suppress(MetadataVersionError, LockLostError):
                await lock.clear_mark(mark.version)

    async def look(self, ledger_id: LedgerId, scope: Scope) -> LedgerOutcome:
        async with _Slot(self._slots):
            return await self._repair.look(ledger_id, scope)

    async def _under_lock(
        self,
        ledger_id: LedgerId,
        work: Callable[[RepairLock, _Slot], Awaitable[LedgerOutcome | None]],
    ) -> LedgerOutcome | None:
        # The slot first: a ledger that waits for its turn here is left to other workers.
        async with _Slot(self._slots) as slot:
            await self.release_again()
            lock = await self._lock(ledger_id)
            if lock is None:
                return None
            try:
                return await work(lock, slot)
            finally:
                await self._release(lock)

    async def _lock(self, ledger_id: LedgerId) -> RepairLock | None:
        try:
            lock = await self._ledgers.store.repair.lock(ledger_id, self._holder)
        except BaseException:
            self._in_doubt.add(ledger_id)
            raise
        self._in_doubt.discard(ledger_id)
        return lock

    async def _release(self, lock: RepairLock) -> bool:
        """False if it failed, which changes nothing about the outcome of the repair: it is tried again later."""
        is_released = False
        try:
            await lock.release()
            is_released = True
        except LogStoreError as error:
            _log.warning("the lock of ledger %s is not released yet, and will be: %s", lock.ledger_id, error)
        finally:
            if not is_released:
                self._unreleased.append(lock)
        return is_released

    async def _with_grace(
        self, ledger_id: LedgerId, scope: Scope, slot: _Slot, *, goes_on: Callable[[], Awaitable[bool]]
    ) -> LedgerOutcome:
        """`goes_on`: whether its writer may still be fenced, asked after the grace.

        The writer has the grace for each bookie: what is lost during that of another one begins a new one.
        """
        outcome = await self._repair.repair(ledger_id, scope)
        waited: set[BookieId] = set()
        while outcome.open_lost and not self._skip_open:
            if not await self._has_spare(ledger_id, scope, outcome.open_lost):
                # Fencing would end the writer and gain nothing: with its ack quorum it goes on.
                where = " in a rack that placement allows" if self._ledgers.placement().enforce else ""
                outcome.left.append(f"no bookie is left{where} to replace {', '.join(outcome.open_lost)}")
                break
            if waited.intersection(outcome.open_lost):
                return await self._recovered(ledger_id, scope, outcome)
            waited = set(outcome.open_lost)
            async with slot.lent():
                await asyncio.sleep(self._config.open_ledger_grace_s)
            if not await goes_on():
                outcome.left.append("repair was switched off before its writer was fenced")
                break
            again = await self._repair.repair(ledger_id, scope)
            again.add(outcome)
            outcome = again
        return outcome

    async def _recovered(self, ledger_id: LedgerId, scope: Scope, so_far: LedgerOutcome) -> LedgerOutcome:
        """Fence the writer and close the ledger, so that its last fragment can be repaired as well."""
        try:
            metadata = await self._read(ledger_id)
            if metadata is not None:
                await self._ledgers.open_with_recovery(ledger_id, metadata.password)
        except LedgerNotFoundError:
            pass  # the next attempt finds that it is deleted
        except (UnavailableError, UnauthorizedError) as error:
            so_far.left.append(str(error))
            return so_far
        final = await self._repair.repair(ledger_id, scope)
        final.add(so_far)
        return final

    async def _has_spare(self, ledger_id: LedgerId, scope: Scope, lost: Collection[BookieId]) -> bool:
        """Whether a bookie may take the place of one of the lost members; True if none of them is there any more."""
        metadata = await self._read(ledger_id)
        bookies = await self._ledgers.store.bookies()
        if metadata is None or not (held := set(lost).intersection(open_ensemble(metadata))):
            return True
        ensemble, quorum = open_ensemble(metadata), metadata.quorum
        policy = self._ledgers.placement()
        # One at a time, as repair replaces them.
        return any(
            can_replace(
                bookies,
                Vacancies.at(ensemble, (ensemble.index(member),), quorum),
                scope.drained,
                policy,
            )
            for member in held
        )

    async def _members(self, ledger_id: LedgerId) -> frozenset[BookieId]:
        metadata = await self._read(ledger_id)
        return frozenset() if metadata is None else frozenset(metadata.members())

    async def _read(self, ledger_id: LedgerId) -> LedgerMetadata | None:
        try:
            return (await self._ledgers.store.read_ledger(ledger_id)).value
        except LedgerNotFoundError:
            return None


async def _always() -> bool:
    """An operator has asked for it: no switch stops it."""
    return True


async def _clear(lock: RepairLock, version: int, outcome: LedgerOutcome) -> None:
    """Remove the mark, unless it is not ours to remove any more: then the ledger is not done."""
    try:
        await lock.clear_mark(version)
    except MetadataVersionError:
        outcome.left.append("it was marked again in the meantime")
    except LockLostError as error:
        outcome.left.append(str(error))
