"""Repair of one ledger: check, copy, and only then replace in metadata.

Invariant: metadata names a new member once that has acknowledged every entry it must hold, after syncing it. A worker
that dies at any point leaves copies that do not count, never a fragment with fewer than before
(docs/pitfalls.md#replaced-before-the-copy-is-durable).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ledger.client import LedgerClient
from ledger.errors import (
    CorruptionError,
    DigestMismatchError,
    LedgerNotFoundError,
    ReadError,
    UnavailableError,
)
from ledger.inspection.copy_audit import CopyAudit
from ledger.metadata.update_loop import update_ledger
from ledger.model import NO_ENTRY, BookieId, BookieSet, EntryId, LedgerId, LedgerMetadata, Versioned
from ledger.repair.config import RepairConfig
from ledger.repair.copying.checker import Depth, FragmentChecker
from ledger.repair.copying.copier import Copied, Copier
from ledger.repair.core.fragments import ClosedFragment, closed_fragments, is_among, open_ensemble
from ledger.repair.core.replacing import Replacement, choose_target
from ledger.repair.core.some_entries import without
from ledger.repair.errors import CopyFailedError, FragmentChangedError
from ledger.repair.outcome import LedgerOutcome, Repaired
from ledger.repair.progress import CopyProgress, LedgerProgress, copied_so_far

_ROUNDS = 3
"""Times that a ledger is read again because another client changed it."""
_REPORT_S = 60.0
"""How often the log says how far the copy of a large ledger has come."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which members of a ledger are replaced or checked."""

    drained: frozenset[BookieId] = frozenset()
    """Replaced although they are registered; read all the same."""
    suspects: frozenset[BookieId] = frozenset()
    """Registered members of which every copy is read. An open fragment that names one is left until it is closed."""
    read_through: EntryId = NO_ENTRY
    """Fragments up to this entry are checked as if there were no suspects: their copies were read before."""
    others: Depth = Depth.ENDS
    """Which copies of the other registered members are read."""

    def depth(self, bookie_id: BookieId, fragment: ClosedFragment) -> Depth:
        is_suspect = bookie_id in self.suspects and fragment.last > self.read_through
        return Depth.ALL if is_suspect else self.others


