"""What a client provides to its handles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ledger.config import LedgerClientConfig
from ledger.core.placement import PlacementPolicy
from ledger.environment import Environment
from ledger.errors import LogStoreError
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, BookieSet, EntryId, LedgerId
from ledger.transport.entry_connection import EntryConnection
from ledger.transport.pool import ConnectionPool


class OpenWriter(Protocol):
    """A writer as its client sees it."""

    ledger_id: LedgerId

    @property
    def lac(self) -> EntryId: ...

    def tick(self, now: float) -> float | None:
        """Check deadlines; returns when to check again, in loop time, or None if there is nothing left to check."""

    def extend_deadlines(self, pause_s: float) -> None:
        """This process was stopped for this long: no bookie is at fault for not having answered."""

    def on_bookies_changed(self, bookies: BookieSet) -> None: ...

    def fail(self, error: LogStoreError) -> None: ...


@dataclass(frozen=True, slots=True)
class ClientContext:
    store: MetadataStore
    pool: ConnectionPool
    config: LedgerClientConfig
    environment: Environment
    bookies: Callable[[], BookieSet]
    """The latest snapshot of registered bookies; never blocks, may be stale."""
    placement: Callable[[], PlacementPolicy]
    """How bookies are chosen, with what is known of them now."""
    watch: Callable[[OpenWriter], None]
    """Have the handle's `tick` called, soon and then when it says, until it returns None."""
    forget: Callable[[OpenWriter], None]
    """The handle is closed or has failed permanently."""
    report_missed: Callable[[LedgerId, BookieId], None]
    """The bookie is a member of the ledger, and lacks confirmed entries of it."""
    follow_late: Callable[[LedgerId, EntryConnection, EntryId], None]
    """`LateCopies.follow`."""
