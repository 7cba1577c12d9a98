"""Offline commands that are given the journal of one bookie and the ledgers of another, as by a typing error."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bookie_server.cookie import COOKIE_FILE
from bookie_server.tools.cli import app
from tests.helpers.bookie.cookies import write_cookies
from tests.helpers.bookie.storage import KEY, add, copy_as_after_kill, open_storage

pytestmark = pytest.mark.integration

READING = [
    ["info"],
    ["read-journal"],
    ["read-log"],
    ["read-ledger", "1"],
    ["space"],
    ["scrub"],
    ["compact", "--dry-run"],
]
CHANGING = [["compact"], ["rebuild-index"]]


def make_bookie(home: Path, bookie_id: str) -> None:
    """What a bookie that was killed leaves: entries in an entry log, and others in the journal only."""

    async def write() -> None:
        storage = await open_storage(home.with_name("running"))
        ledger = storage.create_ledger(1, KEY)
        await add(storage, ledger, range(50))
        await storage.checkpoint()
        await add(storage, ledger, range(50, 100))
        copy_as_after_kill(home.with_name("running"), home)
        await storage.close()

    asyncio.run(write())
    home.with_name("running").rename(home.with_name(f"{home.name} as it ran"))
    write_cookies(home, bookie_id)


def files_of(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and path.name != "lock"}


def run(command: list[str], journal: Path, ledgers: Path) -> Result:
    return CliRunner().invoke(app, [*command, "--journal-dir", str(journal), "--ledger-dir", str(ledgers)])


@pytest.fixture
def bookies(tmp_path: Path) -> tuple[Path, Path]:
    first, second = tmp_path / "first", tmp_path / "second"
    make_bookie(first, "127.0.0.1:3181")
    make_bookie(second, "127.0.0.1:3182")
    return first, second


@pytest.mark.parametrize("command", [*READING, *CHANGING], ids=" ".join)
def test_directories_of_two_bookies_are_refused_and_stay_as_they_are(
    bookies: tuple[Path, Path], command: list[str]
) -> None:
    first, second = bookies
    before = files_of(first), files_of(second)
    refused = run(command, first / "journal", second / "ledgers")
    assert refused.exit_code == 2, refused.output
    assert "127.0.0.1:3181" in refused.stderr and "127.0.0.1:3182" in refused.stderr
    assert "different bookies" in refused.stderr
    assert (files_of(first), files_of(second)) == before


@pytest.mark.parametrize("command", [*READING, *CHANGING], ids=" ".join)
def test_exchanged_directories_are_refused(bookies: tuple[Path, Path], command: list[str]) -> None:
    first, _ = bookies
    before = files_of(first)
    refused = run(command, first / "ledgers", first / "journal")
    assert refused.exit_code == 2, refused.output
    assert "cookie of the ledger directory" in refused.stderr
    assert files_of(first) == before


@pytest.mark.parametrize("missing", ["journal", "ledgers"])
@pytest.mark.parametrize("command", CHANGING, ids=" ".join)
def test_a_directory_without_a_cookie_is_not_changed(
    bookies: tuple[Path, Path], command: list[str], missing: str
) -> None:
    """It may be of another bookie."""
    first, second = bookies
    (second / missing / COOKIE_FILE).unlink()
    before = files_of(first), files_of(second)
    places = {"journal": first / "journal", "ledgers": first / "ledgers", missing: second / missing}
    refused = run(command, places["journal"], places["ledgers"])
    assert refused.exit_code == 2, refused.output
    assert f"{second / missing} has no cookie" in refused.stderr
    assert (files_of(first), files_of(second)) == before


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_bookie_that_has_lost_its_cookies_is_still_read(
    bookies: tuple[Path, Path], command: list[str]
) -> None:
    first, _ = bookies
    for name in ("journal", "ledgers"):
        (first / name / COOKIE_FILE).unlink()
    done = run(command, first / "journal", first / "ledgers")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("command", CHANGING, ids=" ".join)
def test_the_directories_of_one_bookie_are_changed(bookies: tuple[Path, Path], command: list[str]) -> None:
    first, _ = bookies
    done = run(command, first / "journal", first / "ledgers")
    assert done.exit_code == 0, done.output
    read = run(["read-ledger", "1", "-o", "json"], first / "journal", first / "ledgers")
    assert len(read.stdout.splitlines()) == 100