class LedgerRepair:
    """Repairs ledgers of one cluster, several at a time. `close` ends its connections."""

    def __init__(
        self,
        ledgers: LedgerClient,
        config: RepairConfig | None = None,
        progress: CopyProgress | None = None,
    ) -> None:
        """`progress`: where the copies are counted, those that are made and those that are read."""
        self._ledgers = ledgers
        self._progress = progress or CopyProgress()
        config = config or RepairConfig()
        self._audit = CopyAudit(ledgers)
        self._checker = FragmentChecker(self._audit, config.check_percentage)
        self._copier = Copier(ledgers, config)
        self._unreadable: dict[LedgerId, dict[int, EntryId]] = {}
        """Of ledgers that stay as they are: by first entry of a fragment, the one that no member could give."""

    async def close(self) -> None:
        await self._copier.close()
        await self._audit.close()

    async def repair(self, ledger_id: LedgerId, scope: Scope | None = None) -> LedgerOutcome:
        """Copy what closed fragments lack, and replace the members that are lost. Fences nothing.

        What cannot be repaired now is in the outcome.

        Raises:
            MetadataUnavailableError: the metadata store cannot be reached.
            MetadataOutcomeUnknownError: the answer to a change was lost; calling again finds out.
            MetadataFormatError: the ledger's metadata is damaged.
        """
        return await self._run(ledger_id, scope or Scope(), dry_run=False)

    async def look(self, ledger_id: LedgerId, scope: Scope | None = None) -> LedgerOutcome:
        """What `repair` would do: `left` names what is lacking, nothing is changed."""
        return await self._run(ledger_id, scope or Scope(), dry_run=True)

    async def _run(self, ledger_id: LedgerId, scope: Scope, *, dry_run: bool) -> LedgerOutcome:
        began_ms = self._ledgers.environment.wall_us() // 1000
        with self._progress.of(ledger_id, began_ms) as progress:
            outcome = await self._rounds(ledger_id, scope, progress, dry_run=dry_run)
        if outcome.complete:
            self.forget(ledger_id)
        return outcome

    def forget(self, ledger_id: LedgerId) -> None:
        """No attempt will follow those that were made."""
        self._unreadable.pop(ledger_id, None)

    async def _rounds(
        self, ledger_id: LedgerId, scope: Scope, progress: LedgerProgress, *, dry_run: bool
    ) -> LedgerOutcome:
        done = LedgerOutcome(ledger_id)
        for _ in range(_ROUNDS):
            outcome = LedgerOutcome(ledger_id)
            try:
                metadata = await self._ledgers.store.read_ledger(ledger_id)
            except LedgerNotFoundError:
                outcome.deleted = True
                outcome.add(done)
                return outcome
            # Read after the metadata: a member that it names and that is gone now is lost, whenever it was added.
            bookies = await self._ledgers.store.bookies()
            one = _OneLedger(self, outcome, metadata, bookies, scope, progress, dry_run=dry_run)
            try:
                await one.run()
            except FragmentChangedError as error:
                outcome.left = [str(error)]
                outcome.add(done)
                done = outcome
                continue
            except LedgerNotFoundError:
                outcome.deleted = True
            outcome.add(done)
            return outcome
        return done

    # ---- for _OneLedger

    @property
    def ledgers(self) -> LedgerClient:
        return self._ledgers

    @property
    def checker(self) -> FragmentChecker:
        return self._checker

    @property
    def copier(self) -> Copier:
        return self._copier

    def unreadable(self, ledger_id: LedgerId) -> dict[int, EntryId]:
        """What the attempts before this one have found, to be changed."""
        return self._unreadable.setdefault(ledger_id, {})


