"""The verbs of repair on a cluster of real bookies that loses one."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledger.inspection.copies import CopyState
from ledger.inspection.copy_audit import CopyAudit
from ledger.printing import utc
from tests.helpers.processes.bookie import BookieProcess, eventually, run_bookie
from tests.helpers.processes.four_bookies import ENTRIES, FourBookies
from tests.helpers.repository import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[FourBookies]:
    made = FourBookies(tmp_path)
    yield made
    made.stop()


def test_what_a_lost_bookie_had_is_copied_by_hand(place: FourBookies) -> None:
    ledgers = [place.write() for _ in range(3)]
    lost = place.kill_member(ledgers[0])
    named = [each for each in ledgers if lost in place.metadata(each).members()]
    looked = place.run("recover", lost, "--dry-run")
    assert f"{lost} is to be replaced" in looked.stderr
    assert all(lost in place.metadata(each).members() for each in named)
    facts = place.json("recover", lost)
    assert facts["ledgers"] == len(named) and facts["entries_copied"] == ENTRIES * len(named)
    for each in ledgers:
        assert lost not in place.metadata(each).members()
        assert place.is_complete(each)
    assert place.json("recover", lost)["ledgers"] == 0


def test_one_ledger_of_a_lost_bookie_is_copied_and_the_others_are_left(place: FourBookies) -> None:
    ledgers = [place.write() for _ in range(4)]
    lost = place.kill_member(*ledgers[:2])
    named = [each for each in ledgers if lost in place.metadata(each).members()]
    first, *others = named
    assert others
    for way in ((), ("--dry-run",)):
        refused = place.run("recover", lost, "--ledger", "99", *way, code=1)
        assert "ledger 99 does not exist" in refused.stderr and refused.stdout == ""
    mistyped = place.run("recover", "127.0.0.1:1", "--ledger", str(first), code=1)
    assert f"ledger {first} does not name it" in mistyped.stderr
    assert place.json("recover", lost, "--ledger", str(first), "--dry-run")["ledgers"] == 1
    facts = place.json("recover", lost, "--ledger", str(first))
    assert (facts["ledgers"], facts["entries_copied"]) == (1, ENTRIES)
    assert [lost in place.metadata(each).members() for each in named] == [False, *(True for _ in others)]
    assert place.is_complete(first)
    assert place.json("recover", lost, "--ledger", str(first))["ledgers"] == 0


def damage(bookie: BookieProcess, payload: bytes) -> None:
    """Flip a bit of an entry on the bookie's disk; the bookie runs again afterwards."""
    assert bookie.terminate() == 0  # what it has is in entry logs then, or stays in the journal
    entry_logs, journal = bookie.data / "ledgers" / "entry-logs", bookie.data / "journal"
    [path, offset] = next(
        (path, at)
        for path in (*entry_logs.glob("*.log"), *journal.glob("*.journal"))
        if (at := path.read_bytes().find(payload)) >= 0
    )
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(bytes([payload[0] ^ 1]))
    bookie.start()


def test_a_damaged_copy_is_not_copied_and_is_replaced(place: FourBookies) -> None:
    ledger = place.write()
    ensemble = place.metadata(ledger).last_fragment.ensemble
    rotten, lost = (
        next(each for each in place.bookies if bookie_id.endswith(f":{each.port}"))
        for bookie_id in ensemble[:2]
    )
    damage(rotten, b"150" * 100)
    found = place.json("check-copies", "--full", code=1)
    assert [(row["ledger"], row["missing"]) for row in found] == [(ledger, [ensemble[0]])]
    lost.kill()
    place.json("recover", ensemble[1])
    spare = next(each for each in place.metadata(ledger).last_fragment.ensemble if each not in ensemble)

    async def copy() -> CopyState:
        async with place.ledgers() as client:
            metadata = (await client.store.read_ledger(ledger)).value
            audit = CopyAudit(client)
            found = await audit.copies(ledger, metadata, 150, 150)
            await audit.close()
            assert found[150][ensemble[0]].state is CopyState.DAMAGED
            return found[150][spare].state

    assert asyncio.run(copy()) is CopyState.INTACT


def test_a_running_bookie_is_not_recovered(place: FourBookies) -> None:
    bookie_id = f"127.0.0.1:{place.bookies[0].port}"
    assert "is registered and writable: stop it first" in place.run("recover", bookie_id, code=1).stderr
    assert "is registered: stop it first" in place.run("decommission", bookie_id, code=1).stderr


def test_a_bookie_that_the_cluster_does_not_know_is_refused(place: FourBookies) -> None:
    """A mistyped id must not look like a bookie that may be taken away."""
    for verb in (("recover",), ("recover", "--dry-run"), ("decommission",)):
        refused = place.run(*verb, "127.0.0.1:1", code=1)
        assert "knows no bookie 127.0.0.1:1" in refused.stderr and refused.stdout == ""


