"""What a member of a closed fragment holds: read and verified. Fences nothing and writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from ledger.inspection.copies import Copy, CopyState
from ledger.inspection.copy_audit import CopyAudit
from ledger.model import BookieId, LedgerId, LedgerMetadata
from ledger.repair.core.fragments import ClosedFragment
from ledger.repair.core.some_entries import SomeEntries
from ledger.repair.progress import LedgerProgress
from ledger.wire.digest import make_digester

_ENTRIES_AT_ONCE = 1000


class Depth(Enum):
    """Which copies of a registered member are read."""

    NONE = "none"
    """None: it has what it must, as far as this call is concerned."""
    ENDS = "ends"
    """Of the first and the last entry, and a sample of those between; all, once one is found wanting."""
    ALL = "all"
    """Of every entry; they count once they are on its disk, since a marked member may have them in its memory only."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a member lacks of what it must hold."""

    lacking: Sequence[int] = ()
    """Entries that it certainly has no intact copy of, ascending."""
    unknown: str = ""
    """Why nothing is known of others: the bookie does not answer."""


class FragmentChecker:
    def __init__(self, audit: CopyAudit, sample_percentage: int = 0) -> None:
        self._audit = audit
        self._sample_percentage = sample_percentage

    async def held(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        fragment: ClosedFragment,
        position: int,
        depth: Depth,
        *,
        progress: LedgerProgress,
    ) -> Held:
        """What the member at `position` lacks. No answer of a bookie raises: it is the result.

        `progress`: counts the copies, with what was `planned` for the member in its total.
        """

        def note(count: int) -> None:
            progress.copies_read += count

        if depth is Depth.NONE:
            return Held()
        bookie_id = fragment.ensemble[position]
        if depth is Depth.ENDS:
            sample = fragment.ends_at(position, self._sample_percentage)
            found = await self.lacking(ledger_id, metadata, bookie_id, sample, note)
            if not found.lacking:
                return found
            progress.copies_total += len(fragment.entries_at(position))
        entry_ids, is_durable = fragment.entries_at(position), depth is Depth.ALL
        return await self.lacking(ledger_id, metadata, bookie_id, entry_ids, note, durable=is_durable)

    def planned(self, fragment: ClosedFragment, position: int, depth: Depth) -> int:
        """Copies that `held` reads, unless a sample shows that there is more to read."""
        match depth:
            case Depth.NONE:
                return 0
            case Depth.ENDS:
                return len(fragment.ends_at(position, self._sample_percentage))
            case Depth.ALL:
                return len(fragment.entries_at(position))

    async def lacking(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        bookie_id: BookieId,
        entry_ids: Sequence[int],
        on_read: Callable[[int], None] = lambda count: None,
        *,
        durable: bool = False,
    ) -> Held:
        """Which of these entries the bookie has no intact copy of. `on_read` is called with numbers of copies.

        `durable`: copies count once they are on its disk.
        """
        read = self._audit.durable_copies_on if durable else self._audit.copies_on
        digester = make_digester(metadata.digest_type, metadata.password)
        lacking = SomeEntries(entry_ids)
        unknown = ""
        for at in range(0, len(entry_ids), _ENTRIES_AT_ONCE):
            some = list(entry_ids[at : at + _ENTRIES_AT_ONCE])
            copies = await read(bookie_id, ledger_id, digester, some)
            on_read(len(some))
            lacking.add(number for number, entry_id in enumerate(some, at) if _is_lacking(copies[entry_id]))
            unknown = unknown or next(
                (copy.reason for copy in copies.values() if copy.state is CopyState.UNREACHABLE), ""
            )
            # A bookie that is known not to answer is not asked, and there may be millions of entries.
            await asyncio.sleep(0)
        return Held(lacking, unknown)


def _is_lacking(copy: Copy) -> bool:
    return copy.state in (CopyState.MISSING, CopyState.DAMAGED)
