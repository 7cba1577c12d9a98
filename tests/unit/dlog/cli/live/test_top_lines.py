"""What of `dlog top` is on a screen: what is damaged, the busiest logs, and how many more there are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dlog.admin import LogInfo
from dlog.cli.describe.activity import TOP_COLUMNS
from dlog.cli.live.top_lines import all_lines, lines_that_fit
from dlog.cli.live.view import Size
from dlog.inspection.activity import LogActivity
from dlog.ledger_list.totals import totals_of
from dlog.metadata.log_ref import LogRef
from dlog.model import LogName, MessageId
from tests.helpers.log.records import ALICE, listed, record

CLUSTER = "cluster 3a9e125c-514f-42c5-829c-b1b6e6795ac8: 3 bookies writable"


def name(log: str) -> LogName:
    return LogName(namespace="default", name=log)


def activity(log: str, entries_per_s: float) -> LogActivity:
    info = LogInfo(ref=LogRef(name(log), "uuid-1"), record=record(listed(3)), version=7)
    return LogActivity(info, totals_of((), ()), MessageId(3, 7, 0), entries_per_s, None)


FOUND = [activity(f"many-{number:02}", 100 - number) for number in range(45)]
DAMAGED = {name("broken"): "the record has a wrong checksum"}


def test_what_is_damaged_is_above_the_logs_and_those_that_do_not_fit_are_counted() -> None:
    lines = lines_that_fit(CLUSTER, FOUND, DAMAGED, Size(100, 26))
    assert len(lines) == 26 and max(map(len, lines)) <= 100
    assert lines[:3] == [CLUSTER, "log default/broken: the record has a wrong checksum", ""]
    assert lines[3].split()[:3] == ["log", "state", "entries/s"]
    assert [line.split()[0] for line in lines[4:-1]] == [f"default/many-{number:02}" for number in range(21)]
    assert lines[-1] == "… 25 more logs"


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_narrow_screen_has_fewer_columns_and_as_many_logs(width: int) -> None:
    lines = lines_that_fit(CLUSTER, FOUND, {}, Size(width, 24))
    assert len(lines) == 24 and max(map(len, lines)) <= width
    assert sum(line.startswith("default/many-") for line in lines) >= 17
    columns = next(line for line in lines if line.startswith("log")).split()
    assert tuple(columns) == TOP_COLUMNS[: {20: 1, 40: 3, 80: 7}[width]]


def test_on_80_columns_there_is_the_owner() -> None:
    """Its name and host need the most space, and it is what a person looks for."""
    owned = replace(FOUND[0], info=replace(FOUND[0].info, record=replace(FOUND[0].info.record, owner=ALICE)))
    lines = lines_that_fit(CLUSTER, [owned], {}, Size(80, 24))
    assert any(f"@{ALICE.host}" in line for line in lines)


def test_no_log_is_counted_if_all_fit() -> None:
    lines = lines_that_fit(CLUSTER, FOUND[:21], {}, Size(100, 24))
    assert len(lines) == 24 and lines[-1].startswith("default/many-20 ")
    lines = lines_that_fit(CLUSTER, FOUND[:22], {}, Size(100, 24))
    assert len(lines) == 24 and lines[-1] == "… 2 more logs"


def test_many_damaged_logs_leave_half_of_the_screen_to_the_others() -> None:
    damaged = {name(f"broken-{number:02}"): "the record has a wrong checksum" for number in range(40)}
    lines = lines_that_fit(CLUSTER, FOUND, damaged, Size(100, 24))
    assert len(lines) == 24
    assert lines[12] == "… 29 more damaged"
    assert sum(line.startswith("default/many-") for line in lines) == 8
    assert lines[-1] == "… 77 more logs"


@pytest.mark.parametrize("height", range(1, 6))
def test_a_very_low_screen_is_no_error(height: int) -> None:
    assert lines_that_fit(CLUSTER, FOUND, DAMAGED, Size(5, height))


def test_without_a_screen_there_is_everything() -> None:
    lines = all_lines(CLUSTER, FOUND, DAMAGED, None)
    assert len(lines) == 1 + 1 + 1 + 46 + 2
    assert lines[-1] == "log default/broken: the record has a wrong checksum"
