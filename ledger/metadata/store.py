"""What a metadata driver offers. Every driver passes tests/conformance; callers use nothing else.

Rules that hold for every driver:

- A compare-and-set that is refused raises MetadataVersionError and certainly changed nothing.
- A change whose answer was lost raises MetadataOutcomeUnknownError; the driver never repeats a conditional
  write by itself. MetadataUnavailableError means that the change was certainly not made.
- Versions start at 0, increase by one with each write, and a record's key is never removed and created again
  by the layers above (docs/log-semantics.md#rule-5), so a version never comes back.
- A watch is called on the event loop at least once after a change that no read has returned, and possibly without
  one. Set the watch first, then read, and read again after each call: a change between a call and the next read
  may be without a call of its own. `urgent` means that a caller waits for this very change, which a polling store
  then checks more often.
- While the store holds no cluster, everything but `init_cluster`, `instance_id`, `layout` raises
  MetadataUnavailableError.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from ledger.errors import LogStoreError
from ledger.metadata.repair_store import RepairStore
from ledger.metadata.watching import Unwatch as Unwatch
from ledger.metadata.watching import Watch as Watch
from ledger.model import BookieId, BookieInfo, BookieSet, LedgerId, LedgerMetadata, Versioned

OnLost = Callable[[LogStoreError], None]
OnRenewed = Callable[[], Awaitable[None]]
NewestLedger = Callable[[int], int | None]
"""The highest id, up to a given one, of a ledger that a bookie has stored; None for none. Called on the loop."""


def ignore_loss(error: LogStoreError) -> None:
    """The default of `Registration.on_lost`: does nothing."""


async def ignore_renewal() -> None:
    """The default of `Registration.on_renewed`: does nothing."""


class Registration(Protocol):
    """A bookie's registration. It ends when the process dies, at the latest after the session timeout."""

    on_lost: OnLost
    """Called once, on the loop, if the registration has ended and cannot be renewed.

    Another process has the id, or another cluster is at the address. Stores whose sessions end only with the process
    never call it.
    """
    on_renewed: OnRenewed
    """Called on the loop each time that the registration was made again, and could be seen; by the same stores.

    If it raises a LogStoreError, both are done again after a pause.
    """

    async def set_read_only(self, read_only: bool) -> None:
        """Move between the writable and the read-only list; the bookie is never absent from both."""

    async def close(self) -> None:
        """Withdraw the registration; on return others see it."""


