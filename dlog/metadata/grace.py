"""How long an unlisted ledger is kept, in case its writer is only paused. Pure.

Source: docs/log-semantics.md#rule-25.

The grace is the log's, not a client's: the record holds it from its creation on, and a takeover may raise it, never
lower it. So a paused owner and the client that deletes its ledgers use the same value. It is needed only where a
bookie that may have been in the ledger's ensemble forgets that a ledger was deleted.

Pitfall: docs/pitfalls.md#late-add-to-a-deleted-ledger.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.model import DURABLE_DELETIONS, BookieId, BookieSet, LedgerMetadata


def deletions_are_durable(ensembles: Iterable[LedgerMetadata], registered: BookieSet) -> bool:
    """Whether no bookie of these ledgers can forget that they were deleted.

    All bookies of every fragment must be registered and promise it: what is not known does not count. So must every
    other registered bookie, since recovery may have replaced one of them in the only fragment that named it.
    """
    infos = (*registered.writable, *registered.read_only)
    if not infos or not all(DURABLE_DELETIONS in info.properties for info in infos):
        return False
    known = {info.bookie_id for info in infos}
    return all(bookie_id in known for metadata in ensembles for bookie_id in members(metadata))


def members(metadata: LedgerMetadata) -> set[BookieId]:
    """All bookies of all fragments."""
    return {bookie_id for fragment in metadata.fragments for bookie_id in fragment.ensemble}
