"""What a bookie answers, decided from the request and what it knows of the ledger. Pure.

Each `refuse_…` returns the status that ends the request, or None when it may go on; nothing is stored before
it said None. The rules are those of docs/bookkeeper.md#bookie-answers, with the strict choice wherever Apache's
bookie has a quirk:

- negative ledger and entry ids are bad requests;
- the master key is compared, in constant time, before anything changes: a wrong key leaves no trace;
- "no entry" and "no ledger" are proofs. Whatever else stands in the way of an answer is EIO.

Pitfall: docs/pitfalls.md#fence-as-a-weapon.
"""

from __future__ import annotations

from dataclasses import dataclass
from hmac import compare_digest
from typing import Protocol

from ledger.wire.status import Status

LAST_ENTRY = -1
"""Entry id of a read that asks for the last entry held."""
LAC_PACKET_BYTES_MIN = 16
"""Ledger id and LAC; the digest after them is the client's business."""


class LedgerFacts(Protocol):
    """What the decisions need to know of a ledger this bookie has heard of."""

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
    """What the disks allow. Fences, reads and forces are served whatever it says."""

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
    """A run of adds of one ledger. An unknown ledger will be created with this key."""
    if ledger_id < 0:
        return Status.EBADREQ
    if not writability.adds and not (priority and writability.priority_adds):
        return Status.EREADONLY
    if ledger is None:
        return None
    if ledger.deleted:
        # Metadata has no such ledger any more. EFENCED ends the writer; anything else would make it
        # look for another bookie to go on with (docs/bookkeeper.md#deleting-a-ledger).
        return Status.EFENCED
    if _key_is_lost(ledger):
        return Status.EREADONLY
    if not compare_digest(ledger.master_key, key):
        return Status.EUA
    if (ledger.fenced or ledger.limbo) and not recovery:
        # Part of a limbo ledger's journal is gone, and with it perhaps the fence (docs/bookkeeper.md#limbo).
        return Status.EFENCED
    return None


def refuse_fence(ledger: LedgerFacts | None, ledger_id: int, key: bytes) -> Status | None:
    """A fencing read. An unknown ledger will be created fenced, so that it refuses its first add."""
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
    """Whether nobody can say which key is right: the client is to ask other bookies, not to give up."""
    return ledger.limbo and not ledger.master_key


def refuse_read(ledger: LedgerFacts | None, ledger_id: int, entry_id: int) -> Status | None:
    """A plain read, whose key nobody looks at."""
    if ledger_id < 0 or entry_id < LAST_ENTRY:
        return Status.EBADREQ
    if ledger is None or ledger.deleted:
        return Status.ENOLEDGER
    return None


def refuse_write_lac(
    writability: Writability, ledger: LedgerFacts | None, ledger_id: int, key: bytes, packet: bytes
) -> Status | None:
    """An explicit LAC. Fenced ledgers take it; priority does not help on a read-only bookie."""
    if ledger_id < 0 or len(packet) < LAC_PACKET_BYTES_MIN:
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
    """Status of READ_LAC. An explicit LAC without any entry is EIO, with the LAC in the answer."""
    if last_entry_held:
        return Status.EOK
    return Status.ENOENTRY if explicit_lac is None else Status.EIO
