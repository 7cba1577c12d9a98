"""What each page makes of the facts."""

from __future__ import annotations

import json
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bookie_server.disk.disk_limits import DirectoryUsage
from bookie_server.monitoring.facts import (
    BookieFacts,
    ClientFacts,
    GarbageFacts,
    ScrubFacts,
    Stage,
    State,
    StorageFacts,
    state_of,
)
from bookie_server.monitoring.metrics import PREFIX
from bookie_server.monitoring.pages import answer, health_page
from bookie_server.monitoring.request import Request
from bookie_server.storage.ledger_storage import StorageCounts
from bookie_server.storage.scrub.record import ScrubPass
from tests.helpers.repository import ROOT

COUNTS = StorageCounts(
    journal_queued_bytes=1,
    journal_appended_bytes=2,
    journal_groups=3,
    cached_bytes=4,
    entries_added=5,
    checkpoints=6,
    entry_logs=7,
    journal_files=8,
    ledgers_deleted=9,
    files_removed=10,
    compactions=11,
    compacted_bytes=12,
)
STORAGE = StorageFacts(
    in_limbo=False,
    shortage=None,
    directories=[
        DirectoryUsage(directory=Path("/j"), total_bytes=100, free_bytes=10, device=1),
        DirectoryUsage(directory=Path("/l"), total_bytes=200, free_bytes=20, device=1),
        DirectoryUsage(directory=Path("/m"), total_bytes=300, free_bytes=30, device=2),
    ],
    failed_directories={},
    missing_files=13,
    counts=COUNTS,
)
FACTS = BookieFacts(
    state=State.WRITABLE,
    failure=None,
    version="1.2.3",
    uptime_s=14.5,
    bookie="b1:3181",
    cluster="c",
    journal_dir="/j",
    ledger_dirs=["/l", "/m"],
    storage=STORAGE,
    clients=ClientFacts(connections=15, sent_bytes=16, read_requests=17, damaged_reads=18),
    garbage=GarbageFacts(passes=19, failed_passes=20, ledgers_waiting=21),
    scrub=ScrubFacts(
        passes=22,
        current=ScrubPass(began_ms=23_000, blocks=24, damaged_blocks=25),
        last=ScrubPass(began_ms=26_000, ended_ms=27_000, block_bytes=28, index_damaged=True),
    ),
    repair={
        "worker": "w",
        "ledgers_repaired": 29,
        "ledgers_waiting": 30,
        "entries_copied": 31,
        "bytes_copied": 32,
        "ledgers": [{"ledger": 1}, {"ledger": 2}],
    },
)
NOTHING = replace(
    FACTS, state=State.STARTING, storage=None, clients=None, garbage=None, scrub=None, repair=None
)


def samples(facts: BookieFacts) -> dict[str, float]:
    """By name, with the values of its labels, if it has any."""
    text = answer(lambda: facts, Request("GET", "/metrics")).body.decode()
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        for each in family.samples:
            found[" ".join((each.name.removeprefix(PREFIX), *each.labels.values()))] = each.value
    return found


def page(facts: BookieFacts, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer(lambda: facts, Request("GET", path)).body)
    return found


def test_a_path_that_is_no_page_is_not_found_and_collects_nothing() -> None:
    def never() -> BookieFacts:
        raise AssertionError

    assert answer(never, Request("GET", "/")).status is HTTPStatus.NOT_FOUND
    assert answer(never, Request("GET", "/health/")).status is HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("state", State)
def test_a_bookie_is_healthy_while_it_serves_clients(state: State) -> None:
    found = health_page(replace(FACTS, state=state))
    healthy = state in (State.WRITABLE, State.READ_ONLY, State.IN_LIMBO)
    assert found.status == (200 if healthy else 503)
    assert json.loads(found.body) == {"state": state.value, "bookie": "b1:3181"}
    assert samples(replace(FACTS, state=state))["healthy"] == healthy
    assert samples(replace(FACTS, state=state))["writable"] == (state is State.WRITABLE)


def test_health_has_the_reason_why_a_bookie_is_read_only_or_has_failed() -> None:
    full = replace(FACTS, state=State.READ_ONLY, storage=replace(STORAGE, shortage="disk full"))
    assert page(full, "/health")["reason"] == "disk full"
    failed = replace(full, state=State.FAILED, failure="cannot sync")
    assert page(failed, "/health")["reason"] == "cannot sync"


class FakeStorage:
    def __init__(self, *, limbo: bool = False, writable: bool = True) -> None:
        self.limbo = limbo
        self.writable = writable


@pytest.mark.parametrize(
    ("stage", "storage", "failure", "state"),
    [
        (Stage.STARTING, None, None, State.STARTING),
        (Stage.STARTING, FakeStorage(), None, State.STARTING),
        (Stage.SERVING, FakeStorage(), None, State.WRITABLE),
        (Stage.SERVING, FakeStorage(writable=False), None, State.READ_ONLY),
        (Stage.SERVING, FakeStorage(writable=False, limbo=True), None, State.IN_LIMBO),
        (Stage.SERVING, FakeStorage(), OSError(), State.FAILED),
        (Stage.STOPPING, FakeStorage(), None, State.STOPPING),
        (Stage.STOPPING, None, None, State.STOPPING),
        (Stage.STOPPING, FakeStorage(), OSError(), State.FAILED),
    ],
)
def test_the_state_is_of_the_process_and_its_storage(
    stage: Stage, storage: Any, failure: Exception | None, state: State
) -> None:
    assert state_of(stage, storage, failure) is state


