"""What a metadata driver offers for repair: marks of ledgers that lack copies, locks, switches, the auditor's election.

Nothing here decides safety. Two workers on one ledger, or two auditors, do work twice; an ensemble changes by
compare-and-set of the ledger's own metadata alone (docs/repair.md#how-it-works).

Every driver passes tests/conformance/test_repair.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Protocol

from ledger.metadata.watching import Unwatch, Watch
from ledger.model import BookieId, LedgerId, Versioned


@dataclass(frozen=True, slots=True)
class UnderReplicated:
    """A marked ledger: the bookies whose copies are missing, and when it was marked first (ms since 1970).

    A mark whose value is damaged names none.
    """

    ledger_id: LedgerId
    missing: tuple[BookieId, ...]
    marked_ms: int | None


class RepairLock(Protocol):
    """The right to repair one ledger. It ends when the process dies, at the latest after the session timeout."""

    @property
    def ledger_id(self) -> LedgerId: ...

    async def is_held(self) -> bool:
        """False once the session that took it has ended: another worker may have it."""

    async def clear_mark(self, version: int) -> None:
        """Remove the ledger's mark at that version, if this lock is still held.

        A ledger that is marked again has another version, so a loss that the worker has not seen keeps its mark. A mark
        that is gone already is none of the errors.

        Raises:
            MetadataVersionError: the ledger was marked again.
            LockLostError: another worker may have the lock.
        """

    async def release(self) -> None:
        """Let others have it. Returns quietly if it is lost already.

        If this raises, the lock may still be held, and other tasks of this process do not get it: call again.
        """


class Candidacy(Protocol):
    """A candidate for the cluster's auditor. It ends when the process dies."""

    async def is_elected(self) -> bool:
        """Whether this candidate is the auditor now. One whose session was lost stands again, behind the others."""

    def watch(self, watch: Watch) -> Unwatch:
        """Be called when the answer of `is_elected` may have changed."""

    async def close(self) -> None:
        """Withdraw; on return others can be elected."""


class RepairStore(Protocol):
    """The part of a MetadataStore that repair uses: `store.repair`."""

    # ---- marks

    async def mark(self, ledger_id: LedgerId, missing: Collection[BookieId], now_ms: int) -> None:
        """Mark a ledger, or add to its mark. Always a new version, so that no worker clears what it has not seen."""

    async def read_mark(self, ledger_id: LedgerId) -> Versioned[UnderReplicated]:
        """The mark of a ledger.

        Raises:
            RecordNotFoundError: it has none.
        """

    def marks(self) -> AsyncIterator[UnderReplicated]:
        """Every mark, ascending by ledger id, in bounded memory. One that is cleared during it may be left out."""

    def watch_marks(self, watch: Watch) -> Unwatch:
        """Be called when ledgers may have been marked. A mark beside others may come without a call: look now and
        then, too."""

    # ---- locks

    async def lock(self, ledger_id: LedgerId, holder: str) -> RepairLock | None:
        """The lock of a ledger, marked or not; None while another worker, or another task of this one, has it."""

    async def lock_holder(self, ledger_id: LedgerId) -> str | None:
        """Who holds the lock, for display; None if no client does."""

    # ---- switches

    async def enabled(self) -> bool:
        """Whether auditors mark and workers repair. True unless an operator has switched it off."""

    async def set_enabled(self, enabled: bool) -> None: ...

    async def lost_bookie_delay_s(self) -> Versioned[int] | None:
        """How long a bookie may be away before its ledgers are marked; None if no operator has set it."""

    async def set_lost_bookie_delay_s(self, delay_s: int) -> None:
        """Set it, to a new version. The auditor audits now when it is set to what it is, as BookKeeper's does.

        ConfigurationError unless it is 0 to 2^31 - 1.
        """

    def watch_switches(self, watch: Watch) -> Unwatch:
        """Be called when one of the two may have been set."""

    async def all_checked_ms(self) -> int | None:
        """When the copies of all ledgers were checked last (ms since 1970); None: never."""

    async def set_all_checked_ms(self, now_ms: int) -> None: ...

    async def placement_checked_ms(self) -> int | None:
        """When the placement of all ledgers was checked last (ms since 1970); None: never."""

    async def set_placement_checked_ms(self, now_ms: int) -> None: ...

    # ---- the auditor

    async def stand(self, name: str) -> Candidacy:
        """Become a candidate. `name` has the form of a bookie id; it is shown to operators."""

    async def auditor(self) -> str | None:
        """The name of the auditor, for display; None if there is no candidate."""
