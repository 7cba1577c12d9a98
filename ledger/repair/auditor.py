"""The auditor: notices lost bookies and ledgers that lack copies, and marks them. One at a time works, the elected one.

Marking is all it does, and marks may be wrong: a worker looks before it copies. Two auditors mark twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import aclosing, suppress

from ledger.client import LedgerClient
from ledger.errors import LogStoreError, MetadataFormatError
from ledger.metadata.repair_store import Candidacy
from ledger.model import BookieId, LedgerId, Versioned
from ledger.repair.config import RepairConfig
from ledger.repair.copy_check import Mark, check_copies
from ledger.repair.copying.together import together
from ledger.repair.core.absences import Absences
from ledger.repair.ledger_index import all_ledgers
from ledger.repair.ledger_repair import LedgerRepair, Scope
from ledger.repair.placement_check import check_placement
from ledger.tasks import start_task

_MARKS_AT_ONCE = 64
"""A mark takes some requests one after the other, and there may be a hundred thousand."""

_log = logging.getLogger(__name__)


class Auditor:
    """A candidate that audits while it is elected. Runs until it is cancelled."""

    def __init__(self, ledgers: LedgerClient, config: RepairConfig, name: str) -> None:
        """`name`: in the vote; has the form of a bookie id."""
        self._ledgers = ledgers
        self._store = ledgers.store
        self._config = config
        self._name = name
        self._woken = asyncio.Event()
        self._elected = False
        self._was_enabled = True
        self._absences = Absences()
        self._delay: Versioned[int] | None = None
        self._is_asked_for = False
        """An operator asks for an audit. True until one has been made."""
        self._have_bookies_changed = False
        """Since they were read last."""
        self._bookie_check_due = 0.0
        self._checking: asyncio.Task[None] | None = None

    async def run(self) -> None:
        unwatch = [
            self._store.watch_bookies(self._on_bookies_changed),
            self._store.repair.watch_switches(self._woken.set),
        ]
        candidacy: Candidacy | None = None
        try:
            while True:
                self._woken.clear()
                pause_s = self._config.poll_s
                try:
                    if candidacy is None:
                        candidacy = await self._store.repair.stand(self._name)
                        unwatch.append(candidacy.watch(self._woken.set))
                    pause_s = await self._step(candidacy)
                except LogStoreError as error:
                    _log.warning("the auditor cannot work now, and will try again: %s", error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._woken.wait()
        finally:
            for each in unwatch:
                each()
            await self._stop_checking()
            if candidacy is not None:
                with suppress(LogStoreError):
                    await candidacy.close()

    def _on_bookies_changed(self) -> None:
        self._have_bookies_changed = True
        self._woken.set()

    async def _step(self, candidacy: Candidacy) -> float:
        """Look once, and do what is due; returns when to look again without being told, in seconds."""
        if not await candidacy.is_elected():
            if self._elected:
                _log.warning("%s is not the auditor any more", self._name)
                await self._stop_checking()
            self._elected = False
            return self._config.poll_s
        now = asyncio.get_running_loop().time
        if not self._elected:
            _log.info("%s is the auditor", self._name)
            self._elected, self._absences, self._delay = True, Absences(), None
            self._bookie_check_due = now()
        was_enabled, self._was_enabled = self._was_enabled, await self._store.repair.enabled()
        if not self._was_enabled:
            await self._stop_checking()
            return self._config.poll_s
        if not was_enabled:
            # Bookies may have come and been lost since, and only ledgers that name them show it.
            self._bookie_check_due = now()
        delay_s = await self._read_delay()
        self._have_bookies_changed = False
        bookies = await self._store.bookies()
        # One whose registration is damaged is as good as lost: no client reaches the copies that it has.
        registered = {info.bookie_id for info in (*bookies.writable, *bookies.read_only)}
        self._absences.see(registered, now())
        due = self._absences.waiting() if self._is_asked_for else self._absences.due(now(), delay_s)
        is_check_due = now() >= self._bookie_check_due
        if due or self._is_asked_for or is_check_due:
            await self._audit(registered, due)
            self._is_asked_for = False
            if self._have_bookies_changed:
                # An audit may take minutes. A lost bookie that was back in between, as far as a worker could see, has
                # no marks any more; if it is away now, they are made again.
                self._absences.doubt()
            if is_check_due:
                self._bookie_check_due = now() + self._config.bookie_check_interval_s
        self._start_checking(await self._is_copy_check_due(), await self._is_placement_check_due())
        due_at = self._absences.next_due(delay_s)
        if due_at is None:
            return self._config.poll_s
        return max(0.0, min(self._config.poll_s, due_at - now()))

    async def _read_delay(self) -> int:
        """The delay. An operator asks for an audit now by setting it to what it is."""
        found = await self._store.repair.lost_bookie_delay_s()
        if found is None:
            await self._store.repair.set_lost_bookie_delay_s(self._config.lost_bookie_delay_s)
            found = await self._store.repair.lost_bookie_delay_s()
            if found is None:
                return self._config.lost_bookie_delay_s
        before, self._delay = self._delay, found
        if before is not None and before.version != found.version and before.value == found.value:
            self._is_asked_for = True
        return found.value

    # ---- lost bookies

    async def _audit(self, registered: Collection[BookieId], due: Collection[BookieId]) -> None:
        """Mark every ledger that names a lost bookie."""
        lost = self._absences.lost.union(due)
        named: set[BookieId] = set()
        marked = 0
        marking: list[tuple[LedgerId, set[BookieId]]] = []
        async for ledger_id, metadata in all_ledgers(self._store, _report):
            members = set(metadata.members())
            named |= members
            missing = members & lost
            if missing:
                marking.append((ledger_id, missing))
            if len(marking) == _MARKS_AT_ONCE:
                marked += await self._mark(marking)
                marking.clear()
        marked += await self._mark(marking)
        self._absences.on_marked(lost)
        self._absences.expect(named, asyncio.get_running_loop().time())
        if lost:
            _log.warning(
                "bookies %s are lost: %d ledgers that name them are marked", ", ".join(sorted(lost)), marked
            )

    async def _mark(self, marking: list[tuple[LedgerId, set[BookieId]]]) -> int:
        now_ms = self._wall_ms()
        mark = self._store.repair.mark
        await together(mark(ledger_id, missing, now_ms) for ledger_id, missing in marking)
        return len(marking)

    # ---- copies

    async def _is_copy_check_due(self) -> bool:
        interval_s = self._config.copy_check_interval_s
        return bool(interval_s) and self._is_over(await self._store.repair.all_checked_ms(), interval_s)

    async def _is_placement_check_due(self) -> bool:
        interval_s = self._config.placement_check_interval_s
        return bool(interval_s) and self._is_over(await self._store.repair.placement_checked_ms(), interval_s)

    def _is_over(self, last_ms: int | None, interval_s: float) -> bool:
        return last_ms is None or not 0 <= self._wall_ms() - last_ms < 1000 * interval_s

    def _start_checking(self, is_copy_check_due: bool, is_placement_check_due: bool) -> None:
        if self._checking is not None and not self._checking.done():
            return
        if is_placement_check_due:
            self._checking = start_task(self._check_placement())
        elif is_copy_check_due:
            self._checking = start_task(self._check_copies())

    async def _check_placement(self) -> None:
        try:
            found = await check_placement(self._ledgers)
            await self._store.repair.set_placement_checked_ms(self._wall_ms())
            if found.narrow:
                _log.warning(
                    "the copies of %d of %d ledgers are in too few racks or zones; `bookie placement` lists them",
                    found.narrow_ledgers,
                    found.ledgers,
                )
            if found.unreadable:
                _log.warning("the metadata of %d ledgers cannot be read", found.unreadable)
        except LogStoreError as error:
            _log.warning("the check of placement ended early, and will begin anew: %s", error)
            await asyncio.sleep(self._config.retry_first_s)

    async def _stop_checking(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.gather(self._checking, return_exceptions=True)
            self._checking = None

    async def _check_copies(self) -> None:
        repair = LedgerRepair(self._ledgers, self._config)
        try:
            marked = unknown = 0
            async with aclosing(check_copies(self._ledgers, repair, Scope(), Mark.LACKING)) as outcomes:
                async for outcome in outcomes:
                    marked += bool(outcome.lacking)
                    unknown += not outcome.complete and not outcome.missing
            await self._store.repair.set_all_checked_ms(self._wall_ms())
            _log.info("the copies of all ledgers are checked, %d ledgers are marked", marked)
            if unknown:
                _log.warning(
                    "it is unknown whether %d ledgers lack copies; `bookie check-copies` lists them", unknown
                )
        except LogStoreError as error:
            _log.warning("the check of all copies ended early, and will begin anew: %s", error)
            await asyncio.sleep(self._config.retry_first_s)
        finally:
            await repair.close()

    def _wall_ms(self) -> int:
        return self._ledgers.environment.wall_us() // 1000


def _report(error: MetadataFormatError) -> None:
    """One ledger that no client can read must not hide the others."""
    _log.error("a ledger is not audited: %s", error)
