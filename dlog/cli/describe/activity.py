"""`dlog top`, a row for each log. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlog.cache.snapshot import MetadataSnapshot
from dlog.cli.describe.owner import owner_document, writer_state
from dlog.cli.describe.quorum import copies_document
from dlog.core.degraded import wanted_quorum
from dlog.inspection.activity import LogActivity
from dlog.inspection.overview import counted_messages
from dlog.model import LogMetadata, LogName, LogState
from dlog.write.current_owner import is_released
from ledger.model import LedgerId, LedgerMetadata
from ledger.printing import counted

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
        "owner": owner_document(record.owner),
        "writer": writer_state(record),
        "copies": copies_document(found.newest),
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
