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
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ledger.buggify import buggify
from ledger.client_context import ClientContext
from ledger.core.bookie_quarantine import BookieQuarantine
from ledger.core.metadata_changes import needs_replacement, replace_members
from ledger.core.placement import Vacancies, can_replace, choose_replacements
from ledger.errors import (
    AddFailedError,
    BookieUnavailableError,
    LedgerFencedError,
    LogStoreError,
    OutcomeUnknownError,
    UnavailableError,
)
from ledger.metadata.update_loop import update_ledger
from ledger.model import BookieId, BookieSet, LedgerId, LedgerMetadata, LedgerState, Versioned
from ledger.tasks import start_task
from ledger.transport.probe import responds
from ledger.writing.add_stream import AddStream
from ledger.writing.ensemble_member import EnsembleMember


class EnsembleOwner(Protocol):
    """The writer whose ensemble is kept, as its keeper sees it."""

    ledger_id: LedgerId
    local: Versioned[LedgerMetadata]
    """Metadata as this writer last read or wrote it."""
    metadata_lock: asyncio.Lock
    """Held over every compare-and-set of the writer, so that they never race one another."""

    def finished(self) -> bool: ...

    def fail(self, error: LogStoreError) -> None: ...


class EnsembleKeeper:
    def __init__(self, handle: EnsembleOwner, stream: AddStream, context: ClientContext) -> None:
        self._handle = handle
        self._stream = stream
        self._context = context
        self._config = context.config
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._quarantine = BookieQuarantine(
            self._config.replace_backoff_s, self._config.replace_backoff_max_s
        )
        self._unsettled = False
        """A change of metadata was sent and its outcome is not known."""
        self._stalled_since: float | None = None
        """Loop time since which no add was done while too few members were left; None while adds go on."""
        self._stalled_at = 0
        """The last add that was done by then."""

    def on_member_failed(self, member: EnsembleMember) -> None:
        """Search a replacement, or wait for the member's return; a bookie that just failed is avoided for a while."""
        self._quarantine.on_failed(member.bookie_id, useful=member.useful, now=_now())
        self.wake()

    def wake(self) -> None:
        """A member failed, or registrations changed: try again."""
        self._woken.set()
        handle = self._handle
        if handle.finished() or not self._stream.machine.failed_positions:
            return
        if self._task is None or self._task.done():
            self._task = start_task(self._keep())
            self._task.add_done_callback(self._ended)

    def extend_deadlines(self, pause_s: float) -> None:
        """This process was stopped for this long: no bookie could come back for it in the meantime."""
        if self._stalled_since is not None:
            self._stalled_since += pause_s

    def stop(self) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        # A fault of our own must not leave a handle that waits indefinitely.
        if not task.cancelled() and (fault := task.exception()) is not None:
            error = AddFailedError(
                f"the ensemble of ledger {self._handle.ledger_id} cannot be kept because of {fault!r}",
                ledger_id=self._handle.ledger_id,
                lac=self._stream.machine.lac,
            )
            error.__cause__ = fault
            self._handle.fail(error)

    async def _keep(self) -> None:
        handle = self._handle
        while self._stream.machine.failed_positions and not handle.finished():
            self._woken.clear()
            is_repaired = await self._repair()
            self._note_stall()
            if is_repaired:
                continue
            if handle.finished():
                return
            if self._stalled_too_long():
                handle.fail(self._too_few())
                return
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._config.replace_backoff_s):
                await self._woken.wait()
        except TimeoutError:
            pass

    async def _repair(self) -> bool:
        """One round; True if any member was replaced or taken back."""
        try:
            async with asyncio.timeout(self._config.quorum_timeout_s):
                if self._unsettled:
                    return await self._settle()
                if not self._stream.machine.can_confirm:
                    await self._check_open()
                return await self._replace() or await self._rejoin()
        except (UnavailableError, OutcomeUnknownError, TimeoutError):
            return False  # the store is unavailable or does not answer: another round
        except LogStoreError as error:
            self._handle.fail(error)  # the ledger was deleted, is another client's, or cannot be read
            return False

    def _note_stall(self) -> None:
        """Begin a stall, or end it: once an add was done, or with enough members back if none waits.

        Also when members have come back, after which an idle writer has nothing that would show the end of the stall.
        """
        machine = self._stream.machine
        if self._stalled_since is not None and (
            machine.done_through > self._stalled_at
            or (machine.can_confirm and machine.sent_through == machine.done_through)
        ):
            self._stalled_since = None
        if self._stalled_since is None and not machine.can_confirm:
            self._stalled_since, self._stalled_at = _now(), machine.done_through

    def _stalled_too_long(self) -> bool:
        """True once no add was done for the whole timeout, however often members came and went."""
        since = self._stalled_since
        return since is not None and _now() - since > self._config.quorum_timeout_s

    # ---- metadata

    async def _check_open(self) -> None:
        """Read metadata: with too few members left no bookie may report that the ledger is fenced or deleted."""
        found = await self._context.store.read_ledger(self._handle.ledger_id)
        if found.value.state is not LedgerState.OPEN:
            raise self._lost(found.value)

    async def _settle(self) -> bool:
        """Decide the change whose outcome is unknown: write what is stored again, so that it was made or never will be.

        Not what this writer had: the change may have been sent at a later version, if repair had changed the ledger
        in between, and a refusal of an older one decides nothing.
        """
        return await self._update(
            lambda found: found.state is LedgerState.OPEN, lambda found: found, is_fresh=True
        )

    async def _update(
        self,
        needs_update: Callable[[LedgerMetadata], bool],
        transform: Callable[[LedgerMetadata], LedgerMetadata],
        *,
        is_fresh: bool = False,
    ) -> bool:
        """`is_fresh`: begin with what is stored, and not with what this writer had."""
        handle = self._handle
        async with handle.metadata_lock:
            if handle.finished():
                return False
            before, self._unsettled = self._unsettled, True
            try:
                store = self._context.store
                updated = await update_ledger(
                    store,
                    handle.ledger_id,
                    await store.read_ledger(handle.ledger_id) if is_fresh else handle.local,
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
        self._handle.local = updated
        return self._stream.change_ensemble(updated.value.last_fragment)

    # ---- replacing

    async def _replace(self) -> bool:
        """Replace failed members by spare bookies that answer; True if any member was replaced."""
        failed = self._stream.failed_members
        spares = await self._answering_spares([member.position for member in failed])
        if not spares:
            return False
        replacements = {
            member.position: (member.bookie_id, spare)
            for member, spare in zip(failed, spares, strict=False)
            if self._stream.members[member.position] is member
        }
        return await self._change(replacements)

    async def _answering_spares(self, positions: Sequence[int]) -> list[BookieId]:
        """Bookies for the first of these positions, as many as there are."""
        spares: list[BookieId] = []
        avoid = self._quarantine.resting(_now())
        while len(spares) < len(positions):
            metadata = self._handle.local.value
            ensemble = metadata.last_fragment.ensemble
            placed = dict(zip(positions, spares, strict=False))
            slots = (placed.get(at) if at in positions else member for at, member in enumerate(ensemble))
            chosen = choose_replacements(
                self._context.bookies(),
                Vacancies(ensemble, tuple(slots), metadata.quorum),
                {*avoid, *spares},
                1,
                self._context.environment.rng,
                self._context.placement(),
            )
            if not chosen:
                break
            if self._stream.machine.can_confirm:
                answers = await self._responds(chosen[0])
            else:
                # Adds wait, and many spares may hang: members that are back are taken back first.
                answers, is_any_back = await asyncio.gather(self._responds(chosen[0]), self._rejoin())
                if is_any_back:
                    break
            if answers:
                spares.append(chosen[0])
            else:
                avoid.add(chosen[0])
        return spares

    async def _change(self, replacements: Mapping[int, tuple[BookieId, BookieId]]) -> bool:
        machine, loop = self._stream.machine, asyncio.get_running_loop()
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
            self._stream.execute(self._stream.machine.thaw())

    # ---- members that are not registered any more

    def on_bookies_changed(self, bookies: BookieSet) -> bool:
        """Note which members have lost or regained their registration; True if one has just lost it.

        Source: docs/log-semantics.md#rule-24b.
        """
        now, lost = _now(), False
        for member in self._stream.members:
            if bookies.find(member.bookie_id) is not None:
                member.missing_since = None
            elif member.missing_since is None:
                member.missing_since = now
                lost = True
        if (share := buggify("client.replace-member")) and self._has_spare():
            member = self._stream.members[int(share * (len(self._stream.members) - 1))]
            if member.failed is None:
                reason = f"bookie {member.bookie_id} is replaced by force"
                self._stream.on_member_lost(
                    member, BookieUnavailableError(reason, bookie_id=member.bookie_id)
                )
        self.wake()
        return lost

    def fail_unregistered(self, now: float) -> None:
        """Fail members that have been unregistered for `lost_member_s`, if spare bookies can take their places.

        Invariant: there is a spare bookie for each failed member then, these included. A member that is not
        registered may still answer, and could not be taken back.
        """
        deadline = now - self._config.lost_member_s
        for member in self._stream.members:
            if member.missing_since is None or member.missing_since > deadline or member.failed is not None:
                continue
            if not self._can_do_without(member):
                continue
            member.missing_since = None
            error = BookieUnavailableError(
                f"bookie {member.bookie_id} is not registered any more", bookie_id=member.bookie_id
            )
            self._stream.on_member_lost(member, error)

    def _can_do_without(self, member: EnsembleMember) -> bool:
        """Whether spare bookies can replace this member and all that have failed."""
        metadata = self._handle.local.value
        vacant = {*self._stream.machine.failed_positions, member.position}
        vacancies = Vacancies.at(metadata.last_fragment.ensemble, vacant, metadata.quorum)
        return can_replace(self._context.bookies(), vacancies, policy=self._context.placement())

    def _has_spare(self) -> bool:
        ensemble = self._handle.local.value.last_fragment.ensemble
        return any(info.bookie_id not in ensemble for info in self._context.bookies().writable)

    # ---- taking back

    async def _rejoin(self) -> bool:
        """Take failed members back whose bookies answer again; True if there are any."""
        writable = {info.bookie_id for info in self._context.bookies().writable}
        ready = writable - self._quarantine.resting(_now())
        members = [member for member in self._stream.failed_members if member.bookie_id in ready]
        answered = await asyncio.gather(*(self._responds(member.bookie_id) for member in members))
        back = [member for member, answer in zip(members, answered, strict=True) if answer]
        for member in back:
            if not self._handle.finished():
                self._stream.rejoin(member)
        return bool(back)

    async def _responds(self, bookie_id: BookieId) -> bool:
        """Whether the bookie answers a request: a hung one still accepts connections."""
        try:
            connection = await self._context.pool.entries(bookie_id)
        except BookieUnavailableError:
            return False
        return await responds(connection, self._handle.ledger_id, self._config)

    # ---- errors

    def _too_few(self) -> LogStoreError:
        reasons = "; ".join(str(member.failed) for member in self._stream.failed_members)
        quorum = self._handle.local.value.quorum
        return AddFailedError(
            f"ledger {self._handle.ledger_id} has fewer than its ack quorum of {quorum.ack} bookies and no "
            f"replacement was found within {self._config.quorum_timeout_s} s ({reasons})",
            ledger_id=self._handle.ledger_id,
            lac=self._stream.machine.lac,
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
