"""What a bookie logs of reads that its entry logs did not answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from bookie_server.errors import LimboError, StorageError, TooManyFilesError
from bookie_server.storage.damage_reports import REPORT_S, DamageReports
from ledger.errors import LogStoreError


def damaged(path: Path | None) -> StorageError:
    return StorageError(f"entry log {path} is damaged at offset 512", path=path)


@pytest.fixture
def first() -> Path:
    from bookie_server.storage.entry_logs.format import file_name

    return Path("/data/ledgers") / file_name(1)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


def test_each_entry_log_is_named_once_and_then_counted(first: Path, caplog: pytest.LogCaptureFixture) -> None:
    reports = DamageReports()
    for _ in range(733):
        reports.note(damaged(first))
    assert reports.failed_reads == 733
    [line] = lines(caplog)
    assert line.startswith(f"entry log {first} is damaged at offset 512; ")
    assert "`dlog verify LOG`" in line and "docs/operations.md#a-damaged-entry-log" in line
    reports.report_due(100.0)
    [line] = lines(caplog)
    assert line.startswith(f"732 more failed reads of entry log {first}; ")
    reports.note(damaged(first))
    reports.report_due(100.0 + REPORT_S - 1)
    assert lines(caplog) == []
    reports.report_due(100.0 + REPORT_S)
    [line] = lines(caplog)
    assert line.startswith(f"1 more failed read of entry log {first}; ")
    reports.report()
    assert lines(caplog) == []
    other = first.with_stem("7")
    reports.note(damaged(other))
    assert [str(other) in line for line in lines(caplog)] == [True]


def test_entries_without_a_file_are_reported_too(caplog: pytest.LogCaptureFixture) -> None:
    reports = DamageReports()
    reports.note(damaged(None))
    reports.note(damaged(None))
    reports.report()
    one, more = lines(caplog)
    assert "is damaged" in one and more.startswith("1 more failed read of lost entries; ")


def test_what_others_report_is_left_to_them(first: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An index names itself, limbo is known since the start, and the lack of descriptors is no damage."""
    reports = DamageReports()
    shortage = damaged(first)
    shortage.__cause__ = TooManyFilesError("no descriptor", path=first)
    errors: list[LogStoreError] = [
        StorageError("cannot read index", path=Path("/data/ledgers/index")),
        LimboError("in limbo", ledger_id=1),
        shortage,
    ]
    for error in errors:
        reports.note(error)
    assert reports.failed_reads == 1, "the index's is one, too"
    reports.report()
    assert lines(caplog) == []
