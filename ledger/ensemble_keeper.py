"""Keeps a writer's ensemble whole: replaces failed members, or takes them back when they return.

One task per handle, and only while a member is failed. Having no spare bookie is not a failure of the handle
(log semantics, rule 19b): adds go on while every write set keeps its ack quorum, and the search is repeated
whenever registrations change. It ends the handle only when too few members are left for too long.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ledger.core.ensemble_change import change, needs_change
from ledger.core.placement import choose_replacements
from ledger.errors import (
    AddFailedError,
    BookieUnavailableError,
    LedgerFencedError,
    LedgerNotFoundError,
    LogStoreError,
    OutcomeUnknownError,
    UnavailableError,
)
from ledger.member import Member
from ledger.metadata.update_loop import update_ledger
from ledger.model import BookieId, LedgerMetadata, LedgerState

if TYPE_CHECKING:
    from ledger.services import Services
    from ledger.write_handle import WriteHandle


class EnsembleKeeper:
    def __init__(self, handle: WriteHandle, services: Services) -> None:
        self._handle = handle
        self._services = services
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def wake(self) -> None:
        """A member failed, or registrations changed: look again."""
        self._news.set()
        handle = self._handle
        if handle.finished() or not handle.machine.failed_positions:
            return
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._keep())

    def stop(self) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def _keep(self) -> None:
        handle, loop = self._handle, asyncio.get_running_loop()
        hopeless_since: float | None = None
        while handle.machine.failed_positions and not handle.finished():
            self._news.clear()
            if await self._replace() or await self._rejoin():
                continue
            if handle.finished():
                return
            if handle.machine.can_confirm:
                hopeless_since = None
            elif hopeless_since is None:
                hopeless_since = loop.time()
            elif loop.time() - hopeless_since > self._services.config.quorum_timeout_s:
                handle.fail(self._too_few())
                return
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._services.config.replace_backoff_s):
                await self._news.wait()
        except TimeoutError:
            pass

    # ---- replacing

    async def _replace(self) -> bool:
        """Change the ensemble if a reachable spare bookie is registered; True if any member was replaced."""
        failed = {member.position: member.bookie_id for member in self._failed()}
        spares = await self._reachable_spares(failed, len(failed))
        if not spares or self._handle.finished():
            return False
        replacements = {
            position: (old, new) for (position, old), new in zip(failed.items(), spares, strict=False)
        }
        try:
            return await self._change(failed, replacements)
        except (LedgerNotFoundError, LedgerFencedError) as error:
            self._handle.fail(error)
        except (UnavailableError, OutcomeUnknownError):
            # Not changed, or not known: the failed members' copies count for nothing either way, so what is
            # confirmed meanwhile is safe in both ensembles. The next round reads what became of it.
            self._handle.carry_out(self._handle.machine.thaw())
        return False

    async def _reachable_spares(self, failed: dict[int, BookieId], count: int) -> list[BookieId]:
        ensemble = self._handle.metadata.last_fragment.ensemble
        spares: list[BookieId] = []
        unreachable = set(failed.values())
        while len(spares) < count:
            chosen = choose_replacements(
                self._services.bookies(),
                ensemble,
                {*unreachable, *spares},
                1,
                self._services.environment.chance,
            )
            if not chosen:
                break
            try:
                await self._services.pool.v2(chosen[0])
                spares.append(chosen[0])
            except BookieUnavailableError:
                unreachable.add(chosen[0])
        return spares

    async def _change(
        self, failed: dict[int, BookieId], replacements: dict[int, tuple[BookieId, BookieId]]
    ) -> bool:
        handle = self._handle
        async with handle.metadata_lock:
            if handle.finished():
                return False
            first_entry = handle.machine.freeze()
            updated = await update_ledger(
                self._services.store,
                handle.ledger_id,
                handle.local,
                lambda found: needs_change(found, failed),
                lambda found: change(found, first_entry, replacements),
            )
        if updated.value.state is not LedgerState.OPEN:
            handle.fail(self._lost(updated.value))
            return False
        changed = handle.install(updated)
        handle.connect_positions(changed)
        handle.carry_out(handle.machine.on_ensemble_changed(changed, updated.value.last_fragment.first_entry))
        return bool(changed)

    # ---- taking back

    async def _rejoin(self) -> bool:
        """Go on with a failed member whose bookie takes writes again; True if any did."""
        writable = {info.bookie_id for info in self._services.bookies().writable}
        # A bookie that accepts connections and refuses adds must not be tried in a tight loop.
        rested = asyncio.get_running_loop().time() - self._services.config.replace_backoff_s
        back = False
        for member in self._failed():
            if member.bookie_id not in writable or member.failed_at > rested:
                continue
            try:
                await self._services.pool.v2(member.bookie_id)
            except BookieUnavailableError:
                continue
            if not self._handle.finished():
                self._handle.rejoin(member)
                back = True
        return back

    # ---- words

    def _failed(self) -> list[Member]:
        return [member for member in self._handle.members if member.failed is not None]

    def _too_few(self) -> LogStoreError:
        reasons = "; ".join(str(member.failed) for member in self._failed())
        quorum = self._handle.metadata.quorum
        return AddFailedError(
            f"ledger {self._handle.ledger_id} has fewer than its ack quorum of {quorum.ack} bookies and no "
            f"replacement was found within {self._services.config.quorum_timeout_s} s ({reasons})",
            ledger_id=self._handle.ledger_id,
            lac=self._handle.lac,
        )

    def _lost(self, metadata: LedgerMetadata) -> LogStoreError:
        ledger_id = self._handle.ledger_id
        if metadata.state is LedgerState.CLOSED:
            return LedgerFencedError(
                f"ledger {ledger_id} was closed by another client at entry {metadata.last_entry}",
                ledger_id=ledger_id,
                last_entry=metadata.last_entry,
            )
        return LedgerFencedError(
            f"ledger {ledger_id} is being recovered by another client", ledger_id=ledger_id
        )
