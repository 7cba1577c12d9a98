"""C14 at the instant at which a ledger is created: each of its write sets spans the racks that its client enforces.

Later its ensemble may be another one: a recovery takes any bookie.
"""

from __future__ import annotations

from dlog.testing.checks.decoded import decode_ledger_metadata
from dlog.testing.cluster import SimulatedCluster
from ledger.core.distribution import write_sets
from ledger.errors import MetadataFormatError
from ledger.metadata.transactions import ledgers
from ledger.metadata.transactions.key_value import Node
from ledger.model import LedgerMetadata


class NewLedgers:
    """Listens to every change of ledger metadata."""

    def __init__(self, cluster: SimulatedCluster, racks_min: int, wrong: list[str]) -> None:
        """Violations are appended to `wrong`, as sentences."""
        self._bookies = cluster.bookies
        self._racks_min = racks_min
        self._wrong = wrong
        self._seen: set[str] = set()
        cluster.metadata.on_change.append(self._changed)

    def _changed(self, _node: str, key: str, found: Node | None) -> None:
        if not key.startswith(ledgers.PREFIX) or found is None or key in self._seen:
            return
        self._seen.add(key)
        try:
            self._check(key.removeprefix(ledgers.PREFIX).lstrip("0"), decode_ledger_metadata(found.value))
        except MetadataFormatError:
            return  # of another application

    def _check(self, ledger_id: str, metadata: LedgerMetadata) -> None:
        racks = {each.bookie_id: each.network_location for each in self._bookies}
        ensemble = metadata.fragments[0].ensemble
        for write_set in write_sets(metadata.quorum):
            spanned = {racks[ensemble[at]] for at in write_set}
            if len(spanned) < min(self._racks_min, metadata.quorum.write):
                self._wrong.append(
                    f"c14_new_ledgers_span_the_racks: ledger {ledger_id} was created on {' '.join(ensemble)}, "
                    f"of which the write set {write_set} is in {len(spanned)} racks"
                )