def test_an_open_ledger_is_closed_after_its_grace_or_left_alone(place: FourBookies) -> None:
    ledger = place.write(close=False)
    lost = place.kill_member(ledger)
    left = place.run("recover", lost, "--skip-open", code=1)
    assert "1 of 1 ledgers still depend on bookie" in left.stderr
    assert not place.metadata(ledger).closed
    place.run("recover", lost, "--grace", "0")
    assert place.metadata(ledger).closed and place.is_complete(ledger)


def test_a_decommissioned_bookie_is_forgotten(place: FourBookies) -> None:
    ledger = place.write()
    lost = place.kill_member(ledger)
    assert place.json("decommission", lost)["ledgers"] == 1
    assert place.is_complete(ledger)

    async def cookies() -> list[str]:
        async with place.ledgers() as client:
            return list(await client.store.list_cookies())

    assert lost not in asyncio.run(cookies())
    assert f"knows no bookie {lost}" in place.run("decommission", lost, code=1).stderr
    [bookie] = [each for each in place.bookies if lost.endswith(f":{each.port}")]
    data = ("--metadata", place.uri, "--data", str(bookie.data))
    returned = run_bookie("start", *data, "--port", str(bookie.port))
    assert returned.returncode == 2 and "it was decommissioned" in returned.stderr
    assert run_bookie("format", *data, "--yes").returncode == 0
    bookie.start()
    bookie.kill()
    other = place.kill_member(ledger)
    refused = place.run("decommission", other, code=1)
    assert "needs 3 bookies and 2 are left without" in refused.stderr


def test_copies_are_checked_and_marked(place: FourBookies) -> None:
    ledger = place.write()
    assert place.json("check-copies", "--full") == []
    assert place.run("check-copies", "--full").stdout == "1 ledger checked: no copy is missing\n"
    lost = place.kill_member(ledger)
    found = place.json("check-copies", code=1)
    assert [(row["ledger"], row["missing"]) for row in found] == [(ledger, [lost])]
    assert place.json("under-replicated") == []
    place.run("check-copies", "--mark", code=1)
    marked = place.json("under-replicated")
    assert [(row["ledger"], row["missing"], row["repaired_by"]) for row in marked] == [(ledger, [lost], None)]
    [columns, shown] = place.run("under-replicated").stdout.splitlines()
    assert columns.split() == ["ledger", "missing", "marked", "repaired", "by"]
    assert shown.split() == [str(ledger), lost, utc(marked[0]["marked_ms"]), "-"]


def test_settings_are_shown_and_changed(place: FourBookies) -> None:
    before = place.json("repair-settings")
    assert before["enabled"] and before["lost_bookie_delay_s"] is None and before["auditor"] is None
    after = place.json("repair-settings", "--disable", "--lost-bookie-delay", "7")
    assert not after["enabled"] and after["lost_bookie_delay_s"] == 7
    assert place.json("repair-settings", "--enable")["enabled"]


@contextmanager
def started(place: FourBookies) -> Iterator[subprocess.Popen[str]]:
    """Killed at the end if it still runs, also when the test fails."""
    command = [sys.executable, "-m", "bookie_server", "autorecovery", "--lost-bookie-delay", "0"]
    with subprocess.Popen(
        [*command, "--metadata", place.uri],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_worker_writes_damaged_copies_again_where_they_were(place: FourBookies) -> None:
    ledger = place.write()
    member = place.metadata(ledger).last_fragment.ensemble[0]
    damage(next(each for each in place.bookies if member.endswith(f":{each.port}")), b"150" * 100)
    place.run("check-copies", "--full", "--mark", code=1)
    with started(place) as process:
        eventually(lambda: place.json("under-replicated") == [])
        process.terminate()
        process.communicate(timeout=30)
    assert member == place.metadata(ledger).last_fragment.ensemble[0]
    assert place.is_complete(ledger)


def test_a_bookie_runs_auditor_and_worker_if_it_is_told_to(place: FourBookies) -> None:
    ledger = place.write()
    outside = next(
        each
        for each in place.bookies
        if f"127.0.0.1:{each.port}" not in place.metadata(ledger).last_fragment.ensemble
    )
    assert outside.terminate() == 0
    outside.settings = {"autorecovery": True, "repair": {"lost_bookie_delay_s": 0, "poll_s": 1}}
    outside.start()
    lost = place.kill_member(ledger)
    eventually(lambda: lost not in place.metadata(ledger).members())
    assert place.is_complete(ledger)
    assert outside.terminate() == 0


def test_autorecovery_repairs_by_itself(place: FourBookies) -> None:
    ledgers = [place.write() for _ in range(3)]
    with started(place) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("autorecovery ") and ready.endswith(" is ready\n")
        lost = place.kill_member(ledgers[0])
        eventually(lambda: all(lost not in place.metadata(each).members() for each in ledgers))
        eventually(lambda: place.json("under-replicated") == [])
        assert place.json("repair-settings")["auditor"] in ready
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 0
    assert f"bookies {lost} are lost" in errors
    assert f"ledger {ledgers[0]}: copied {ENTRIES} entries from {lost} to " in errors
    assert all(place.is_complete(each) for each in ledgers)