class MetadataStore(Protocol):
    """One cluster's metadata. Obtained from `ledger.metadata.drivers.open_store(uri)`."""

    @property
    def uri(self) -> str:
        """Canonical absolute address; opening it elsewhere on this machine reaches the same cluster."""

    @property
    def repair(self) -> RepairStore:
        """Marks, locks and the election of repair."""

    async def close(self) -> None: ...

    # ---- ledgers

    async def new_ledger_id(self) -> LedgerId:
        """An id never returned before, greater than every earlier one."""

    async def create_new_ledger(self, metadata: LedgerMetadata) -> tuple[LedgerId, int]:
        """Store metadata under a new id, in one step where the store can; return id and version.

        Source: docs/bookkeeper.md#creating-a-ledger.
        """

    async def create_ledger(self, ledger_id: LedgerId, metadata: LedgerMetadata) -> int:
        """Store new metadata; return its version.

        Raises:
            AlreadyExistsError: the id is taken, and not by an earlier attempt of this create (its cToken is another).
        """

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        """The metadata of a ledger, read linearizably.

        Raises:
            LedgerNotFoundError: no such ledger.
            MetadataFormatError: the value is damaged.
        """

    async def glance_at_ledgers(
        self, ledger_ids: Sequence[LedgerId]
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        """The metadata of many ledgers in one request or in several sent together; it may be an older value.

        Those that do not exist and those whose value is damaged are left out: `read_ledger` says which.
        """

    async def write_ledger(self, ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> int:
        """Compare-and-set; return the new version. As in BookKeeper, what is stored has no cToken any more.

        Raises:
            MetadataVersionError: the version is another one.
            LedgerNotFoundError: no such ledger.
        """

    async def remove_ledger(self, ledger_id: LedgerId, version: int | None = None) -> None:
        """Remove a ledger's metadata at `version`, or at any.

        Raises:
            LedgerNotFoundError: no such ledger (BookKeeper's delete ignores it).
            MetadataVersionError: the version is another one.
        """

    def watch_ledger(self, ledger_id: LedgerId, watch: Watch, *, urgent: bool = False) -> Unwatch: ...

    def ledger_ids(self) -> AsyncIterator[LedgerId]:
        """Every ledger id, ascending, in bounded memory. An error is raised, never taken for the end.

        A ledger that was created before the walk begins, and is not removed, is among them.
        """

    # ---- records: the generic compare-and-set values of logs, cursors and properties

    async def create_record(self, key: str, value: bytes) -> int:
        """Store a value under a new key; return version 0.

        Raises:
            AlreadyExistsError: the key is taken.
        """

    async def read_record(self, key: str, *, fresh: bool = True) -> Versioned[bytes]:
        """The value under a key. `fresh` reads are linearizable; others may return an older value.

        Raises:
            RecordNotFoundError: no such key.
        """

    async def write_record(self, key: str, value: bytes, version: int) -> int:
        """Compare-and-set; return the new version.

        Raises:
            MetadataVersionError: the version is another one.
            RecordNotFoundError: no such key.
        """

    async def remove_record(self, key: str, version: int) -> None:
        """Compare-and-remove.

        Raises:
            MetadataVersionError: the version is another one.
            RecordNotFoundError: no such key.
        """

    async def list_records(self, prefix: str) -> list[str]:
        """Names of the direct children under `prefix` (a key without its last part), sorted, read linearizably."""

    def watch_record(self, key: str, watch: Watch, *, urgent: bool = False) -> Unwatch: ...

    # ---- bookies

    async def register_bookie(
        self, info: BookieInfo, *, newest_ledger: NewestLedger | None = None
    ) -> Registration:
        """Make the bookie visible. A registration made earlier through this handle is replaced.

        Ids given out from now on are above those of the ledgers that it has stored, which they are already unless the
        store's data is that of an older backup. Ids so high that the store cannot have given them out do not count.

        Raises:
            AlreadyExistsError: another live process holds the same id.
        """

    async def bookies(self) -> BookieSet: ...

    def watch_bookies(self, watch: Watch) -> Unwatch: ...

    async def read_cookie(self, bookie_id: BookieId) -> Versioned[bytes]:
        """The bookie's cookie.

        Raises:
            RecordNotFoundError: the bookie was never formatted.
        """

    async def write_cookie(self, bookie_id: BookieId, cookie: bytes, version: int | None) -> int:
        """Create the cookie (`version` None) or compare-and-set it; return the new version.

        Raises:
            AlreadyExistsError: on create, there is a cookie.
            MetadataVersionError: the version is another one.
        """

    async def remove_cookie(self, bookie_id: BookieId, version: int) -> None: ...

    async def list_cookies(self) -> list[BookieId]: ...

    # ---- the cluster

    async def init_cluster(self) -> None:
        """Create layout and instance id atomically.

        Raises:
            AlreadyExistsError: there is a cluster.
        """

    async def format_cluster(self) -> None:
        """Remove ledgers, cookies and records and write a new instance id. The caller has asked the operator."""

    async def nuke_cluster(self, instance_id: str | None) -> None:
        """Remove everything, if `instance_id` names this cluster. Ledger ids continue from where they were.

        None names one that has lost its instance id and still has LAYOUT.

        Raises:
            RecordNotFoundError: no cluster is initialised.
            LayoutMismatchError: another cluster is there.
            ClusterInUseError: bookies are registered.
        """

    async def instance_id(self) -> str:
        """The cluster's instance id.

        Raises:
            RecordNotFoundError: no cluster is initialised.
        """

    async def layout(self) -> bytes:
        """The LAYOUT value (docs/bookkeeper.md#layout)."""