def test_each_fact_has_its_metric() -> None:
    assert samples(FACTS) == {
        "info b1:3181 c 1.2.3": 1,
        "healthy": 1,
        "writable": 1,
        "uptime_seconds": 14.5,
        "in_limbo": 0,
        "missing_files": 13,
        "directory_size_bytes /j": 100,
        "directory_size_bytes /l": 200,
        "directory_size_bytes /m": 300,
        "directory_free_bytes /j": 10,
        "directory_free_bytes /l": 20,
        "directory_free_bytes /m": 30,
        "directory_failed /j": 0,
        "directory_failed /l": 0,
        "directory_failed /m": 0,
        "journal_queued_bytes": 1,
        "journal_appended_bytes_total": 2,
        "journal_groups_total": 3,
        "cached_bytes": 4,
        "added_entries_total": 5,
        "checkpoints_total": 6,
        "entry_logs": 7,
        "journal_files": 8,
        "deleted_ledgers_total": 9,
        "removed_files_total": 10,
        "compactions_total": 11,
        "compacted_bytes_total": 12,
        "connections": 15,
        "response_bytes_total": 16,
        "read_requests_total": 17,
        "damaged_reads_total": 18,
        "garbage_collections_total": 19,
        "garbage_collection_failures_total": 20,
        "deletable_ledgers": 21,
        "scrub_passes_total": 22,
        "scrub_start_timestamp_seconds current": 23,
        "scrub_start_timestamp_seconds last": 26,
        "scrub_blocks current": 24,
        "scrub_blocks last": 0,
        "scrub_bytes current": 0,
        "scrub_bytes last": 28,
        "scrub_damaged_blocks current": 25,
        "scrub_damaged_blocks last": 0,
        "scrub_unindexed_blocks current": 0,
        "scrub_unindexed_blocks last": 0,
        "scrub_restored_blocks current": 0,
        "scrub_restored_blocks last": 0,
        "scrub_index_damaged current": 0,
        "scrub_index_damaged last": 1,
        "scrub_last_end_timestamp_seconds": 27,
        "repaired_ledgers_total": 29,
        "repair_waiting_ledgers": 30,
        "repair_current_ledgers": 2,
        "repair_copied_entries": 31,
        "repair_copied_bytes": 32,
    }


def test_what_a_bookie_does_not_have_is_left_out() -> None:
    assert set(samples(NOTHING)) == {"info b1:3181 c 1.2.3", "healthy", "writable", "uptime_seconds"}
    before_checkpoint = replace(COUNTS, entry_logs=None, journal_files=None)
    unchecked = samples(replace(FACTS, storage=replace(STORAGE, counts=before_checkpoint)))
    assert set(samples(FACTS)) - set(unchecked) == {"entry_logs", "journal_files"}


def test_a_failed_directory_is_one_even_if_its_last_measurement_is_still_there() -> None:
    found = samples(replace(FACTS, storage=replace(STORAGE, failed_directories={"/m": "EIO"})))
    failed = {name: value for name, value in found.items() if name.startswith("directory_failed")}
    assert failed == {"directory_failed /j": 0, "directory_failed /l": 0, "directory_failed /m": 1}


def test_a_name_with_quotes_and_newlines_is_still_one_label() -> None:
    strange = DirectoryUsage(directory=Path('/a "b"\\\nc'), total_bytes=1, free_bytes=1, device=1)
    found = samples(replace(FACTS, storage=replace(STORAGE, directories=[strange])))
    assert found['directory_failed /a "b"\\\nc'] == 0


def test_the_state_begins_with_what_bookie_info_has_and_has_all_facts() -> None:
    found = page(FACTS, "/state")
    info = (
        "bookie",
        "cluster",
        "journal_dir",
        "ledger_dir",
        "failed_ledger_dir",
        "state",
        "in_limbo",
        "total_bytes",
        "free_bytes",
        "repair",
    )
    assert tuple(found)[: len(info)] == info
    assert (found["ledger_dir"], found["failed_ledger_dir"]) == ("/l, /m", None)
    assert (found["total_bytes"], found["free_bytes"]) == (500, 50)
    failed = page(replace(FACTS, storage=replace(STORAGE, failed_directories={"/m": "EIO"})), "/state")
    assert (failed["ledger_dir"], failed["failed_ledger_dir"], failed["free_bytes"]) == ("/l", "/m", 20)
    assert found["storage"]["directories"][2] == {"directory": "/m", "total_bytes": 300, "free_bytes": 30}
    assert found["storage"]["counts"]["entries_added"] == 5
    assert found["scrub"]["last"]["index_damaged"] is True
    starting = page(NOTHING, "/state")
    assert starting["state"] == "starting" and starting["storage"] is None and set(starting) == set(found)


def test_the_documentation_has_each_metric() -> None:
    names = {name.partition(" ")[0] for name in samples(FACTS)}
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    section = text.partition("## Health and metrics\n")[2].partition("\n## ")[0]
    assert [name for name in sorted(names) if f"`{name}" not in section] == []
