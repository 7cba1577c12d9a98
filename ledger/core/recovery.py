"""How recovery reads forward. Pure.

Recovery (docs/bookkeeper.md#recovery, #recovery-close):

1. metadata OPEN → IN_RECOVERY, so that the writer's next metadata change fails;
2. fence the last ensemble until every write set is covered; the highest LAC among the answers is the start;
3. read forward with reads that fence, too; each entry found is written back to an ack quorum;
4. the first entry that is proved absent ends the ledger: one compare-and-set writes CLOSED together with every
   ensemble change of the recovery. If none was found the ledger ends at the LAC, whose entry need not be readable.

Nothing that recovery finds is shown to a reader before step 4 has succeeded, and a recovery that dies at any point is
repeated from step 1 with the same result for every entry that was ever acknowledged.

Pitfalls: docs/pitfalls.md#recovered-entry-shown-too-early, #paused-recoverer, #recovery-below-the-last-fragment.
"""

from __future__ import annotations

READ_AHEAD_FIRST = 2


def next_read_ahead(found: int, maximum: int) -> int:
    """Number of entries to read at a time: few at first, since most ledgers end within an entry or two."""
    return min(maximum, max(READ_AHEAD_FIRST, 2 * found))