class _OneLedger:
    """One pass over a ledger, on one view of its metadata and of the registered bookies."""

    def __init__(
        self,
        repair: LedgerRepair,
        outcome: LedgerOutcome,
        metadata: Versioned[LedgerMetadata],
        bookies: BookieSet,
        scope: Scope,
        progress: LedgerProgress,
        *,
        dry_run: bool,
    ) -> None:
        self._repair = repair
        self._outcome = outcome
        self._ledger_id = outcome.ledger_id
        self._local = metadata
        self._bookies = bookies
        self._scope = scope
        self._dry_run = dry_run
        self._progress = progress
        self._next_report_at = asyncio.get_running_loop().time() + _REPORT_S
        self._chosen: dict[BookieId, BookieId] = {}
        """By the bookie that it replaced: what one bookie held stays together."""
        self._failed: set[BookieId] = set()
        """Targets that did not take a copy."""
        self._refusals: list[str] = []
        """Of the position that is under repair: told only if no other target takes the copy."""

    async def run(self) -> None:
        """Raises FragmentChangedError if another fragment was closed in the meantime."""
        before = closed_fragments(self._local.value)
        self._plan(before)
        for at, fragment in enumerate(before):
            for position in range(len(fragment.ensemble)):
                # Earlier replacements count: two positions must not get the same bookie.
                fragment = closed_fragments(self._local.value)[at]
                await self._position(fragment, position)
        # A replacement returns newer metadata. What its writer has closed since is not checked, and is not in
        # `open_lost` either.
        unchecked = closed_fragments(self._local.value)[len(before) :]
        if unchecked:
            raise FragmentChangedError(
                f"the fragment of ledger {self._ledger_id} that begins at entry {unchecked[0].first} was closed "
                "while the ones before it were repaired",
                ledger_id=self._ledger_id,
                first_entry=unchecked[0].first,
            )
        self._outcome.open_lost = tuple(
            bookie_id for bookie_id in open_ensemble(self._local.value) if self._is_lost(bookie_id)
        )
        if before and not self._outcome.left:
            self._outcome.read_through = EntryId(before[-1].last)
        # What a suspect missed while it was away may be there, and only a closed fragment is copied.
        waiting = self._scope.suspects.intersection(open_ensemble(self._local.value)) - {
            *self._outcome.open_lost
        }
        if waiting:
            self._outcome.left.append(
                f"is open, and {', '.join(sorted(waiting))} may lack entries until it is closed"
            )

    def _plan(self, fragments: Sequence[ClosedFragment]) -> None:
        """Note what there is to copy and to read, as far as it is known before anything is read."""
        progress, checker = self._progress, self._repair.checker
        progress.entries_total = progress.entries
        progress.copies_total = progress.copies_read = 0
        for fragment in fragments:
            for position, bookie_id in enumerate(fragment.ensemble):
                if not self._is_lost(bookie_id):
                    depth = self._scope.depth(bookie_id, fragment)
                    progress.copies_total += checker.planned(fragment, position, depth)
                elif not self._dry_run:
                    progress.entries_total += len(fragment.entries_at(position))

    def _is_lost(self, bookie_id: BookieId) -> bool:
        return bookie_id in self._scope.drained or self._bookies.find(bookie_id) is None

    async def _position(self, fragment: ClosedFragment, position: int) -> None:
        bookie_id = fragment.ensemble[position]
        self._refusals.clear()
        if self._is_lost(bookie_id):
            if self._dry_run:
                self._outcome.lost.add(bookie_id)
                plan = f"{bookie_id} is to be replaced"
                new = self._target(fragment, position)
                if new is None:
                    plan += f", and {self._no_target()}"
                else:
                    # In this view only, so that the next position is not promised the same bookie.
                    change = Replacement(self._ledger_id, fragment, position, bookie_id, new)
                    self._local = replace(self._local, value=change.applied(self._local.value))
                    self._chosen[bookie_id] = new
                self._leave(fragment, plan, fragment.entries_at(position))
            else:
                await self._replace(fragment, position)
            return
        held = await self._repair.checker.held(
            self._ledger_id,
            self._local.value,
            fragment,
            position,
            self._scope.depth(bookie_id, fragment),
            progress=self._progress,
        )
        if held.unknown:
            self._leave(fragment, f"{bookie_id} does not answer ({held.unknown})", [])
        if held.lacking and self._dry_run:
            self._outcome.lacking.add(bookie_id)
            self._leave(fragment, f"{bookie_id} lacks copies", held.lacking)
        elif held.lacking and not await self._fill(fragment, position, held.lacking):
            self._progress.entries_total += len(fragment.entries_at(position))
            await self._replace(fragment, position)

    # ---- a member that is there gets back what it lacks

    async def _fill(self, fragment: ClosedFragment, position: int, entry_ids: Sequence[int]) -> bool:
        """False if the member does not take the copies, or does not return them intact."""
        bookie_id = fragment.ensemble[position]
        info = self._bookies.find(bookie_id)
        if info is None or info.read_only:
            return False
        self._progress.entries_total += len(entry_ids)
        # What no member can give must not keep this one from the rest, of which there may be one copy left.
        copied = await self._copy(fragment, entry_ids, bookie_id, skips=True)
        if copied is None:
            self._progress.entries_total -= len(entry_ids)
            return False
        if copied.entries:
            entry_ids = without(copied.skipped, entry_ids)
            held = await self._repair.checker.lacking(
                self._ledger_id, self._local.value, bookie_id, entry_ids
            )
            if held.lacking:
                return False
            if held.unknown:
                # It acknowledged them after its sync: nothing shows that it lacks any.
                self._leave(fragment, f"{bookie_id} does not answer ({held.unknown})", entry_ids)
                return True
            self._note(fragment, bookie_id, bookie_id, copied)
        return True

    # ---- a member that is lost is replaced

    async def _replace(self, fragment: ClosedFragment, position: int) -> None:
        old = fragment.ensemble[position]
        entry_ids = fragment.entries_at(position)
        if not await self._may_be_copied(fragment, entry_ids):
            return
        while True:
            new = self._target(fragment, position)
            if new is None:
                self._leave(fragment, f"{self._no_target()} to replace {old}", entry_ids)
                return
            copied = await self._copy(fragment, entry_ids, new)
            if copied is not None:
                break
        if copied.entries < len(entry_ids):
            return  # what could not be read is in the outcome
        change = Replacement(self._ledger_id, fragment, position, old, new)
        self._local = await update_ledger(
            self._repair.ledgers.store,
            self._ledger_id,
            self._local,
            change.needed,
            change.applied,
            self._repair.ledgers.environment,
        )
        self._chosen[old] = new
        self._note(fragment, old, new, copied)

    async def _may_be_copied(self, fragment: ClosedFragment, entry_ids: Sequence[int]) -> bool:
        """False if one of them is still unreadable, as an earlier attempt has found: that is left.

        Each attempt may choose another bookie, and what it copies stays there until the ledger is deleted.
        """
        unreadable = self._repair.unreadable(self._ledger_id)
        entry_id = unreadable.get(fragment.first, NO_ENTRY)
        if is_among(entry_id, entry_ids):
            try:
                await self._repair.copier.require_readable(
                    self._ledger_id, self._local.value, fragment, entry_id, self._bookies
                )
            except (UnavailableError, CorruptionError) as error:
                self._outcome.left.append(str(error))
                return False
            del unreadable[fragment.first]
        return True

    def _target(self, fragment: ClosedFragment, position: int) -> BookieId | None:
        """A bookie for the position; None if there is none."""
        return choose_target(
            self._bookies,
            fragment,
            position,
            self._failed | self._scope.drained,
            self._chosen.get(fragment.ensemble[position]),
            self._repair.ledgers.environment.rng,
            self._repair.ledgers.placement(),
        )

    def _no_target(self) -> str:
        where = " in a rack that placement allows" if self._repair.ledgers.placement().enforce else ""
        return f"no bookie is left{where}"

    # ---- both

    async def _copy(
        self, fragment: ClosedFragment, entry_ids: Sequence[int], target: BookieId, *, skips: bool = False
    ) -> Copied | None:
        """None if the target does not take them. No entries if they cannot be read, or with `skips` all that can be:
        the rest is left.
        """
        copier = self._repair.copier
        try:
            await copier.check_target(self._ledger_id, target)
            with self._progress.attempt():
                copied = await copier.copy(
                    self._ledger_id,
                    self._local.value,
                    fragment,
                    entry_ids,
                    target,
                    self._bookies,
                    on_sent=self._count,
                    skips=skips,
                )
        except CopyFailedError as error:
            self._failed.add(target)
            self._refusals.append(str(error))
            return None
        except (UnavailableError, CorruptionError) as error:
            if isinstance(error, (ReadError, DigestMismatchError)) and error.entry_id is not None:
                self._repair.unreadable(self._ledger_id)[fragment.first] = EntryId(error.entry_id)
            self._outcome.left.append(str(error))
            return Copied()
        if copied.skipped:
            first, *others = copied.skipped.values()
            more = f"; {len(others):,} more of its entries cannot be copied" if others else ""
            self._outcome.left.append(f"{first}{more}")
        return copied

    def _count(self, entries: int, payload_bytes: int) -> None:
        self._progress.add(entries, payload_bytes)
        now = asyncio.get_running_loop().time()
        if now >= self._next_report_at:
            self._next_report_at = now + _REPORT_S
            _log.info("ledger %s: %s", self._ledger_id, copied_so_far(self._progress))

    def _note(self, fragment: ClosedFragment, old: BookieId, new: BookieId, copied: Copied) -> None:
        self._outcome.repaired.append(
            Repaired(fragment.first, fragment.last, old, new, copied.entries, copied.payload_bytes)
        )

    def _leave(self, fragment: ClosedFragment, why: str, entry_ids: Collection[int]) -> None:
        count = f", {len(entry_ids):,} entries" if entry_ids else ""
        reasons = "".join(f"; {each}" for each in self._refusals)
        self._outcome.left.append(f"fragment at entry {fragment.first}{count}: {why}{reasons}")
