"""Keeps a writer's ensemble complete: replaces failed members, or takes them back when they return.

One task per handle, and only while a member has failed. Having no spare bookie is not a failure of the handle
(docs/log-semantics.md#rule-19b): adds go on while every write set keeps its ack quorum, and the search is repeated
whenever registrations change. It fails the handle only when too few members are left for too long.

Invariant: a member is taken back only while it is certain that metadata still names it. After a change whose outcome
is unknown, metadata may name another bookie, and an acknowledgement of the old one would be a copy that no
reader asks for; so the change is decided first.

Protocol: docs/bookkeeper.md#ensemble-change. Pitfall: docs/pitfalls.md#ack-before-the-change-is-recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from ledger.bookie_quarantine import BookieQuarantine
from ledger.client_context import ClientContext
from ledger.core.append import AppendMachine
from ledger.core.commands import AppendCommand
from ledger.core.metadata_changes import needs_replacement, replace_members
from ledger.core.placement import choose_replacements
from ledger.errors import (
    AddFailedError,
    BookieUnavailableError,
    LedgerFencedError,
    LogStoreError,
    OutcomeUnknownError,
    UnavailableError,
)
from ledger.metadata.update_loop import update_ledger
from ledger.model import BookieId, LedgerId, LedgerMetadata, LedgerState, Versioned
from ledger.transport.probe import responds
from ledger.writing.ensemble_member import EnsembleMember


class EnsembleOwner(Protocol):
    """The writer whose ensemble is kept, as its keeper sees it."""

    ledger_id: LedgerId

    @property
    def machine(self) -> AppendMachine: ...

    @property
    def members(self) -> list[EnsembleMember]: ...

    @property
    def metadata(self) -> LedgerMetadata: ...

    @property
    def local(self) -> Versioned[LedgerMetadata]:
        """Metadata as this writer last read or wrote it."""

    @property
    def metadata_lock(self) -> asyncio.Lock:
        """Held over every compare-and-set of the writer, so that they never race one another."""

    def finished(self) -> bool: ...

    def carry_out(self, commands: list[AppendCommand]) -> None: ...

    def install(self, metadata: Versioned[LedgerMetadata]) -> list[int]:
        """Adopt newer metadata; return the positions that have a new bookie, with fresh members."""

    def connect_positions(self, positions: Iterable[int]) -> None: ...

    def rejoin(self, member: EnsembleMember) -> None:
        """Use a failed member at its old position again."""

    def fail(self, error: LogStoreError) -> None: ...


class EnsembleKeeper:
    def __init__(self, handle: EnsembleOwner, context: ClientContext) -> None:
        self._handle = handle
        self._context = context
        self._config = context.config
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._patience = BookieQuarantine(self._config.replace_backoff_s, self._config.replace_backoff_max_s)
        self._unsettled = False
        """A change of metadata was sent and its outcome is not known."""
        self._hopeless_since: float | None = None
        self._hopeless_done = 0

    def on_member_lost(self, member: EnsembleMember) -> None:
        """Search a replacement, or wait for the member's return; a bookie that just failed is avoided for a while."""
        self._patience.on_failed(member.bookie_id, useful=member.useful, now=_now())
        self.wake()

    def wake(self) -> None:
        """A member failed, or registrations changed: try again."""
        self._news.set()
        handle = self._handle
        if handle.finished() or not handle.machine.failed_positions:
            return
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._keep())
            self._task.add_done_callback(self._ended)

    def stop(self) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        # A fault of our own must not leave a handle that waits indefinitely.
        if not task.cancelled() and (fault := task.exception()) is not None:
            error = AddFailedError(
                f"the ensemble of ledger {self._handle.ledger_id} cannot be kept because of {fault!r}",
                ledger_id=self._handle.ledger_id,
                lac=self._handle.machine.lac,
            )
            error.__cause__ = fault
            self._handle.fail(error)

    async def _keep(self) -> None:
        handle = self._handle
        while handle.machine.failed_positions and not handle.finished():
            self._news.clear()
            if await self._mend():
                continue
            if handle.finished():
                return
            if self._too_long():
                handle.fail(self._too_few())
                return
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._config.replace_backoff_s):
                await self._news.wait()
        except TimeoutError:
            pass

    async def _mend(self) -> bool:
        """One round; True if any member was replaced or taken back."""
        try:
            async with asyncio.timeout(self._config.quorum_timeout_s):
                if self._unsettled:
                    return await self._settle()
                if not self._handle.machine.can_confirm:
                    await self._look()
                return await self._replace() or await self._rejoin()
        except (UnavailableError, OutcomeUnknownError, TimeoutError):
            return False  # the store is unavailable or does not answer: another round
        except LogStoreError as error:
            self._handle.fail(error)  # the ledger was deleted, is another client's, or cannot be read
            return False

    def _too_long(self) -> bool:
        """True once no add was done for the whole timeout, however often members came and went."""
        machine, now = self._handle.machine, _now()
        if self._hopeless_since is not None and (
            machine.done_through > self._hopeless_done
            or (machine.can_confirm and machine.sent_through == machine.done_through)
        ):
            self._hopeless_since = None
        if self._hopeless_since is None:
            if machine.can_confirm:
                return False
            self._hopeless_since, self._hopeless_done = now, machine.done_through
        return now - self._hopeless_since > self._config.quorum_timeout_s

    # ---- metadata

    async def _look(self) -> None:
        """Read metadata: with too few members left no bookie may report that the ledger is fenced or deleted."""
        found = await self._context.store.read_ledger(self._handle.ledger_id)
        if found.value.state is not LedgerState.OPEN:
            raise self._lost(found.value)

    async def _settle(self) -> bool:
        """Decide the change whose outcome is unknown: write what we had again, so that it was made or never will be."""
        before = self._handle.local.value
        return await self._update(lambda found: found == before, lambda found: found)

    async def _update(
        self,
        needs_update: Callable[[LedgerMetadata], bool],
        transform: Callable[[LedgerMetadata], LedgerMetadata],
    ) -> bool:
        handle = self._handle
        async with handle.metadata_lock:
            if handle.finished():
                return False
            before, self._unsettled = self._unsettled, True
            try:
                updated = await update_ledger(
                    self._context.store,
                    handle.ledger_id,
                    handle.local,
                    needs_update,
                    transform,
                    self._context.environment,
                )
            except UnavailableError:
                self._unsettled = before  # certainly nothing was changed
                raise
            self._unsettled = False
            return self._adopt(updated)

    def _adopt(self, updated: Versioned[LedgerMetadata]) -> bool:
        if updated.value.state is not LedgerState.OPEN:
            raise self._lost(updated.value)
        handle = self._handle
        changed = handle.install(updated)
        handle.connect_positions(changed)
        if changed:
            first_entry = updated.value.last_fragment.first_entry
            handle.carry_out(handle.machine.on_ensemble_changed(changed, first_entry))
        return bool(changed)

    # ---- replacing

    async def _replace(self) -> bool:
        """Replace failed members by spare bookies that answer; True if any member was replaced."""
        failed = self._failed()
        spares = await self._answering_spares(len(failed))
        if not spares:
            return False
        replacements = {
            member.position: (member.bookie_id, spare)
            for member, spare in zip(failed, spares, strict=False)
            if self._handle.members[member.position] is member
        }
        return await self._change(replacements)

    async def _answering_spares(self, count: int) -> list[BookieId]:
        spares: list[BookieId] = []
        avoid = self._patience.resting(_now())
        while len(spares) < count:
            chosen = choose_replacements(
                self._context.bookies(),
                self._handle.metadata.last_fragment.ensemble,
                {*avoid, *spares},
                1,
                self._context.environment.chance,
            )
            if not chosen:
                break
            if await self._responds(chosen[0]):
                spares.append(chosen[0])
            else:
                avoid.add(chosen[0])
        return spares

    async def _change(self, replacements: Mapping[int, tuple[BookieId, BookieId]]) -> bool:
        machine, loop = self._handle.machine, asyncio.get_running_loop()
        replaced = {position: old for position, (old, _) in replacements.items()}
        # Confirmation is held so that the new members get every entry of their fragment. It is not needed for
        # safety: copies on failed members count for nothing already. So a slow store holds it only so long.
        first_entry = machine.freeze()
        thaw = loop.call_later(self._config.change_hold_s, self._thaw)
        try:
            return await self._update(
                lambda found: needs_replacement(found, replaced),
                lambda found: replace_members(found, first_entry, replacements),
            )
        finally:
            thaw.cancel()
            self._thaw()

    def _thaw(self) -> None:
        if not self._handle.finished():
            self._handle.carry_out(self._handle.machine.thaw())

    # ---- taking back

    async def _rejoin(self) -> bool:
        """Take failed members back whose bookies answer again; True if there are any."""
        writable = {info.bookie_id for info in self._context.bookies().writable}
        ready = writable - self._patience.resting(_now())
        members = [member for member in self._failed() if member.bookie_id in ready]
        answered = await asyncio.gather(*(self._responds(member.bookie_id) for member in members))
        back = [member for member, answer in zip(members, answered, strict=True) if answer]
        for member in back:
            if not self._handle.finished():
                self._handle.rejoin(member)
        return bool(back)

    async def _responds(self, bookie_id: BookieId) -> bool:
        """Whether the bookie answers a request: a hung one still accepts connections."""
        try:
            connection = await self._context.pool.entries(bookie_id)
        except BookieUnavailableError:
            return False
        return await responds(connection, self._handle.ledger_id, self._config)

    # ---- words

    def _failed(self) -> list[EnsembleMember]:
        return [member for member in self._handle.members if member.failed is not None]

    def _too_few(self) -> LogStoreError:
        reasons = "; ".join(str(member.failed) for member in self._failed())
        quorum = self._handle.metadata.quorum
        return AddFailedError(
            f"ledger {self._handle.ledger_id} has fewer than its ack quorum of {quorum.ack} bookies and no "
            f"replacement was found within {self._config.quorum_timeout_s} s ({reasons})",
            ledger_id=self._handle.ledger_id,
            lac=self._handle.machine.lac,
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


def _now() -> float:
    return asyncio.get_running_loop().time()
