"""C15: fenced for ever. A ledger that was recovered stays refused to its old writer, whatever happened to bookies.

Looks at the end of a run, when every bookie has been killed, powered off and restarted as often as the run wanted:
in each write set of the ensemble that was fenced fewer than an ack quorum may still take a normal add. For a log that
is docs/log-semantics.md#i12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dlog.testing.checks.transitions import values
from dlog.testing.metadata.history import RegisterHistory
from ledger.metadata.format.ledger import decode_ledger_metadata
from ledger.model import BookieId, LedgerMetadata, LedgerState

IsFenced = Callable[[BookieId, int], bool]


def c15_fenced_for_ever(history: RegisterHistory, is_fenced: IsFenced) -> Iterator[str]:
    """`is_fenced` asks a bookie that runs; True also if it refuses every add to the ledger for another reason."""
    removed = {call.register for call in history.calls if call.operation == "remove"}
    for register, versions in values(history).items():
        if not register.startswith("ledger/") or register in removed:
            continue
        states = [decode_ledger_metadata(value) for value in versions.values()]
        recovered = [state for state in states if state.state is LedgerState.IN_RECOVERY]
        if recovered and states[-1].closed:
            ledger_id = int(register.removeprefix("ledger/"))
            yield from _open_write_sets(ledger_id, recovered[-1], is_fenced)


def _open_write_sets(ledger_id: int, metadata: LedgerMetadata, is_fenced: IsFenced) -> Iterator[str]:
    ensemble, quorum = metadata.last_fragment.ensemble, metadata.quorum
    fenced = [is_fenced(bookie_id, ledger_id) for bookie_id in ensemble]
    for first in range(len(ensemble)):
        members = [(first + offset) % len(ensemble) for offset in range(quorum.write)]
        still_open = [ensemble[index] for index in members if not fenced[index]]
        if len(still_open) >= quorum.ack:
            yield f"ledger {ledger_id} was recovered, but {', '.join(still_open)} would still take an add to it"
