"""Output of commands that describe a log: as text for people, as JSON for programs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlog.cache.snapshot import MetadataSnapshot
from dlog.cli.output import instant, json_instant, printable, to_the_second
from dlog.core.degraded import wanted_quorum
from dlog.inspection.activity import LogActivity
from dlog.inspection.explain import Explanation
from dlog.inspection.history import HistoryEvent
from dlog.inspection.overview import Overview, counted_messages
from dlog.inspection.verify import UncheckedLedger
from dlog.model import ListedLedger, LogMetadata, LogName, LogState, Owner
from dlog.read.resolution import Resolution
from dlog.write.current_owner import is_released
from ledger.inspection.copies import Copies, CopyState, LedgerCopies, Verdict
from ledger.model import LedgerId, LedgerMetadata
from ledger.printing import counted

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
        "next": _TOO_FEW_BOOKIES if tail is None else str(tail),
        "ledgers": totals.ledgers,
        "messages": _messages(found),
        "bytes": _bytes(found),
        "epoch": str(record.epoch),
        "owner": _owner(record),
        "writer": _WRITER[_writer(record)],
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
        "next": None if tail is None else str(tail),
        "ledgers": totals.ledgers,
        "messages": found.messages,
        "bytes": found.bytes,
        "sealed_messages": totals.messages,
        "sealed_messages_complete": not totals.uncounted,
        "sealed_bytes": totals.bytes,
        "epoch": record.epoch,
        "owner": _owner_document(record.owner),
        "writer": _writer(record),
        "copies": _copies_document(newest),
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


def _owner(record: LogMetadata) -> str:
    owner = record.owner
    if owner is None:
        return "none yet"
    return f"{_process(owner)} since {instant(owner.started_us)}, instance {owner.instance}"


_WRITER = {
    None: "none yet",
    "open": "not closed: it runs, or has ended without closing",
    "closed": "closed",
}


def _writer(record: LogMetadata) -> str | None:
    """What the record shows of the owner's writer: that of a killed process stays open in it."""
    if record.owner is None:
        return None
    return "closed" if is_released(record) else "open"


def _process(owner: Owner) -> str:
    name = f"{owner.name} " if owner.name else ""
    return f"{name}process {owner.process_id} on {owner.host}"


def _owner_document(owner: Owner | None) -> dict[str, object] | None:
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
    quorum, wanted = newest.quorum, wanted_quorum(newest)
    text = f"{quorum.write} on {quorum.ensemble} bookies, {quorum.ack} before an acknowledgement"
    if wanted is None:
        return text
    more = f"the next ledger has {wanted.write} copies on {wanted.ensemble} bookies if as many are up"
    return f"degraded: {text}; {more}"


def _copies_document(newest: LedgerMetadata | None) -> dict[str, object] | None:
    if newest is None:
        return None
    quorum = newest.quorum
    return {
        "ensemble": quorum.ensemble,
        "write": quorum.write,
        "ack": quorum.ack,
        "degraded": wanted_quorum(newest) is not None,
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

TOP_COLUMNS = (
    "log",
    "state",
    "entries/s",
    "owner",
    "next",
    "messages",
    "bytes",
    "ledgers",
    "epoch",
    "copies",
)
"""Of a narrow screen, what is on the right is left out."""


Damaged = Mapping[LogName | LedgerId, str]
"""What cannot be decoded, and why."""


def top_documents(found: Sequence[LogActivity], damaged: Damaged) -> list[dict[str, object]]:
    """The logs, and those of which nothing can be shown but why; `error` is null for a log in order."""
    readable = [{**top_document(each), "error": damaged.get(each.info.ref.name)} for each in found]
    empty: dict[str, object] = dict.fromkeys(readable[0] if readable else ("log", "state", "error"))
    return readable + [
        {**empty, "log": str(log), "state": "damaged", "error": damaged[log]}
        for log in _unread(found, damaged)
    ]


def top_rows(found: Sequence[LogActivity], damaged: Damaged) -> list[list[object]]:
    """The same for text output; the reasons are `damaged_lines`."""
    rows = [top_row(each) for each in found]
    for row, each in zip(rows, found, strict=True):
        if each.info.ref.name in damaged:
            row[1] = "damaged"
    unknown = [None] * (len(TOP_COLUMNS) - 2)
    return rows + [[str(log), "damaged", *unknown] for log in _unread(found, damaged)]


def damaged_lines(damaged: Damaged) -> list[str]:
    """Below the table: why each damaged value cannot be shown."""
    shown = {f"log {key}" if isinstance(key, LogName) else f"ledger {key}": damaged[key] for key in damaged}
    return ["", *(f"{what}: {shown[what]}" for what in sorted(shown))] if shown else []


def _unread(found: Sequence[LogActivity], damaged: Damaged) -> list[LogName]:
    read = {each.info.ref.name for each in found}
    return sorted((key for key in damaged if isinstance(key, LogName) and key not in read), key=str)


def top_document(found: LogActivity) -> dict[str, object]:
    record = found.info.record
    return {
        "log": str(found.info.ref.name),
        "state": str(record.state),
        "entries_per_s": found.entries_per_s,
        "next": None if found.tail is None else str(found.tail),
        "ledgers": found.totals.ledgers,
        "messages": counted_messages(found.totals, found.open),
        "bytes": None if found.open is None else found.totals.bytes + found.open.bytes,
        "sealed_bytes": found.totals.bytes,
        "epoch": record.epoch,
        "owner": _owner_document(record.owner),
        "writer": _writer(record),
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
        None
        if owner is None
        else f"{owner.name or owner.process_id}@{owner.host}" + _closed(found.info.record),
        row["next"],
        row["messages"],
        row["bytes"],
        row["ledgers"],
        str(row["epoch"]),
        None if newest is None else f"{newest.quorum.write} ({newest.quorum.ack})" + _degraded(newest),
    ]


def _closed(record: LogMetadata) -> str:
    return " closed" if record.state is LogState.ACTIVE and is_released(record) else ""


def _degraded(newest: LedgerMetadata) -> str:
    return "" if wanted_quorum(newest) is None else " degraded"


def cluster_line(snapshot: MetadataSnapshot, found: Sequence[LogActivity]) -> str:
    """One line about the bookies: how many there are, and which of the logs' active ledgers lack one."""
    writable, read_only = snapshot.bookies.writable, snapshot.bookies.read_only
    line = f"cluster {snapshot.cluster_id}: {counted(len(writable), 'bookie')} writable"
    if read_only:
        line += f", {len(read_only)} read-only"
    if damaged := [each.bookie_id for each in snapshot.bookies.damaged]:
        line += f"; damaged registrations: {', '.join(damaged)}"
    members = {bookie_id for each in found if each.newest for bookie_id in each.newest.last_fragment.ensemble}
    if missing := sorted(each for each in members if not snapshot.contains_bookie(each)):
        line += f"; not registered: {', '.join(missing)}"
    return line


# ---- history

HISTORY_COLUMNS = ("created", "event", "ledger", "epoch", "pause ms", "instance", "owner")


def history_document(event: HistoryEvent) -> dict[str, object]:
    listed = event.listed
    return {
        "created": json_instant(_created_us(event)),
        "event": _event(event),
        "ledger": None if listed is None else listed.ledger_id,
        "epoch": event.epoch,
        "owner_instance": event.owner_instance,
        "owner": _owner_document(event.owner),
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
        None if event.owner is None else _process(event.owner),
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
