"""Which requests a bookie refuses, decided from the request and what it knows of the ledger. Pure.

Each `refuse_…` returns the status that ends the request, or None if it may go on; nothing is stored before that.
The rules are those of docs/bookkeeper.md#bookie-answers, with the strict choice wherever Apache's bookie has a quirk:

- negative ledger and entry ids are bad requests;
- the master key is compared, in constant time, before anything changes: a wrong key leaves no trace;
- "no entry" and "no ledger" are proofs. Any other reason not to answer is EIO.

Pitfall: docs/pitfalls.md#fence-as-a-weapon.
"""

from __future__ import annotations

from dataclasses import dataclass
from hmac import compare_digest
from typing import Protocol

from ledger.wire.constants import LAST_ENTRY
from ledger.wire.status import Status

LAC_PACKET_BYTES_MIN = 16
"""Ledger id and LAC. Only clients check the digest after them."""
LAC_PACKET_BYTES_MAX = 128
"""The longest digest makes one of 36. A packet is kept in memory and in each copy of its ledger's state."""


class LedgerFacts(Protocol):
    """What the decisions need to know of a ledger that this bookie has."""

    @property
    def master_key(self) -> bytes: ...
    @property
    def fenced(self) -> bool: ...
    @property
    def limbo(self) -> bool: ...
    @property
    def deleted(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Writability:
    """What the disks allow. Fences, reads and forces are always served."""

    adds: bool = True
    priority_adds: bool = True
    """Adds with the priority flag, which recovery sets; the storage keeps a reserve for them."""


def refuse_add(
    writability: Writability,
    ledger: LedgerFacts | None,
    ledger_id: int,
    key: bytes,
    *,
    recovery: bool,
    priority: bool,
) -> Status | None:
    """Whether to refuse a run of adds. None for an unknown ledger: it will be created with this key."""
    if ledger_id < 0:
        return Status.EBADREQ
    if not writability.adds and not (priority and writability.priority_adds):
        return Status.EREADONLY
    if ledger is None:
        return None
    if ledger.deleted:
        # The ledger was deleted from the metadata. EFENCED ends the writer; any other status would make it
        # replace this bookie and continue (docs/bookkeeper.md#deleting-a-ledger).
        return Status.EFENCED
    if _key_is_lost(ledger):
        return Status.EREADONLY
    if not compare_digest(ledger.master_key, key):
        return Status.EUA
    if (ledger.fenced or ledger.limbo) and not recovery:
        # Part of a limbo ledger's journal was lost, perhaps with the fence (docs/bookkeeper.md#limbo).
        return Status.EFENCED
    return None


def refuse_fence(ledger: LedgerFacts | None, ledger_id: int, key: bytes) -> Status | None:
    """Whether to refuse a fencing read. An unknown ledger will be created fenced: it refuses its first add."""
    if ledger_id < 0:
        return Status.EBADREQ
    if ledger is None:
        return None
    if ledger.deleted:
        return Status.ENOLEDGER
    if _key_is_lost(ledger):
        return Status.EUNKNOWNLEDGERSTATE
    return None if compare_digest(ledger.master_key, key) else Status.EUA


def _key_is_lost(ledger: LedgerFacts) -> bool:
    """Whether the right key is unknown: the client should ask other bookies instead of giving up."""
    return ledger.limbo and not ledger.master_key


def refuse_read(ledger: LedgerFacts | None, ledger_id: int, entry_id: int) -> Status | None:
    """Whether to refuse a plain read, which needs no key."""
    if ledger_id < 0 or entry_id < LAST_ENTRY:
        return Status.EBADREQ
    if ledger is None or ledger.deleted:
        return Status.ENOLEDGER
    return None


def refuse_write_lac(
    writability: Writability, ledger: LedgerFacts | None, ledger_id: int, key: bytes, packet: bytes
) -> Status | None:
    """Whether to refuse an explicit LAC. Fenced ledgers take it; a read-only bookie takes none, of any priority."""
    if ledger_id < 0 or not LAC_PACKET_BYTES_MIN <= len(packet) <= LAC_PACKET_BYTES_MAX:
        return Status.EBADREQ
    if not writability.adds:
        return Status.EREADONLY
    if ledger is None:
        return None
    if ledger.deleted:
        return Status.ENOLEDGER
    if _key_is_lost(ledger):
        return Status.EREADONLY
    return None if compare_digest(ledger.master_key, key) else Status.EUA


def read_lac_status(explicit_lac: bytes | None, last_entry_held: bool) -> Status:
    """Status of READ_LAC. An explicit LAC without any entry is EIO, with the LAC in the response."""
    if last_entry_held:
        return Status.EOK
    return Status.ENOENTRY if explicit_lac is None else Status.EIO
