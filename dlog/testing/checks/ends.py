"""C1 of what was trimmed away, too: an acknowledged message lies within the ledger that it was acknowledged in.

Nobody can read it any more, but where its ledger ended is on record. A writer that slept through the end of its
ledger must not be told that an append behind it succeeded.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlog.testing.checks.history import History, Outcome
from dlog.testing.checks.transitions import values
from dlog.testing.metadata.history import RegisterHistory
from ledger.metadata.format.ledger import decode_ledger_metadata


def c1_acknowledged_within_its_ledger(history: History, registers: RegisterHistory) -> Iterator[str]:
    ends: dict[int, int] = {}
    for register, versions in values(registers).items():
        if register.startswith("ledger/"):
            last = decode_ledger_metadata(versions[max(versions)])
            if last.closed:
                ends[int(register.removeprefix("ledger/"))] = last.last_entry
    for append in history.appends:
        if append.outcome is Outcome.ACKED and append.message_id is not None:
            end = ends.get(append.message_id.ledger_id)
            if end is not None and append.message_id.entry_id > end:
                yield f"{append.message_id} of {append.writer} was acknowledged, its ledger ends at {end}"
