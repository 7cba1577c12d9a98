"""`bookie placement` on real bookies in two racks, one of which says nothing of itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bookie_server.tools.admin import init_cluster
from ledger.model import LedgerId, QuorumSizes
from tests.helpers.ledger.appender import client_of
from tests.helpers.processes.bookie import BookieProcess, run_bookie

pytestmark = pytest.mark.integration


class Racks:
    """Bookies at /z1/r1, /z1/r1, /z2/r2 and at none, and a ledger on three of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.uri = f"sqlite:///{directory}/meta.db"
        init_cluster(self.uri)
        locations: list[dict[str, Any]] = [
            {"network_location": "/z1/r1"},
            {"network_location": "/z1/r1"},
            {"network_location": "/z2/r2"},
            {},
        ]
        self.bookies = [
            BookieProcess(self.uri, directory / f"bookie-{number}", **settings)
            for number, settings in enumerate(locations)
        ]
        for each in self.bookies:
            each.start()
        self.ids = [f"127.0.0.1:{each.port}" for each in self.bookies]

    def stop(self) -> None:
        for each in self.bookies:
            each.stop()

    def run(self, *arguments: str, code: int = 0) -> tuple[Any, str]:
        """What it prints as JSON, and to stderr."""
        done = run_bookie("placement", "--metadata", self.uri, "-o", "json", *arguments)
        assert done.returncode == code, (done.stdout, done.stderr)
        return json.loads(done.stdout) if done.stdout else None, done.stderr

    def write(self) -> LedgerId:
        async def main() -> LedgerId:
            async with client_of(self.uri) as client:
                handle = await client.create(QuorumSizes())
                await handle.close()
                return handle.ledger_id

        return asyncio.run(main())


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Racks]:
    made = Racks(tmp_path_factory.mktemp("racks"))
    yield made
    made.stop()


def test_it_shows_where_each_bookie_is_and_what_could_be_chosen(racks: Racks) -> None:
    report, _ = racks.run()
    rows = {row["bookie"]: row for row in report["bookies"]}
    assert [rows[each]["location"] for each in racks.ids] == ["/z1/r1", "/z1/r1", "/z2/r2", None]
    assert all(row["free_bytes"] > 0 and row["may_be_chosen"] == "yes" for row in rows.values())
    assert len({*report["ensemble"]} & {*racks.ids}) == 3
    done = run_bookie("placement", "--metadata", racks.uri)
    assert done.returncode == 0 and "/z2/r2" in done.stdout and "may be chosen" in done.stdout


def test_enforcement_and_exclusion_leave_bookies_out(racks: Racks) -> None:
    report, _ = racks.run("--enforce")
    reasons = {row["bookie"]: row["may_be_chosen"] for row in report["bookies"]}
    assert reasons[racks.ids[3]] == "no: its location is not known"
    assert {*report["ensemble"]} == {*racks.ids[:3]} and report["spread"] == "spread"
    report, said = racks.run("--enforce", "--exclude", racks.ids[2], code=1)
    reasons = {row["bookie"]: row["may_be_chosen"] for row in report["bookies"]}
    assert reasons[racks.ids[2]] == "no: excluded" and report["ensemble"] is None
    assert "must span 2 racks" in said and said.count("\n") == 1
    _, said = racks.run("--exclude", racks.ids[0], "--exclude", racks.ids[1], code=1)
    assert "needs 3 writable bookies and 4 are registered, of which 2 are left" in said


def test_an_excluded_id_that_the_cluster_does_not_know_is_refused(racks: Racks) -> None:
    """A mistyped id would show an ensemble with the bookie that is to be left out. One that is stopped is known."""
    report, said = racks.run("--exclude", racks.ids[0], "--exclude", "127.0.0.1:1", code=1)
    assert report is None and "bookie 127.0.0.1:1, which is to be excluded, is not registered" in said
    racks.bookies[0].stop()
    try:
        report, _ = racks.run("--exclude", racks.ids[0])
        assert racks.ids[0] not in report["ensemble"]
    finally:
        racks.bookies[0].start()


def test_a_mapping_file_says_where_the_others_are(racks: Racks) -> None:
    file = racks.directory / "racks"
    file.write_text(f"{racks.ids[3]} /z3/r3\n")
    report, _ = racks.run("--rack-mapping", str(file), "--racks", "3", "--zones", "3", "--enforce")
    assert {racks.ids[2], racks.ids[3]} < {*report["ensemble"]}
    settings = racks.directory / "settings.toml"
    settings.write_text(f'[placement]\nmapping_file = "{file}"\nzones_min = 3\n')
    report, _ = racks.run("--config", str(settings))
    locations = {row["bookie"]: row["location"] for row in report["bookies"]}
    assert report["zones_min"] == 3 and locations[racks.ids[3]] == "/z3/r3"


def test_ledgers_in_too_few_racks_are_counted_and_not_moved(racks: Racks) -> None:
    ledger_id = racks.write()
    file = racks.directory / "one-rack"
    file.write_text("127.0.0.1 /r\n")
    report, said = racks.run("--ledgers", "--rack-mapping", str(file), code=1)
    assert report["narrow"][0]["ledger"] == ledger_id and report["narrow"][0]["racks"] == 1
    assert (report["checked_ledgers"], report["narrow_ledgers"], report["unknown_ledgers"]) == (1, 1, 0)
    assert "1 ledger has write quorums in fewer than 2 racks or 1 zones" in said
    again, _ = racks.run("--ledgers", "--rack-mapping", str(file), code=1)
    assert again["narrow"] == report["narrow"]
    report, _ = racks.run("--ledgers", "--racks", "1")
    assert report["narrow"] == []


@pytest.mark.parametrize(
    "verb", [("placement",), ("recover", "b1"), ("decommission", "b1"), ("autorecovery",)]
)
def test_a_mapping_file_with_nonsense_is_one_sentence(racks: Racks, verb: tuple[str, ...]) -> None:
    file, settings = racks.directory / "nonsense", racks.directory / "nonsense.toml"
    file.write_text("b1 /r1\nb2 everywhere\n")
    settings.write_text(f'[placement]\nmapping_file = "{file}"\n')
    done = run_bookie(*verb, "--metadata", racks.uri, "--config", str(settings))
    assert done.returncode == 2 and done.stdout == ""
    assert f"line 2 of mapping file {file}: location 'everywhere' is not valid" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_decommission_that_leaves_too_few_bookies_is_refused_and_changes_nothing(racks: Racks) -> None:
    ledger_id = racks.write()

    async def members() -> tuple[str, ...]:
        async with client_of(racks.uri) as client:
            return (await client.store.read_ledger(ledger_id)).value.last_fragment.ensemble

    before = asyncio.run(members())
    stopped = [each for each in racks.bookies if f"127.0.0.1:{each.port}" in before[:2]]
    for each in stopped:
        assert each.terminate() == 0
    done = run_bookie("decommission", before[0], "--metadata", racks.uri)
    assert done.returncode == 1 and done.stdout == ""
    assert (
        "needs 3 bookies and 2 are left without" in done.stderr and "start another one first" in done.stderr
    )
    assert asyncio.run(members()) == before
    for each in stopped:
        each.start()  # its cookie is still there
