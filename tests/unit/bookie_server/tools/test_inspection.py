"""What `bookie` prints of a stopped bookie whose journal is damaged, or whose index is lost."""

from __future__ import annotations

import asyncio
import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bookie_server.disk.durable import until_durable
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.tools.cli import app
from bookie_server.tools.inspection import FoundRecord, journal_records
from tests.helpers.bookie.cookies import write_cookies
from tests.helpers.bookie.storage import KEY, add, copy_as_after_kill, open_storage


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Directories of a bookie that was killed with ledgers 1 to 3 in its journal, entry by entry in groups."""
    data = tmp_path / "killed"

    async def write() -> None:
        storage = await open_storage(tmp_path / "bookie")
        for ledger_id in (1, 2, 3):
            ledger = storage.create_ledger(ledger_id, KEY)
            for entry_id in range(4):
                await add(storage, ledger, [entry_id])
        copy_as_after_kill(tmp_path / "bookie", data)
        await storage.close()

    asyncio.run(write())
    write_cookies(data)
    return data


def records(data: Path) -> list[FoundRecord]:
    return list(journal_records(SystemDisk(), data / "journal"))


def damage(record: FoundRecord) -> None:
    """Flip a bit of its body."""
    with record.path.open("r+b") as file:
        file.seek(record.next_offset - 1)
        byte = file.read(1)
        file.seek(record.next_offset - 1)
        file.write(bytes([byte[0] ^ 1]))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "-o", "json"])


def rows(done: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_journal_is_read_on_after_damage_which_is_shown(killed: Path) -> None:
    intact = rows(run("read-journal", "--data", str(killed)))
    found = records(killed)
    damage(found[4])
    done = run("read-journal", "--data", str(killed))
    assert done.exit_code == 0
    assert rows(done) == [
        *intact[:4],
        {
            "file": found[4].path.name,
            "offset": found[4].offset,
            "damaged_bytes": found[5].offset - found[4].offset,
        },
        *intact[5:],
    ]


def test_a_ledger_is_read_on_after_damage_and_the_command_fails(killed: Path) -> None:
    damaged = records(killed)[2]
    damage(damaged)
    for ledger_id, entry_ids in ((1, [0, 2, 3]), (3, [0, 1, 2, 3])):
        done = run("read-ledger", str(ledger_id), "--data", str(killed))
        assert [row["entry"] for row in rows(done)] == entry_ids
        assert done.exit_code == 1
        assert f"journal file {damaged.path} is damaged at offset {damaged.offset}" in done.stderr
        assert f"entries of ledger {ledger_id} may be missing here" in done.stderr
    unknown = run("read-ledger", "7", "--data", str(killed))
    assert unknown.exit_code == 1 and "was never" not in unknown.stderr


@pytest.mark.parametrize("has_stored", [True, False], ids=["stored", "journaled"])
@pytest.mark.parametrize("ending", ["killed", "stopped"])
def test_a_deleted_ledger_is_not_read(tmp_path: Path, ending: str, has_stored: bool) -> None:
    """Its entries may be in the index until a checkpoint, and in the journal."""

    async def write() -> None:
        storage = await open_storage(tmp_path / "stopped")
        ledger = storage.create_ledger(1, KEY)
        await add(storage, ledger, [0])
        if has_stored:
            await storage.checkpoint()
        assert await until_durable(partial(storage.delete_ledger, 1)) is None
        copy_as_after_kill(tmp_path / "stopped", tmp_path / "killed")
        await storage.close()

    asyncio.run(write())
    write_cookies(tmp_path / ending)
    done = run("read-ledger", "1", "--data", str(tmp_path / ending))
    assert done.exit_code == 1 and not done.stdout
    assert "ledger 1 is deleted" in done.stderr


def test_ledgers_after_damage_are_listed_and_the_command_fails(killed: Path) -> None:
    damaged = records(killed)[2]
    damage(damaged)
    done = run("info", "--data", str(killed))
    assert json.loads(done.stdout)["ledgers"] == [1, 2, 3]
    assert done.exit_code == 1 and f"is damaged at offset {damaged.offset}" in done.stderr


def test_a_torn_tail_is_no_damage(killed: Path) -> None:
    """Nothing in it was acknowledged."""
    *before, last = records(killed)
    damage(last)
    assert len(rows(run("read-journal", "--data", str(killed)))) == len(before)
    done = run("read-ledger", "3", "--data", str(killed))
    assert (done.exit_code, [row["entry"] for row in rows(done)]) == (0, [0, 1, 2])


def test_files_without_a_header_are_passed_over(tmp_path: Path) -> None:
    data = tmp_path / "killed"

    async def write() -> None:
        storage = await open_storage(tmp_path / "bookie", write_cache_bytes_max=2**24)
        ledger = storage.create_ledger(1, KEY)
        for entry_id in range(0, 3000, 100):
            await add(storage, ledger, range(entry_id, entry_id + 100))
        copy_as_after_kill(tmp_path / "bookie", data)
        await storage.close()

    asyncio.run(write())
    write_cookies(data)
    _, second, _, *_ = sorted({each.path for each in records(data)})
    (header := bytearray(second.read_bytes()))[20] ^= 1
    second.write_bytes(header)
    found = rows(run("read-journal", "--data", str(data)))
    assert [row for row in found if "damaged_bytes" in row] == [
        {"file": second.name, "offset": 0, "damaged_bytes": second.stat().st_size}
    ]
    second.unlink()
    done = run("read-ledger", "1", "--data", str(data))
    assert rows(done)[-1]["entry"] == 2999
    assert (
        done.exit_code == 1 and f"journal file {second} is damaged at offset 0 (it is missing)" in done.stderr
    )


@pytest.mark.parametrize(
    "command",
    [["scrub"], ["read-ledger", "1"], ["info"], ["space"], ["compact", "--dry-run"]],
    ids=lambda command: command[0],
)
def test_a_lost_index_is_not_taken_for_an_empty_one(tmp_path: Path, command: list[str]) -> None:
    """Nor is one made, which would say that nothing is stored here."""

    async def write() -> None:
        storage = await open_storage(tmp_path)
        await add(storage, storage.create_ledger(1, KEY), range(4))
        await storage.close()

    asyncio.run(write())
    write_cookies(tmp_path)
    index = tmp_path / "ledgers" / "index"
    shutil.rmtree(index)
    done = run(*command, "--data", str(tmp_path))
    assert done.exit_code != 0
    assert done.stdout == ""
    assert f"index {index} is missing" in done.stderr
    assert not index.exists()

    SystemDisk().open_key_values(index).close()
    done = run(*command, "--data", str(tmp_path))
    assert done.exit_code != 0
    assert done.stdout == ""
    assert "one of them is missing or an old copy" in done.stderr
