"""`dlog history`. Pure."""

from __future__ import annotations

from dlog.cli.describe.owner import owner_document, process_text
from dlog.cli.output import json_instant, to_the_second
from dlog.inspection.history import HistoryEvent

HISTORY_COLUMNS = ("created", "event", "ledger", "epoch", "pause ms", "instance", "owner")


def history_document(event: HistoryEvent) -> dict[str, object]:
    listed = event.listed
    return {
        "created": json_instant(_created_us(event)),
        "event": _event(event),
        "ledger": None if listed is None else listed.ledger_id,
        "epoch": event.epoch,
        "owner_instance": event.owner_instance,
        "owner": owner_document(event.owner),
        "empty_epochs": list(event.empty_epochs),
        "pause_ms": None if event.pause_us is None else event.pause_us / 1e3,
    }


def history_rows(event: HistoryEvent) -> list[list[object]]:
    """The event for text output, after a row for the takeovers before it whose ledgers are not listed."""
    row = history_document(event)
    pause_ms = None if event.pause_us is None else f"{event.pause_us / 1e3:,.1f}"
    shown = [
        to_the_second(_created_us(event)),
        row["event"],
        None if event.listed is None else str(event.listed.ledger_id),
        str(row["epoch"]),
        pause_ms,
        event.owner_instance,
        None if event.owner is None else process_text(event.owner),
    ]
    return [_empty_row(event.empty_epochs), shown] if event.empty_epochs else [shown]


def _empty_row(epochs: range) -> list[object]:
    if len(epochs) == 1:
        event, epoch = "takeover: its ledger stayed empty", str(epochs[0])
    else:
        event, epoch = "takeovers: their ledgers stayed empty", f"{epochs[0]} to {epochs[-1]}"
    return [None, event, None, epoch, None, None, None]


def _created_us(event: HistoryEvent) -> int:
    """Without a ledger, the start of the owner: it has begun the takeover then."""
    if event.listed is not None:
        return event.listed.created_us
    return 0 if event.owner is None else event.owner.started_us


def _event(event: HistoryEvent) -> str:
    if event.seal:
        return "seal"
    return "takeover" if event.takeover else "rotation"
