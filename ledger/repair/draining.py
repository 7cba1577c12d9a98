"""A bookie that is gone for good: what depended on it is copied to others (`bookie recover`, `bookie decommission`).

Works with or without auditors and workers: it takes the same locks, and comes back to ledgers that another client has.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from ledger.client import LedgerClient
from ledger.errors import (
    AlreadyExistsError,
    LogStoreError,
    MetadataFormatError,
    MetadataOutcomeUnknownError,
    NotEnoughBookiesError,
    OutcomeUnknownError,
    RecordNotFoundError,
    UnavailableError,
)
from ledger.metadata.known_bookies import require_known
from ledger.metadata.refusals import KILLED
from ledger.model import BookieId, LedgerId
from ledger.repair.config import RepairConfig
from ledger.repair.copying.checker import Depth
from ledger.repair.errors import BookieRunningError
from ledger.repair.ledger_index import all_ledgers, these_ledgers
from ledger.repair.ledger_repair import Scope
from ledger.repair.locked_repair import LockedRepair
from ledger.repair.outcome import LedgerOutcome
from ledger.repair.progress import DrainProgress
from ledger.tasks import start_task

_log = logging.getLogger(__name__)

_AGAIN_S = 1.0
"""Pause before the ledgers that another worker has are looked at again."""


@dataclass(slots=True)
class Drained:
    """What became of the ledgers that named the bookie."""

    bookie_id: BookieId
    ledgers: int = 0
    entries: int = 0
    payload_bytes: int = 0
    left: dict[LedgerId, LedgerOutcome] = field(default_factory=dict)
    """Those that still depend on it, and those that may: their metadata cannot be read."""
    unreadable: int = 0
    """Of `left`, those that may."""

    def count(self, outcome: LedgerOutcome) -> None:
        self.entries += outcome.entries
        self.payload_bytes += outcome.payload_bytes


OnLedger = Callable[[int, int, LedgerOutcome], None]
"""Called with the ledgers that are done, those that are known, and what became of the last one."""


def ignore_progress(done: int, known: int, outcome: LedgerOutcome) -> None:
    """The default: reports nothing."""


class Draining:
    def __init__(
        self,
        ledgers: LedgerClient,
        bookie_id: BookieId,
        config: RepairConfig,
        *,
        only: LedgerId | None = None,
        skip_open: bool = False,
        on_ledger: OnLedger = ignore_progress,
        progress: DrainProgress | None = None,
    ) -> None:
        """`only`: the ledger that `recover` and `look` are about; None: all that name the bookie."""
        self._ledgers = ledgers
        self._only = only
        self._progress = progress or DrainProgress()
        self._bookie_id = bookie_id
        self._on_ledger = on_ledger
        self._locked = LockedRepair(
            ledgers,
            config,
            ledgers.environment.host_name(),
            skip_open=skip_open,
            progress=self._progress.copies,
        )
        self._scope = Scope(drained=frozenset({bookie_id}), others=Depth.NONE)
        self._damaged: dict[LedgerId, MetadataFormatError] = {}
        """Ledgers that no client can read, so it is unknown whether they name the bookie; as of the last look."""

    async def close(self) -> None:
        await self._locked.close()

    async def recover(self) -> Drained:
        """Copy everything that the bookie must hold to others, and replace it in metadata.

        It may be stopped, or read-only: then its own copies are read, too.

        On return no ledger depends on it but those that are left. One whose metadata is damaged is left, too, and does
        not keep the others from being copied.

        Raises:
            BookieRunningError: it is running and writable, or was so at the end, and new ledgers would choose it.
            RecordNotFoundError: the cluster does not know it.
            LedgerNotFoundError: the only ledger that is wanted does not exist.
        """
        await self._require_no_writes()
        done = Drained(self._bookie_id)
        ledger_ids = await self._dependent_at_first()
        while ledger_ids:
            done.ledgers += len(ledger_ids)
            self._progress.ledgers = done.ledgers
            await self._drain(ledger_ids, done)
            if done.left:
                break
            # Copying takes hours: the bookie may have come back, and a client that did not know of its end may have
            # chosen it for a new ledger.
            await self._require_no_writes()
            ledger_ids = await self._dependent()
        await self._clear_marks()
        self._leave_damaged(done)
        return done

    async def _clear_marks(self) -> None:
        """Remove marks of the bookie that ask for nothing any more, also those that an interrupted run has left."""
        await self._ledgers.missed_copies.settle()  # recoveries of open ledgers have marked them for it
        async for mark in self._ledgers.store.repair.marks():
            if set(mark.missing) == {self._bookie_id} and self._only in (None, mark.ledger_id):
                with suppress(MetadataFormatError):  # it may name the bookie
                    await self._locked.clear_void_mark(mark.ledger_id, self._scope.drained)

    def _leave_damaged(self, done: Drained) -> None:
        done.unreadable = len(self._damaged)
        for ledger_id, error in self._damaged.items():
            outcome = LedgerOutcome(ledger_id, left=[str(error)])
            done.left[ledger_id] = outcome
            done.ledgers += 1
            self._progress.ledgers = self._progress.ledgers_done = done.ledgers
            self._on_ledger(done.ledgers, done.ledgers, outcome)

    async def _drain(self, ledger_ids: list[LedgerId], done: Drained) -> None:
        """Repair them all, also those that another worker has."""
        waited = False
        while ledger_ids:
            busy = await self._pass(ledger_ids, done)
            if busy:
                if len(busy) != len(ledger_ids) or not waited:
                    _log.warning("waiting for other workers (ledgers: %d)", len(busy))
                waited = True
                await asyncio.sleep(_AGAIN_S)
            ledger_ids = busy

    async def look(self) -> Drained:
        """What `recover` would do, one outcome per ledger. Changes nothing. NotFoundErrors as there."""
        done = Drained(self._bookie_id)
        ledger_ids = await self._dependent_at_first()
        self._progress.ledgers = done.ledgers = len(ledger_ids)
        for number, ledger_id in enumerate(ledger_ids, 1):
            outcome = await self._locked.look(ledger_id, self._scope)
            done.left[ledger_id] = outcome
            self._progress.ledgers_done = number
            self._on_ledger(number, len(ledger_ids), outcome)
        self._leave_damaged(done)
        return done

    async def decommission(self) -> Drained:
        """`recover`, and once no ledger's metadata names the bookie remove its cookie: it is no member any more.

        Raises:
            BookieRunningError: it is running, or was started in the meantime: it keeps its cookie.
            RecordNotFoundError: the cluster does not know it, for example since it was decommissioned before.
            NotEnoughBookiesError: a ledger would have no place left for one of its copies, or fewer bookies than its
                write quorum; nothing was done.
        """
        await self._require_stopped()
        await self._require_places()
        done = await self.recover()
        if not done.left:
            await self._remove_cookie()
        return done

    async def _pass(self, ledger_ids: list[LedgerId], done: Drained) -> list[LedgerId]:
        """Repair them; returns those that another worker has."""
        busy: list[LedgerId] = []
        finished = done.ledgers - len(ledger_ids)

        async def drain(ledger_id: LedgerId) -> None:
            nonlocal finished
            outcome = await self._locked.drain(ledger_id, self._scope)
            if outcome is None:
                busy.append(ledger_id)
                return
            done.count(outcome)
            if not outcome.complete:
                done.left[ledger_id] = outcome
            finished += 1
            self._progress.ledgers_done = finished
            self._on_ledger(finished, done.ledgers, outcome)

        waiting = set[asyncio.Task[None]]()
        try:
            for ledger_id in ledger_ids:
                if len(waiting) >= _TASKS_MAX:
                    ended, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                    for task in ended:
                        task.result()
                waiting.add(start_task(drain(ledger_id)))
            await asyncio.gather(*waiting)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        return sorted(busy)

    async def _dependent_at_first(self) -> list[LedgerId]:
        """`_dependent`, if both ids are right."""
        store, unnamed = self._ledgers.store, "no ledger names it"
        if self._only is not None:
            unnamed = f"ledger {self._only} does not name it"
            with suppress(MetadataFormatError):
                await store.read_ledger(self._only)
        found = await self._dependent()
        if not found:
            for ledger_id in sorted(self._damaged)[:1]:
                unnamed = f"the metadata of ledger {ledger_id}, which may name it, cannot be used"
            await require_known(store, self._bookie_id, unnamed)
        return found

    async def _dependent(self) -> list[LedgerId]:
        self._damaged.clear()
        store = self._ledgers.store
        ledgers = (
            all_ledgers(store, self._on_damaged)
            if self._only is None
            else these_ledgers(store, [self._only], self._on_damaged)
        )
        return [ledger_id async for ledger_id, metadata in ledgers if self._bookie_id in metadata.members()]

    def _on_damaged(self, error: MetadataFormatError) -> None:
        assert isinstance(error.key, int), "the metadata is that of a ledger"
        self._damaged[LedgerId(error.key)] = error

    async def _require_no_writes(self) -> None:
        bookies = await self._ledgers.store.bookies()
        info = bookies.find(self._bookie_id)
        if info is None and bookies.is_registered(self._bookie_id):
            raise BookieRunningError(
                f"bookie {self._bookie_id} is registered, and its registration is damaged, so it may be writable: "
                f"stop it first; {KILLED}",
                bookie_id=self._bookie_id,
            )
        if info is not None and not info.read_only:
            raise BookieRunningError(
                f"bookie {self._bookie_id} is registered and writable: stop it first, or new ledgers would choose it; "
                f"{KILLED}",
                bookie_id=self._bookie_id,
            )

    async def _require_places(self) -> None:
        bookies = await self._ledgers.store.bookies()
        writable = {info.bookie_id for info in bookies.writable}
        present = writable | {info.bookie_id for info in bookies.read_only}
        # A ledger that is damaged is found again by `recover`, and the cookie stays.
        async for ledger_id, metadata in all_ledgers(self._ledgers.store, self._on_damaged):
            if self._bookie_id not in metadata.members():
                continue
            for fragment in metadata.fragments:
                kept = present.intersection(fragment.ensemble)
                if self._bookie_id not in fragment.ensemble:
                    continue
                spare = writable - kept
                needed = metadata.quorum.write if spare else metadata.quorum.ensemble
                # A read-only one keeps the copies that it has, and takes no others.
                usable = present if spare else kept
                if len(usable) < needed:
                    unusable = len(present - usable)
                    raise NotEnoughBookiesError(
                        f"ledger {ledger_id} needs {needed} bookies and {len(usable)} are left without "
                        f"{self._bookie_id}{f', and {unusable} read-only' if unusable else ''}: "
                        "start another one first",
                        needed=needed,
                        available=len(usable),
                    )

    async def _require_stopped(self) -> None:
        if (await self._ledgers.store.bookies()).is_registered(self._bookie_id):
            raise BookieRunningError(
                f"bookie {self._bookie_id} is registered: stop it first; {KILLED}", bookie_id=self._bookie_id
            )

    async def _remove_cookie(self) -> None:
        """Invariant: a bookie that registers by the time this returns has its cookie, without which it does not start
        again on what it has acknowledged by then."""
        store = self._ledgers.store
        await self._require_stopped()  # copying takes hours
        try:
            cookie = await store.read_cookie(self._bookie_id)
        except RecordNotFoundError:
            return
        in_doubt: MetadataOutcomeUnknownError | None = None
        try:
            await store.remove_cookie(self._bookie_id, cookie.version)
        except MetadataOutcomeUnknownError as error:
            in_doubt = error
        try:
            await self._require_stopped()
        except LogStoreError:
            # It has read its cookie before, and registered in between; or that is not known.
            with suppress(AlreadyExistsError, UnavailableError, OutcomeUnknownError):
                await store.write_cookie(self._bookie_id, cookie.value, None)
            raise
        if in_doubt is not None:
            raise in_doubt


_TASKS_MAX = 256
"""Ledgers that may wait for their open writers at the same time, in addition to those that are copied."""
