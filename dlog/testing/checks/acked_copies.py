"""C14 at the instant of an acknowledgement: `AllCommittedEntriesReachAckQuorum` of BookKeeper's TLA+ specification.

The copies that are there at the end of a run tell little of those that were there in time: what was under way when
an append was acknowledged arrives a moment later, mostly.
"""

from __future__ import annotations

from dlog.model import MessageId
from dlog.testing.checks.checks import FINDINGS_MAX
from dlog.testing.cluster import SimulatedCluster
from ledger.core.distribution import write_set


class AckedCopies:
    """Knows what bookies have answered. Whoever is down may have a copy, so nothing sound is ever found wrong."""

    def __init__(self, cluster: SimulatedCluster, ack: int, wrong: list[str]) -> None:
        """`ack`: the copies that users were promised. `wrong` gets what is found, in words."""
        self._metadata = cluster.metadata
        self._bookies = {bookie.bookie_id: bookie for bookie in cluster.bookies}
        self._ack = ack
        self._wrong = wrong
        self._found = 0

    def look(self, message_id: MessageId) -> None:
        """An append has just been acknowledged with this id."""
        ledger_id, entry_id = message_id.ledger_id, message_id.entry_id
        metadata = self._metadata.ledger(ledger_id)
        if metadata is None or self._found == FINDINGS_MAX:
            return  # it has been trimmed away meanwhile, or all is said
        ensemble = metadata.fragment_of(entry_id).ensemble
        members = {ensemble[position] for position in write_set(entry_id, metadata.quorum)}
        have = [
            each for each in members if not self._bookies[each].durable.certainly_lacks(ledger_id, entry_id)
        ]
        if len(have) < self._ack:
            self._found += 1
            self._wrong.append(
                f"c14_acknowledged_on_an_ack_quorum: {message_id} was acknowledged when at most {len(have)} of "
                f"{', '.join(sorted(members))} had it, it needs {self._ack}"
            )
