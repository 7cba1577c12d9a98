"""C15 at the instant at which a recovery closes a ledger: no ack quorum is left that would still accept an add.

At the end of a run all bookies have long been fenced by the reads of one recovery or another; what keeps an old writer
from an acknowledgement is that they were when the end of the ledger was decided.
"""

from __future__ import annotations

from dlog.testing.checks.decoded import decode_ledger_metadata
from dlog.testing.checks.ledger_ends import open_write_sets
from dlog.testing.cluster import SimulatedCluster
from ledger.errors import MetadataFormatError
from ledger.metadata.transactions import ledgers
from ledger.metadata.transactions.key_value import Node
from ledger.model import BookieId, LedgerMetadata, LedgerState


class RecoveredFences:
    """Listens to every change of ledger metadata."""

    def __init__(self, cluster: SimulatedCluster, wrong: list[str]) -> None:
        """Violations are appended to `wrong`, as sentences."""
        self._bookies = cluster.bookies
        self._wrong = wrong
        self._recovering: dict[int, LedgerMetadata] = {}
        """As its recovery has marked it: with the ensemble that is to be fenced."""
        cluster.metadata.on_change.append(self._changed)

    def _changed(self, _node: str, key: str, found: Node | None) -> None:
        if not key.startswith(ledgers.PREFIX) or found is None:
            return
        ledger_id = int(key.removeprefix(ledgers.PREFIX))
        try:
            metadata = decode_ledger_metadata(found.value)
        except MetadataFormatError:
            return  # of another application
        if metadata.state is LedgerState.IN_RECOVERY:
            self._recovering[ledger_id] = metadata
        elif metadata.closed and (before := self._recovering.pop(ledger_id, None)) is not None:
            self._wrong += [
                f"c15_fenced_when_closed: {each}"
                for each in open_write_sets(ledger_id, before, self._is_fenced)
            ]

    def _is_fenced(self, bookie_id: BookieId, ledger_id: int) -> bool:
        bookie = next(each for each in self._bookies if each.bookie_id == bookie_id)
        return bookie.promises.has_confirmed_fence(ledger_id)
