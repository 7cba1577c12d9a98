"""Output of `dlog info` and `dlog ledgers`: as text for people, as JSON for programs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dlog.admin import LogInfo
from dlog.cli.output import instant, json_instant, to_the_second
from dlog.model import ListedLedger, LogMetadata, MessageId, SealFacts
from ledger.model import LedgerMetadata, QuorumSizes

LEDGER_COLUMNS = ("ledger", "epoch", "state", "entries", "messages", "bytes", "created", "first", "last")
SHORT_LEDGER_COLUMNS = LEDGER_COLUMNS[:-2]
"""Columns of the text output, which fit into 80 characters."""


def facts_of(info: LogInfo, tail: MessageId, newest: LedgerMetadata | None) -> dict[str, object]:
    """Fields for text output, most important first. `newest`: metadata of the last ledger, None if there is none."""
    record = info.record
    sealed = _sealed(record)
    return {
        "log": str(info.ref.name),
        "state": str(record.state),
        "first": str(_first(record)),
        "next": str(tail),
        "ledgers": len(record.ledgers),
        "sealed messages": _messages(sealed),
        "sealed bytes": sum(one.byte_count for one in sealed),
        "epoch": str(record.epoch),
        "owner": _owner(record),
        "copies": _copies(newest),
        "waiting for deletion": len(record.pending_delete),
        "uuid": record.log_uuid,
    }


def document_of(info: LogInfo, tail: MessageId, newest: LedgerMetadata | None) -> dict[str, object]:
    """The same for `-o json`: numbers as numbers, null for an unknown value."""
    record = info.record
    sealed = _sealed(record)
    return {
        "log": str(info.ref.name),
        "state": str(record.state),
        "first": str(_first(record)),
        "next": str(tail),
        "ledgers": len(record.ledgers),
        "sealed_messages": _counted(sealed),
        "sealed_messages_complete": _complete(sealed),
        "sealed_bytes": sum(one.byte_count for one in sealed),
        "epoch": record.epoch,
        "owner": _owner_document(record),
        "copies": _copies_document(newest),
        "waiting_for_deletion": len(record.pending_delete),
        "grace_s": record.grace_us / 1e6,
        "uuid": record.log_uuid,
    }


def _sealed(record: LogMetadata) -> list[SealFacts]:
    return [one.seal for one in record.ledgers if one.seal is not None]


def _counted(sealed: Sequence[SealFacts]) -> int:
    return sum(max(0, one.message_count) for one in sealed)


def _complete(sealed: Sequence[SealFacts]) -> bool:
    return all(one.message_count >= 0 for one in sealed)


def _messages(sealed: Sequence[SealFacts]) -> str:
    """A takeover seals without counting messages, so the sum may be incomplete."""
    known = f"{_counted(sealed):,}"
    return known if _complete(sealed) else f"{known}, without ledgers sealed by a takeover"


def _first(record: LogMetadata) -> MessageId:
    begin = MessageId(record.ledgers[0].ledger_id, 0, 0) if record.ledgers else record.trim_before
    return max(record.trim_before, begin)


def _owner(record: LogMetadata) -> str:
    owner = record.owner
    if owner is None:
        return "none yet"
    name = f"{owner.name} " if owner.name else ""
    return f"{name}process {owner.process_id} on {owner.host} since {instant(owner.started_us)}"


def _owner_document(record: LogMetadata) -> dict[str, object] | None:
    owner = record.owner
    if owner is None:
        return None
    return {
        "name": owner.name or None,
        "host": owner.host,
        "process": owner.process_id,
        "since": json_instant(owner.started_us),
        "instance": owner.instance,
    }


def _copies(newest: LedgerMetadata | None) -> str:
    """Replication of the newest ledger, and whether it is degraded (docs/log-semantics.md#rule-19b)."""
    if newest is None:
        return "-"
    quorum, usual = newest.quorum, QuorumSizes()
    text = f"{quorum.write} on {quorum.ensemble} bookies, {quorum.ack} before an acknowledgement"
    if quorum.write < usual.write:
        return (
            f"degraded: {text}; the next ledger has {usual.write} copies if {usual.ensemble} bookies are up"
        )
    return text


def _copies_document(newest: LedgerMetadata | None) -> dict[str, object] | None:
    if newest is None:
        return None
    quorum = newest.quorum
    return {
        "ensemble": quorum.ensemble,
        "write": quorum.write,
        "ack": quorum.ack,
        "degraded": quorum.write < QuorumSizes().write,
    }


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
