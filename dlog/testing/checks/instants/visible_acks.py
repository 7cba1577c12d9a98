"""C9 at the instant of an acknowledgement: every reader that is opened now sees the message.

A witness sees a LAC that is stored on too few bookies only if those that have it are slow to answer just then. Here
each bookie is asked directly. Source: docs/log-semantics.md#rule-13.
"""

from __future__ import annotations

from dlog.model import MessageId
from dlog.testing.bookies import SimulatedBookie
from dlog.testing.checks.checks import FINDINGS_MAX
from dlog.testing.cluster import SimulatedCluster
from ledger.core.quorum import stored_on_quorum
from ledger.model import LedgerMetadata

_ANY = 2**62


class VisibleAcks:
    """Checks which LAC the members of the last ensemble hold. One that is down may hold any: no false alarms."""

    def __init__(self, cluster: SimulatedCluster, wrong: list[str]) -> None:
        """Violations are appended to `wrong`, as sentences."""
        self._metadata = cluster.metadata
        self._bookies = cluster.bookies
        self._wrong = wrong
        self._found = 0

    def check(self, message_id: MessageId) -> None:
        """The append of this message has just been acknowledged, strictly."""
        metadata = self._metadata.ledger(message_id.ledger_id)
        if metadata is None or self._found == FINDINGS_MAX:
            return  # trimmed in the meantime, or enough violations are reported
        if metadata.closed or message_id.entry_id < metadata.last_fragment.first_entry:
            return  # metadata itself shows it
        held = {each.bookie_id: _lac(each, message_id.ledger_id) for each in self._bookies}
        lacs = [held[each] for each in metadata.last_fragment.ensemble]
        if stored_on_quorum(lacs, metadata.quorum) < message_id.entry_id:
            self._found += 1
            self._wrong.append(
                f"c9_acknowledged_when_visible: {message_id} was acknowledged when {_described(metadata, lacs)}, "
                "so a reader that is opened now can miss it"
            )


def _lac(bookie: SimulatedBookie, ledger_id: int) -> int:
    """The highest LAC that the bookie may hold."""
    storage = None if bookie.server is None else bookie.server.storage
    state = None if storage is None else storage.ledger_in_memory(ledger_id)
    return _ANY if state is None or state.deleted else state.lac


def _described(metadata: LedgerMetadata, lacs: list[int]) -> str:
    held = zip(metadata.last_fragment.ensemble, lacs, strict=True)
    return ", ".join(
        f"{bookie_id} held {'any LAC' if lac == _ANY else f'LAC {lac}'}" for bookie_id, lac in held
    )
