"""`dlog explain`. Pure."""

from __future__ import annotations

from dlog.cli.output import instant, json_instant, printable
from dlog.inspection.explain import Explanation
from dlog.read.resolution import Resolution
from ledger.inspection.copies import Copies
from ledger.printing import counted

_OUTCOMES = {
    Resolution.COMMITTED: "committed",
    Resolution.ABSENT: "absent: no append has this id, and none ever will",
    Resolution.TRIMMED: "trimmed",
    Resolution.UNDECIDED: "undecided: not confirmed yet; opening a writer decides it",
}


def explanation_facts(found: Explanation) -> dict[str, object]:
    facts: dict[str, object] = {"message": str(found.message_id), "outcome": _OUTCOMES[found.resolution]}
    if found.message_id < found.trim_before:
        facts["the log begins at"] = str(found.trim_before)
    if found.listed is None or found.metadata is None:
        return facts
    state = "sealed" if found.metadata.closed else "open"
    facts |= {
        "ledger": f"{found.listed.ledger_id}, {state}, readable up to entry {found.last_readable}",
        "epoch": str(found.listed.epoch),
        "ledger created": instant(found.listed.created_us),
        "by writer": found.owner_instance,
    }
    if found.batch is not None:
        facts["messages in its entry"] = found.batch
    if found.producer_id is not None:
        facts["producer id"] = found.producer_id.hex()
    if found.sequence is not None:
        facts["sequence"] = found.sequence
    if found.message is not None:
        payload = found.message.payload
        facts |= {
            "appended": instant(found.message.append_time_us),
            "key": printable(found.message.key),
            "headers": len(found.message.headers),
            "payload": "none: a tombstone" if payload is None else counted(len(payload), "byte"),
        }
    for bookie_id, copy in _copies_of(found).items():
        facts[f"on {bookie_id}"] = f"{copy.state}" + (f": {copy.reason}" if copy.reason else "")
    return facts


def _copies_of(found: Explanation) -> Copies:
    """Without those of an entry that a sealed ledger does not have: they would look lost."""
    metadata = found.metadata
    if metadata is not None and metadata.closed and found.message_id.entry_id > metadata.last_entry:
        return {}
    return found.copies or {}


def explanation_document(found: Explanation) -> dict[str, object]:
    message = found.message
    return {
        "message": str(found.message_id),
        "outcome": found.resolution.value,
        "trim_before": str(found.trim_before),
        "ledger": None if found.listed is None else found.listed.ledger_id,
        "epoch": None if found.listed is None else found.listed.epoch,
        "owner_instance": found.owner_instance,
        "sealed": None if found.metadata is None else found.metadata.closed,
        "last_readable": found.last_readable,
        "messages_in_entry": found.batch,
        "producer_id": None if found.producer_id is None else found.producer_id.hex(),
        "sequence": found.sequence,
        "appended": None if message is None else json_instant(message.append_time_us),
        "payload_bytes": None if message is None or message.payload is None else len(message.payload),
        "copies": {bookie_id: copy.state.value for bookie_id, copy in _copies_of(found).items()},
    }
