"""C12: whoever recovers a ledger finds the same end, also those who recover it at once.

A candidate for a log recovers its tail before it proposes a record, and the record tells where each ledger ends. So
each proposal counts, also one that was refused: what two of them say of a ledger agrees, and agrees with the ledger's
own metadata (`NoDivergenceBetweenClientAndMetaData` of BookKeeper's TLA+ specification).
"""

from __future__ import annotations

from collections.abc import Iterator

from dlog.format.log_metadata import decode_record
from dlog.testing.checks.transitions import values
from dlog.testing.metadata.history import RegisterHistory
from ledger.metadata.format.ledger import decode_ledger_metadata


def c12_recoverers_agree(history: RegisterHistory) -> Iterator[str]:
    """NoDivergenceBetweenClientAndMetaData."""
    closed = _closed(history)
    for ledger_id, ends in sorted(_proposed(history).items()):
        if len(ends) > 1:
            told = ", ".join(f"{end} by {client}" for end, client in sorted(ends.items()))
            yield f"the end of ledger {ledger_id} was found at {told}"
        for end, client in ends.items():
            if closed.get(ledger_id, end) != end:
                yield f"{client} took {end} for the end of ledger {ledger_id}, its metadata says {closed[ledger_id]}"


def _proposed(history: RegisterHistory) -> dict[int, dict[int, str]]:
    """Of each ledger the ends that anybody wanted to record, and who was the first to want it."""
    found: dict[int, dict[int, str]] = {}
    looked_at: set[bytes] = set()
    for call in history.calls:
        if call.register.endswith("/record") and call.value is not None and call.value not in looked_at:
            looked_at.add(call.value)
            for listed in decode_record(call.value).ledgers:
                if listed.seal is not None:
                    found.setdefault(listed.ledger_id, {}).setdefault(listed.seal.last_entry, call.client)
    return found


def _closed(history: RegisterHistory) -> dict[int, int]:
    """Where each ledger ends by its own metadata, if it was closed."""
    found: dict[int, int] = {}
    for register, versions in values(history).items():
        if register.startswith("ledger/"):
            last = decode_ledger_metadata(versions[max(versions)])
            if last.closed:
                found[int(register.removeprefix("ledger/"))] = last.last_entry
    return found
