"""C23: a bookie is decommissioned once no ledger depends on it.

Looked at when the decommission has just returned. A ledger that names the bookie then was made during the decommission,
by a client that did not know yet that the bookie had stopped.

Source: docs/repair.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from dlog.testing.metadata.server import SimulatedMetadata
from ledger.model import BookieId, LedgerId


def ledgers_that_name(metadata: SimulatedMetadata, bookie_id: BookieId) -> set[LedgerId]:
    """As the server holds them at this instant."""
    return {
        ledger_id
        for ledger_id in metadata.ledger_ids()
        if (found := metadata.ledger(ledger_id)) is not None and bookie_id in found.members()
    }


def c23_nothing_depends_on_a_decommissioned_bookie(
    metadata: SimulatedMetadata, bookie_id: BookieId, named_before: Collection[LedgerId]
) -> Iterator[str]:
    """`named_before`: the ledgers that named it when the decommission began."""
    for ledger_id in sorted(ledgers_that_name(metadata, bookie_id).intersection(named_before)):
        yield f"ledger {ledger_id} names {bookie_id}, which is decommissioned: {metadata.ledger(ledger_id)}"
