"""Output of commands that describe a log: as text for people, as JSON for programs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dlog.cache.snapshot import MetadataSnapshot
from dlog.cli.output import instant, json_instant, printable, to_the_second
from dlog.inspection.activity import LogActivity
from dlog.inspection.explain import Explanation
from dlog.inspection.history import HistoryEvent
from dlog.inspection.overview import Overview
from dlog.ledger_list.totals import ListTotals
from dlog.model import ListedLedger, LogMetadata
from dlog.read.resolution import Resolution
from ledger.inspection.copies import CopyState, LedgerCopies, Verdict
from ledger.model import LedgerMetadata, QuorumSizes

LEDGER_COLUMNS = ("ledger", "epoch", "state", "entries", "messages", "bytes", "created", "first", "last")
SHORT_LEDGER_COLUMNS = LEDGER_COLUMNS[:-2]
"""Columns of the text output, which fit into 80 characters."""


def facts_of(found: Overview) -> dict[str, object]:
    """Fields for text output, most important first."""
    info, tail, newest = found.info, found.tail, found.newest
    record, totals = info.record, found.totals
    return {
        "log": str(info.ref.name),
        "state": str(record.state),
        "first": str(found.first),
        "next": str(tail),
        "ledgers": totals.ledgers,
        "sealed messages": _messages(totals),
        "sealed bytes": totals.bytes,
        "epoch": str(record.epoch),
        "owner": _owner(record),
        "copies": _copies(newest),
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
        "next": str(tail),
        "ledgers": totals.ledgers,
        "sealed_messages": totals.messages,
        "sealed_messages_complete": not totals.uncounted,
        "sealed_bytes": totals.bytes,
        "epoch": record.epoch,
        "owner": _owner_document(record),
        "copies": _copies_document(newest),
        "waiting_for_deletion": totals.deletable,
        "grace_s": record.grace_us / 1e6,
        "uuid": record.log_uuid,
    }


def _messages(totals: ListTotals) -> str:
    """A takeover seals without counting messages, so the sum may be incomplete."""
    known = f"{totals.messages:,}"
    return f"{known}, without ledgers sealed by a takeover" if totals.uncounted else known


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


# ---- top

TOP_COLUMNS = ("log", "state", "entries/s", "next", "ledgers", "sealed bytes", "epoch", "owner", "copies")


def top_document(found: LogActivity) -> dict[str, object]:
    record = found.info.record
    return {
        "log": str(found.info.ref.name),
        "state": str(record.state),
        "entries_per_s": found.entries_per_s,
        "next": None if found.tail is None else str(found.tail),
        "ledgers": found.totals.ledgers,
        "sealed_bytes": found.totals.bytes,
        "epoch": record.epoch,
        "owner": _owner_document(record),
        "copies": _copies_document(found.newest),
    }


def top_row(found: LogActivity) -> list[object]:
    """The same for text output, short enough for a line."""
    row = top_document(found)
    owner, newest = found.info.record.owner, found.newest
    rate = found.entries_per_s
    return [
        row["log"],
        row["state"],
        None if rate is None else f"{rate:,.0f}",
        row["next"],
        row["ledgers"],
        row["sealed_bytes"],
        str(row["epoch"]),
        None if owner is None else f"{owner.name or owner.process_id}@{owner.host}",
        None if newest is None else f"{newest.quorum.write} ({newest.quorum.ack})" + _degraded(newest),
    ]


def _degraded(newest: LedgerMetadata) -> str:
    return " degraded" if newest.quorum.write < QuorumSizes().write else ""


def cluster_line(snapshot: MetadataSnapshot, found: Sequence[LogActivity]) -> str:
    """One line about the bookies: how many there are, and which of the logs' active ledgers lack one."""
    writable, read_only = snapshot.bookies.writable, snapshot.bookies.read_only
    line = f"cluster {snapshot.cluster_id}: {len(writable)} bookies writable"
    if read_only:
        line += f", {len(read_only)} read-only"
    members = {bookie_id for each in found if each.newest for bookie_id in each.newest.last_fragment.ensemble}
    if missing := sorted(each for each in members if not snapshot.contains_bookie(each)):
        line += f"; not registered: {', '.join(missing)}"
    return line


# ---- history

HISTORY_COLUMNS = ("created", "event", "ledger", "epoch", "owner", "pause ms")


def history_document(event: HistoryEvent) -> dict[str, object]:
    listed = event.listed
    return {
        "created": json_instant(listed.created_us),
        "event": _event(event),
        "ledger": listed.ledger_id,
        "epoch": listed.epoch,
        "owner_instance": event.owner_instance,
        "pause_ms": None if event.pause_us is None else event.pause_us / 1e3,
    }


def history_row(event: HistoryEvent) -> list[object]:
    row = history_document(event)
    pause_ms = None if event.pause_us is None else f"{event.pause_us / 1e3:,.1f}"
    return [
        to_the_second(event.listed.created_us),
        row["event"],
        str(row["ledger"]),
        str(row["epoch"]),
        None if event.owner_instance is None else event.owner_instance[:8],
        pause_ms,
    ]


def _event(event: HistoryEvent) -> str:
    return "takeover" if event.takeover else "rotation"


# ---- explain

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
    if found.message is not None:
        payload = found.message.payload
        facts |= {
            "appended": instant(found.message.append_time_us),
            "key": printable(found.message.key),
            "headers": len(found.message.headers),
            "payload": "none: a tombstone" if payload is None else f"{len(payload):,} bytes",
        }
    for bookie_id, copy in (found.copies or {}).items():
        facts[f"on {bookie_id}"] = f"{copy.state}" + (f": {copy.reason}" if copy.reason else "")
    return facts


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
        "appended": None if message is None else json_instant(message.append_time_us),
        "payload_bytes": None if message is None or message.payload is None else len(message.payload),
        "copies": {bookie_id: copy.state.value for bookie_id, copy in (found.copies or {}).items()},
    }


# ---- verify


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
    }


def _json_name(verdict: Verdict) -> str:
    return verdict.name.lower()


def copies_summary(log: str, found: Sequence[LedgerCopies]) -> str:
    """One line: what was checked and what is not intact."""
    copies = {state: sum(each.copies[state] for each in found) for state in CopyState}
    rest = ", ".join(f"{copies[state]:,} {state}" for state in CopyState)
    entries, ledgers = sum(each.entries for each in found), len(found)
    return (
        f"log {log}: {entries:,} {'entry' if entries == 1 else 'entries'} in {ledgers:,} "
        f"{'ledger' if ledgers == 1 else 'ledgers'}; copies: {rest}"
    )
