"""`bookie read-log` prints what stays in journal files, too."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bookie_server.tools.cli import app
from tests.helpers.bookie.cookies import write_cookies
from tests.helpers.bookie.storage import KEY, add, open_storage


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A bookie that wrote a large run of ledger 1 once, so that it stays in the journal, and a single entry of 2."""

    async def write() -> None:
        storage = await open_storage(tmp_path, single_write_bytes_min=1000)
        await add(storage, storage.create_ledger(1, KEY), range(300))
        await add(storage, storage.create_ledger(2, KEY), [0])
        await storage.checkpoint()
        await storage.close()

    asyncio.run(write())
    write_cookies(tmp_path)
    return tmp_path


def rows(*arguments: str) -> list[dict[str, object]]:
    done = CliRunner().invoke(app, [*arguments, "-o", "json"])
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_all_entries_of_a_ledger_are_shown_wherever_they_stay(data: Path) -> None:
    found = rows("read-log", "--data", str(data), "--ledger", "1")
    assert [row["entry"] for row in found] == list(range(300))
    assert {str(row["log"]).partition(".")[2] for row in found} == {"journal"}
    [other] = rows("read-log", "--data", str(data), "--ledger", "2")
    assert other["log"] == "0000000000000001.log"
    assert rows("read-log", str(found[0]["log"]), "--data", str(data)) == found


@pytest.mark.parametrize("mark", [None, b"not a mark"])
def test_the_log_mark_is_not_needed(data: Path, mark: bytes | None) -> None:
    path = data / "ledgers" / "log-mark"
    path.unlink()
    if mark is not None:
        path.write_bytes(mark)
    assert len(rows("read-log", "--data", str(data))) == 301


def test_damage_of_a_journal_file_is_shown(data: Path) -> None:
    found = rows("read-log", "--data", str(data), "--ledger", "1")
    first, second = sorted({int(str(row["offset"])) for row in found})[:2]
    path = data / "journal" / str(found[0]["log"])
    (content := bytearray(path.read_bytes()))[second - 1] ^= 1
    path.write_bytes(content)
    after = rows("read-log", "--data", str(data), "--ledger", "1")
    assert after == [
        {"log": path.name, "offset": first, "damaged_bytes": second - first},
        *(row for row in found if row["offset"] != first),
    ]


def test_a_journal_file_that_is_not_there_is_named(data: Path) -> None:
    done = CliRunner().invoke(app, ["read-log", "0000000000000007.journal", "--data", str(data)])
    assert done.exit_code == 1 and "0000000000000007.journal" in done.stderr


def test_the_journal_is_listed_for_one_ledger(data: Path) -> None:
    everything = rows("read-journal", "--data", str(data))
    mine = rows("read-journal", "--data", str(data), "--ledger", "2")
    assert mine == [row for row in everything if "ledger 2" in str(row["detail"])] != []
