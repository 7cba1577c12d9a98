"""What a metadata driver offers. Every driver passes tests/conformance; callers use nothing else.

Rules that hold for every driver:

- A compare-and-set that is refused raises MetadataVersionError and certainly changed nothing.
- A change whose answer was lost raises MetadataOutcomeUnknownError; the driver never repeats a conditional
  write by itself. MetadataUnavailableError means that the change was certainly not made.
- Versions start at 0, rise by one with each write, and a record's key is never removed and created again
  by the layers above (docs/log-semantics.md#rule-5), so a version never comes back.
- Watches fire at least once after a change, may fire without one, and are called on the event loop. Watch
  first, then read: a change between a read and a later watch may go unnoticed. `urgent` says that somebody
  waits for this very change, which a polling store then looks for more often.
- While the store holds no cluster, everything but `init_cluster`, `instance_id`, `layout` raises
  MetadataUnavailableError.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from ledger.errors import LogStoreError
from ledger.model import BookieId, BookieInfo, BookieSet, LedgerId, LedgerMetadata, Versioned

Watch = Callable[[], None]
"""Called on the event loop when the watched thing may have changed; the watcher re-reads."""

Unwatch = Callable[[], None]

OnLost = Callable[[LogStoreError], None]


def nobody_told(error: LogStoreError) -> None:
    """Where nobody has asked to hear of a lost registration."""


class Registration(Protocol):
    """A bookie's presence. It ends when the process dies, at the latest after the session timeout."""

    on_lost: OnLost
    """Called once, on the loop, if the registration has ended and cannot be renewed: another process has the id,
    or another cluster stands at the address. Stores whose sessions end with the process only never call it."""

    async def set_read_only(self, read_only: bool) -> None:
        """Move between the writable and the read-only list; never absent from both meanwhile."""

    async def close(self) -> None:
        """Withdraw the registration. Returns once others can see it."""


class MetadataStore(Protocol):
    """One cluster's metadata. Obtained from `ledger.metadata.drivers.open_store(uri)`."""

    @property
    def uri(self) -> str:
        """Canonical absolute address; opening it elsewhere on this machine reaches the same cluster."""

    async def close(self) -> None: ...

    # ---- ledgers

    async def new_ledger_id(self) -> LedgerId:
        """An id never handed out before, greater than every earlier one."""

    async def create_new_ledger(self, metadata: LedgerMetadata) -> tuple[LedgerId, int]:
        """Store new metadata under a new id, in one step where the store can; return id and version."""

    async def create_ledger(self, ledger_id: LedgerId, metadata: LedgerMetadata) -> int:
        """Store new metadata, return its version.

        AlreadyExistsError unless what is there carries our cToken (then it is our own create, repeated).
        """

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        """Linearizable. LedgerNotFoundError if absent, MetadataFormatError if damaged."""

    async def write_ledger(self, ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> int:
        """Compare-and-set; return the new version. MetadataVersionError, LedgerNotFoundError.

        As in BookKeeper, what is stored carries no cToken any more.
        """

    async def remove_ledger(self, ledger_id: LedgerId, version: int | None = None) -> None:
        """Remove at `version`, or at any. LedgerNotFoundError if absent (BookKeeper's delete ignores it)."""

    def watch_ledger(self, ledger_id: LedgerId, watch: Watch, *, urgent: bool = False) -> Unwatch: ...

    def ledger_ids(self) -> AsyncIterator[LedgerId]:
        """Every ledger, ascending, in bounded memory. An error is raised, never taken for the end."""

    # ---- records: the generic compare-and-set values of logs, cursors and properties

    async def create_record(self, key: str, value: bytes) -> int:
        """Store under a new key, return version 0. AlreadyExistsError if taken."""

    async def read_record(self, key: str, *, fresh: bool = True) -> Versioned[bytes]:
        """`fresh` reads are linearizable; others may lag behind. RecordNotFoundError."""

    async def write_record(self, key: str, value: bytes, version: int) -> int:
        """Compare-and-set; return the new version. MetadataVersionError, RecordNotFoundError."""

    async def remove_record(self, key: str, version: int) -> None:
        """Compare-and-remove. MetadataVersionError, RecordNotFoundError."""

    async def list_records(self, prefix: str) -> list[str]:
        """Names of the direct children under `prefix` (a key without its last part), sorted."""

    def watch_record(self, key: str, watch: Watch, *, urgent: bool = False) -> Unwatch: ...

    # ---- bookies

    async def register_bookie(self, info: BookieInfo) -> Registration:
        """Make the bookie visible. AlreadyExistsError while another live process holds the same id.

        A registration made before through this handle is replaced.
        """

    async def bookies(self) -> BookieSet: ...

    def watch_bookies(self, watch: Watch) -> Unwatch: ...

    async def read_cookie(self, bookie_id: BookieId) -> Versioned[bytes]:
        """RecordNotFoundError if the bookie was never formatted."""

    async def write_cookie(self, bookie_id: BookieId, cookie: bytes, version: int | None) -> int:
        """Create (version None, AlreadyExistsError) or compare-and-set (MetadataVersionError)."""

    async def remove_cookie(self, bookie_id: BookieId, version: int) -> None: ...

    async def list_cookies(self) -> list[BookieId]: ...

    # ---- the cluster

    async def init_cluster(self) -> None:
        """Create layout and instance id atomically. AlreadyExistsError if there is a cluster."""

    async def format_cluster(self) -> None:
        """Remove ledgers, cookies and records, write a new instance id. The caller has asked the operator."""

    async def nuke_cluster(self, instance_id: str) -> None:
        """Remove everything, if `instance_id` names this cluster (LayoutMismatchError otherwise).

        ClusterInUseError while bookies are registered. Ledger ids go on where they were.
        """

    async def instance_id(self) -> str:
        """RecordNotFoundError while no cluster is initialised."""

    async def layout(self) -> bytes:
        """The LAYOUT value (docs/bookkeeper.md#layout)."""
