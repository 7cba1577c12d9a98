"""How long an unlisted ledger is kept, in case its writer is only paused, and how long that writer delivers acks.

Source: docs/log-semantics.md#rule-25.

After a takeover the writer's ledgers may be deleted once the log's grace has passed, and bookies that forget
deletions would accept its adds again. So an ack counts only within half a grace of the last proof of the epoch, on a
clock that counts suspend.

The grace is the log's, not a client's: the record holds it from its creation on, and a takeover may raise it, never
lower it. So a paused owner and the client that deletes its ledgers use the same value. It is needed only where a
bookie that may have been in the ledger's ensemble forgets that a ledger was deleted.

Pitfalls: docs/pitfalls.md#late-add-to-a-deleted-ledger, #paused-writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ledger.environment import Environment
from ledger.model import DURABLE_DELETIONS, BookieId, BookieSet, LedgerMetadata


def deletions_are_durable(ensembles: Iterable[LedgerMetadata], registered: BookieSet) -> bool:
    """Whether no bookie of these ledgers can forget that they were deleted.

    All bookies of every fragment must be registered and declare DURABLE_DELETIONS: an unknown bookie may forget. So
    must every other registered bookie: recovery may have replaced one of them in the only fragment that named it.
    What a damaged registration declares is not known.
    """
    infos = (*registered.writable, *registered.read_only)
    if not infos or registered.damaged or not all(DURABLE_DELETIONS in info.properties for info in infos):
        return False
    known = {info.bookie_id for info in infos}
    return all(bookie_id in known for metadata in ensembles for bookie_id in members(metadata))


def members(metadata: LedgerMetadata) -> set[BookieId]:
    """All bookies of all fragments."""
    return {bookie_id for fragment in metadata.fragments for bookie_id in fragment.ensemble}


class EpochGuard:
    """Whether the writer's epoch was confirmed recently enough to deliver an ack; always without a grace."""

    __slots__ = (
        "_confirmed_at",
        "_environment",
        "_fresh_until",
        "_grace_s",
    )

    def __init__(self, environment: Environment, grace_s: Callable[[], float], confirmed_at: float) -> None:
        """`grace_s`: what it returns never falls."""
        self._environment = environment
        self._grace_s = grace_s
        self._confirmed_at = confirmed_at
        self._fresh_until = confirmed_at
        """Not stale before, as of the grace when it was last asked for; read for each run of acknowledgements."""

    def now(self) -> float:
        """To be read before a read or compare-and-set that may confirm the epoch."""
        return self._environment.boot_s()

    def confirm(self, asked_at: float) -> None:
        """A linearizable read, or our own change, begun after `asked_at` has proved that we own the log."""
        self._confirmed_at = max(self._confirmed_at, asked_at)

    @property
    def stale(self) -> bool:
        now = self._environment.boot_s()
        if now < self._fresh_until:
            return False
        half_s = self._grace_s() / 2
        self._fresh_until = self._confirmed_at + half_s
        return half_s > 0 and now - self._confirmed_at > half_s
