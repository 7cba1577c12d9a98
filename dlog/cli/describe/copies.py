"""`dlog verify`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dlog.inspection.verify import UncheckedLedger
from ledger.inspection.copies import CopyState, LedgerCopies, Verdict
from ledger.printing import counted


def copies_document(found: LedgerCopies) -> dict[str, object]:
    return {
        "ledger": found.ledger_id,
        "entries": found.entries,
        "bytes": found.payload_bytes,
        "copies": {state.value: found.copies[state] for state in CopyState},
        "verdicts": {_json_name(verdict): found.verdicts[verdict] for verdict in Verdict},
        "findings": [
            {
                "first_entry": each.first_entry,
                "last_entry": each.last_entry,
                "verdict": _json_name(each.verdict),
                "copies": {bookie_id: state.value for bookie_id, state in each.copies.items()},
                "reasons": dict(each.reasons),
            }
            for each in found.findings
        ],
        "findings_omitted": found.findings_omitted,
        "error": None,
    }


def unchecked_document(found: UncheckedLedger) -> dict[str, object]:
    """The same of a ledger of which nothing is known but why."""
    return {
        "ledger": found.ledger_id,
        "entries": None,
        "bytes": None,
        "copies": dict.fromkeys((state.value for state in CopyState), None),
        "verdicts": dict.fromkeys(map(_json_name, Verdict), None),
        "findings": [],
        "findings_omitted": 0,
        "error": str(found.error),
    }


def _json_name(verdict: Verdict) -> str:
    return verdict.name.lower()


def copies_summary(log: str, found: Sequence[LedgerCopies], unchecked: Sequence[UncheckedLedger] = ()) -> str:
    """One line: what was checked and what is not intact, and how many ledgers could not be checked."""
    copies = {state: sum(each.copies[state] for each in found) for state in CopyState}
    rest = ", ".join(f"{copies[state]:,} {state}" for state in CopyState)
    entries = counted(sum(each.entries for each in found), "entry", "entries")
    more = f"; not checked: {counted(len(unchecked), 'ledger')}" if unchecked else ""
    return f"log {log}: {entries} in {counted(len(found), 'ledger')}; copies: {rest}{more}"
