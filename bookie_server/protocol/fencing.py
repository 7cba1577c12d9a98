"""Fencing reads: from now on the ledger refuses its old writer, and the response proves it.

Order: the fence is set in memory (no add of a normal writer is accepted any more); its record becomes durable,
together with everything accepted before it; only then the entry is read and the response is sent, even if there is no
entry. So "no entry" is a promise: none will be accepted from the old writer, not even after a crash. Apache's bookie
responds ENOENTRY without waiting; clients cannot tell the difference.

Protocol: docs/bookkeeper.md#fencing.
Pitfalls: docs/pitfalls.md#fence-not-durable, #fence-of-an-unknown-ledger, #fence-overtakes-an-add.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bookie_server.protocol.refusals import refuse_fence
from bookie_server.protocol.service import BookieService, status_of
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from ledger.errors import LogStoreError
from ledger.wire.status import Status

OnFenced = Callable[[StoredLedger | Status], None]
"""The fenced ledger, or the status that ends the request."""


def fence(service: BookieService, ledger_id: int, key: bytes, done: OnFenced) -> None:
    """Fence the ledger, creating it if this bookie does not know it. Calls `done` when the fence is durable."""
    try:
        ledger = service.ledger(ledger_id)
        refusal = refuse_fence(ledger, ledger_id, key)
        if refusal is not None:
            done(refusal)
            return
        if ledger is None:
            ledger = service.storage.create_ledger(ledger_id, key)
    except LogStoreError as error:
        done(status_of(error))
        return
    if ledger.fence_durable:
        done(ledger)
        return
    if not ledger.fenced:
        service.watchers.fenced(ledger_id)
    service.storage.fence(ledger, partial(_report, done, ledger))


def _report(done: OnFenced, ledger: StoredLedger, error: Exception | None) -> None:
    # A fence that may not have been written is no fence: EIO is "unknown" to the recovering client.
    done(ledger if error is None else Status.EIO)
