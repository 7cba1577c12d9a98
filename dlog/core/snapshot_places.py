"""Where a sink's ledger has the snapshot of the log's producers. Pure.

A sink appends nothing of a producer, so what they have appended is the same before and after its batch. The newest
ledger of the log must have it (docs/log-semantics.md#rule-36), and which of a batch's ledgers will be the newest is not
known while they are written: each of them has the snapshot, in its first entry and again after every so many bytes.
"""

from __future__ import annotations

from dlog.format.entry import SnapshotPlace

_INTERVAL_BYTES = 16 << 20
_INTERVAL_SNAPSHOTS = 16
"""As of a writer: a takeover reads at most this, and snapshots take at most a sixteenth of a ledger."""


class SnapshotPlaces:
    """Of one ledger, asked once for each entry, in order.

    `known`: None, the log has no producers; a place with a snapshot, repeated here; ELSEWHERE, it could not be read.
    """

    def __init__(self, known: SnapshotPlace | None) -> None:
        self._known = known
        self._distance = 0
        self._bytes_since = 0

    def next(self, entry_bytes: int) -> SnapshotPlace | None:
        """The place that the next entry names; its messages have this many bytes."""
        known = self._known
        if known is None or known.snapshot is None:
            return known
        interval = max(_INTERVAL_BYTES, _INTERVAL_SNAPSHOTS * len(known.snapshot))
        if self._bytes_since >= interval:
            self._distance = self._bytes_since = 0
        place = SnapshotPlace(self._distance) if self._distance else known
        self._distance += 1
        self._bytes_since += entry_bytes
        return place
