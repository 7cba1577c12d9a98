"""`dlog ledgers`. Pure."""

from __future__ import annotations

from dlog.cli.output import json_instant, to_the_second
from dlog.model import ListedLedger, LogMetadata

LEDGER_COLUMNS = ("ledger", "epoch", "state", "entries", "messages", "bytes", "created", "first", "last")
SHORT_LEDGER_COLUMNS = LEDGER_COLUMNS[:-2]
"""Columns of the text output, which fit into 80 characters."""


def newest_ledger(record: LogMetadata) -> str:
    """As the last part of a sentence."""
    if not record.ledgers:
        return "and has no ledger"
    newest = record.ledgers[-1]
    return f"its newest ledger is {newest.ledger_id} ({'open' if newest.seal is None else 'sealed'})"


def ledger_row(listed: ListedLedger) -> dict[str, object]:
    """One ledger of `dlog ledgers`. None: not in the log metadata yet."""
    row: dict[str, object] = dict.fromkeys(LEDGER_COLUMNS)
    row |= {"ledger": listed.ledger_id, "epoch": listed.epoch, "created": json_instant(listed.created_us)}
    facts = listed.seal
    if facts is None:
        return row | {"state": "open"}
    return row | {
        "state": "sealed",
        "entries": facts.last_entry + 1,
        "messages": facts.message_count if facts.message_count >= 0 else None,
        "bytes": facts.byte_count,
        "first": json_instant(facts.first_append_us),
        "last": json_instant(facts.last_append_us),
    }


def short_ledger_row(listed: ListedLedger) -> list[object]:
    """The same for text output: ids without separators, times to the second."""
    row = ledger_row(listed)
    row |= {
        "ledger": str(listed.ledger_id),
        "epoch": str(listed.epoch),
        "created": to_the_second(listed.created_us),
    }
    return [row[name] for name in SHORT_LEDGER_COLUMNS]
