"""`dlog info`. Pure."""

from __future__ import annotations

from dlog.cli.describe.owner import WRITER_TEXTS, owner_document, owner_text, writer_state
from dlog.cli.describe.quorum import copies_document, copies_text
from dlog.inspection.overview import Overview


def facts_of(found: Overview) -> dict[str, object]:
    """Fields for text output, most important first."""
    info, tail, newest = found.info, found.tail, found.newest
    record, totals = info.record, found.totals
    return {
        "log": str(info.ref.name),
        "state": str(record.state),
        "first": str(found.first),
        "next": _TOO_FEW_BOOKIES if tail is None else str(tail),
        "ledgers": totals.ledgers,
        "messages": _messages(found),
        "bytes": _bytes(found),
        "epoch": str(record.epoch),
        "owner": owner_text(record),
        "writer": WRITER_TEXTS[writer_state(record)],
        "copies": copies_text(newest),
        "waiting for deletion": totals.deletable,
        "uuid": record.log_uuid,
    }


def document_of(found: Overview) -> dict[str, object]:
    """The same for `-o json`: numbers as numbers, null for an unknown value."""
    info, tail, newest = found.info, found.tail, found.newest
    record, totals = info.record, found.totals
    return {
        "log": str(info.ref.name),
        "state": str(record.state),
        "first": str(found.first),
        "next": None if tail is None else str(tail),
        "ledgers": totals.ledgers,
        "messages": found.messages,
        "bytes": found.bytes,
        "sealed_messages": totals.messages,
        "sealed_messages_complete": not totals.uncounted,
        "sealed_bytes": totals.bytes,
        "epoch": record.epoch,
        "owner": owner_document(record.owner),
        "writer": writer_state(record),
        "copies": copies_document(newest),
        "waiting_for_deletion": totals.deletable,
        "grace_s": record.grace_us / 1e6,
        "uuid": record.log_uuid,
    }


_TOO_FEW_BOOKIES = "unknown: too few bookies respond"


def _messages(found: Overview) -> str:
    """A takeover that cannot read the last entry seals without a count, so the sum may be incomplete."""
    totals, of_open = found.totals, found.open
    if of_open is None:
        text = f"{totals.messages:,} in sealed ledgers, those of the open ledger are unknown"
    elif of_open.messages is None:
        text = f"{totals.messages:,}, without the open ledger, which does not count them"
    else:
        text = f"{totals.messages + of_open.messages:,}"
    return f"{text}, without ledgers that were not counted" if totals.uncounted else text


def _bytes(found: Overview) -> object:
    if found.bytes is None:
        return f"{found.totals.bytes:,} in sealed ledgers, those of the open ledger are unknown"
    return found.bytes
