"""What a timeline reports of a journal's syncs."""

from __future__ import annotations

from pathlib import Path

from bookie_server.journal.record import (
    FileHeader,
    RecordType,
    adds_body,
    encode_file_header,
    encode_record,
    explicit_lac_body,
    ledger_body,
)
from dlog.testing.disk.durable import JournalObserver
from dlog.testing.kernel.trace import Trace
from ledger.wire.entry import ENTRY_HEADER

PATH = Path("/data/journal/0000000000000001.journal")
HEADER = FileHeader(1, 99)


def record(kind: RecordType, sequence: int, body: bytes) -> bytes:
    return b"".join(encode_record(HEADER, kind, sequence, 0, body))


def test_each_sync_reports_the_records_since_the_last_one() -> None:
    trace = Trace(lambda: 0.0)
    trace.with_events = True
    observer = JournalObserver(trace, "bookie-0")
    entries = [ENTRY_HEADER.pack(3, number, number - 1, 5) + b"bytes" for number in (4, 5)]
    content = encode_file_header(HEADER) + record(
        RecordType.ADDS, 1, adds_body([len(each) for each in entries], entries)
    )
    observer.synced(PATH, content + bytes(100))
    content += record(RecordType.FENCE, 2, ledger_body(3))
    content += record(RecordType.EXPLICIT_LAC, 3, explicit_lac_body(3, 5, b"packet"))
    observer.synced(PATH, content + bytes(100))
    observer.synced(PATH, content + bytes(100))
    observer.synced(Path("/data/ledgers/entry-logs/1"), b"no journal")
    lines = [line.split(maxsplit=3)[2:] for line in trace.timeline().splitlines()]
    assert lines == [["durable", "ADD 3:4..5 lac 4"], ["durable", "FENCE 3; LAC 3 lac 5"]]
