"""What `bookie` tells about a stopped bookie's files, and how its directories are given up."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.index import Index
from bookie_server.tools.cli import app
from ledger.metadata.drivers import open_store
from ledger.model import EntryId, Fragment, LedgerMetadata, QuorumSizes, check_bookie_id
from ledger.wire import v2
from ledger.wire.messages import AddRequest
from ledger.wire.status import Status
from tests.helpers.bookie.cookies import write_cookies
from tests.helpers.bookie.entries import KEY, add, add_answer, entry, fence
from tests.helpers.bookie.lost_intervals import lose_intervals
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.bookie.storage import add as add_entries
from tests.helpers.bookie.storage import copy_as_after_kill, durable, open_storage
from tests.helpers.processes.bookie import BookieProcess, eventually, run_bookie
from tests.helpers.repository import ROOT

pytestmark = pytest.mark.integration


def stop_with_entries(bookie: BookieProcess, *, killed: bool) -> None:
    with RawClient(bookie.port) as client:
        for entry_id in range(5):
            client.ask(add(1, entry_id))
        client.ask(add(2, 0))
        client.ask(fence(2))
    if killed:
        bookie.kill()
    else:
        assert bookie.terminate() == 0


def info(bookie: BookieProcess) -> dict[str, object]:
    """What `bookie info` prints, one JSON object."""
    done = run_bookie("info", "--data", str(bookie.data), "-o", "json")
    assert done.returncode == 0, done.stderr
    facts: dict[str, object] = json.loads(done.stdout)
    return facts


def lines(*arguments: str) -> list[dict[str, object]]:
    """What a command prints as one JSON object a line."""
    done = run_bookie(*arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("killed", [False, True])
def test_space_is_shown_and_comes_back_by_a_compaction(tmp_path: Path, killed: bool) -> None:
    """Of a bookie that was killed, the deletion of a ledger may be in the journal only."""
    home = tmp_path / "bookie"

    async def write() -> None:
        storage = await open_storage(home)
        for ledger_id in (1, 2, 3):
            await add_entries(storage, storage.create_ledger(ledger_id, KEY), range(100))
        await storage.checkpoint()
        for ledger_id in (1, 3):
            await durable(partial(storage.delete_ledger, ledger_id))
        if killed:
            copy_as_after_kill(home, tmp_path / "killed")
        await storage.close()

    asyncio.run(write())
    data = tmp_path / "killed" if killed else home
    write_cookies(data)
    [log, total] = rows("space", "--data", str(data))
    assert log["file"] == str(data / "ledgers" / "entry-logs" / "0000000000000001.log")
    assert int(log["bytes"]) == int(log["live_bytes"]) + int(log["dead_bytes"]) == int(total["bytes"])
    assert isinstance(log["live_part"], float) and 0.3 < log["live_part"] < 0.36
    assert rows("space", "--data", str(data), "--ledgers") == [
        {"ledger": 2, "live_bytes": log["live_bytes"], "files": 1}
    ]
    assert rows("compact", "--data", str(data), "--dry-run") == [log]
    assert rows("compact", "--data", str(data), "--dry-run", "--threshold", "0.2") == []
    done = run_bookie("compact", "--data", str(data), "-o", "json")
    assert done.returncode == 0, done.stderr
    copied = json.loads(done.stdout)["copied_bytes"]
    assert 0.9 * int(log["live_bytes"]) < copied <= int(log["live_bytes"]) + 64, "in fewer blocks"
    assert json.loads(done.stdout) == {
        "files_removed": 1,
        "copied_bytes": copied,
        "bytes_before": log["bytes"],
        "bytes_after": copied,
    }
    assert [row["file"] for row in rows("space", "--data", str(data))] == [
        str(data / "ledgers" / "entry-logs" / "0000000000000002.log"),
        "all",
    ]
    assert len(lines("read-ledger", "2", "--data", str(data))) == 100


def test_a_compaction_keeps_the_versions_and_the_settings_of_the_bookie(tmp_path: Path) -> None:
    """A bookie that writes nothing once may have to go back to an earlier release, which refuses version 2."""
    home, settings = tmp_path / "bookie", tmp_path / "bookie.toml"

    async def write() -> None:
        storage = await open_storage(home, single_write_bytes_min=0)
        ledger = storage.create_ledger(1, KEY)
        await add_entries(storage, ledger, range(100))
        await storage.checkpoint()
        await add_entries(storage, ledger, range(100, 200))
        copy_as_after_kill(home, tmp_path / "killed")
        await storage.close()

    asyncio.run(write())
    data = tmp_path / "killed"
    write_cookies(data)
    assert index_version(data) == 1
    (data / "ledgers" / "reserve").unlink()
    settings.write_text(f"""
        data = "{data}"
        [storage]
        reserve_bytes = 12345
        journal_segment_bytes = 65536
    """)
    done = run_bookie("compact", "--config", str(settings))
    assert done.returncode == 0, done.stderr
    assert index_version(data) == 1
    assert (data / "ledgers" / "reserve").stat().st_size == 12345
    assert {path.stat().st_size for path in (data / "journal").glob("*.journal")} == {65536}
    assert len(lines("read-ledger", "1", "--data", str(data))) == 200
    done = run_bookie("compact", "--data", str(data))
    assert done.returncode == 0, done.stderr
    assert index_version(data) == 1, "also without its settings"


def index_version(data: Path) -> int:
    store = SystemDisk().open_key_values(data / "ledgers" / "index")
    try:
        end = store.get(b"E")
    finally:
        store.close()
    assert end is not None
    return int.from_bytes(end[:4], "big")


def test_a_compaction_that_is_refused_fails_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that may not take what lives: in this process, since the disk here has room."""
    home = tmp_path / "bookie"

    async def write() -> None:
        storage = await open_storage(home)
        for ledger_id in (1, 2):
            await add_entries(storage, storage.create_ledger(ledger_id, KEY), range(100))
        await storage.checkpoint()
        await durable(partial(storage.delete_ledger, 1))
        await storage.close()

    asyncio.run(write())
    write_cookies(home)
    monkeypatch.setattr(SystemDisk, "free_space", lambda *_: (10**12, 10**12 // 20 + 10))
    done = CliRunner().invoke(app, ["compact", "--data", str(home)])
    assert done.exit_code == 1
    assert "bytes to copy what lives in" in done.stderr
    assert f"and may use 10 in {home / 'ledgers'}: free space" in done.stderr
    assert "files removed  0" in done.stdout


def rows(*arguments: str) -> list[dict[str, Any]]:
    """What a command prints as one JSON array."""
    done = run_bookie(*arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("killed", [False, True])
def test_a_ledger_is_read_from_entry_logs_and_journal(bookie: BookieProcess, killed: bool) -> None:
    stop_with_entries(bookie, killed=killed)
    rows = lines("read-ledger", "1", "--data", str(bookie.data), "--first", "1", "--last", "3")
    assert [(row["entry"], row["after_header"]) for row in rows] == [
        (each, entry(1, each)[32:].hex()) for each in (1, 2, 3)
    ]


@pytest.mark.parametrize("killed", [False, True])
def test_entries_that_end_before_their_length_field_are_printed(bookie: BookieProcess, killed: bool) -> None:
    """Apache's bookie stores them, so ours may hold some."""
    stored = [struct.pack(">qqq", 7, each, each - 1) + bytes(range(each)) for each in range(9)]
    with RawClient(bookie.port) as client:
        for each in stored:
            frame = v2.encode_request(AddRequest(master_key=KEY, entry=each))
            assert add_answer(client.ask(frame)).status is Status.EOK
    if killed:
        bookie.kill()
    else:
        assert bookie.terminate() == 0
    rows = lines("read-ledger", "7", "--data", str(bookie.data))
    assert [(row["lac"], row["length"], row["bytes"]) for row in rows] == [
        (each - 1, None if each < 8 else int.from_bytes(bytes(range(8)), "big"), 24 + each)
        for each in range(9)
    ]
    assert rows[3]["after_header"] == "000102"


def test_a_damaged_index_is_made_anew_from_the_command_line(bookie: BookieProcess) -> None:
    """The bookie names the way out, the command goes it, and the bookie serves what it had: entries, a fence, a key."""
    stop_with_entries(bookie, killed=False)
    tables = list((bookie.data / "ledgers" / "index").glob("*.sst"))
    for path in tables:
        content = bytearray(path.read_bytes())
        content[len(content) // 4] ^= 1
        path.write_bytes(content)
    refused = run_bookie("read-ledger", "1", "--data", str(bookie.data))
    assert refused.returncode == 1
    assert "bookie rebuild-index" in refused.stderr
    assert "Traceback" not in refused.stderr
    rebuilt = run_bookie("rebuild-index", "--data", str(bookie.data), "-o", "json")
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert "verified 0000000000000001.log, 1 of 1: 6 entries so far" in rebuilt.stderr
    facts = json.loads(rebuilt.stdout)
    assert (facts["ledgers"], facts["fenced"], facts["entries"], facts["in_limbo"]) == (2, 1, 6, False)
    bookie.start()
    with RawClient(bookie.port) as client:
        assert add_answer(client.ask(add(2, 1))).status is Status.EFENCED
        assert add_answer(client.ask(add(1, 5))).status is Status.EOK
    assert bookie.terminate() == 0
    assert [row["entry"] for row in lines("read-ledger", "1", "--data", str(bookie.data))] == list(range(6))


@pytest.mark.parametrize("reader", ["has left", "is a full disk"])
def test_a_rebuild_goes_on_when_its_progress_cannot_be_written(bookie: BookieProcess, reader: str) -> None:
    """As with `2>&1 | head -1`, which would be taken for a success, and `2> FILE` on a full disk."""
    stop_with_entries(bookie, killed=False)
    index = bookie.data / "ledgers" / "index"
    before = index.stat().st_ino
    ours, theirs = os.pipe()
    os.close(ours)
    with os.fdopen(theirs, "wb") as pipe, Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "bookie_server", "rebuild-index", "--data", str(bookie.data)],
            cwd=ROOT,
            stdout=pipe if reader == "has left" else subprocess.DEVNULL,
            stderr=pipe if reader == "has left" else full,
            timeout=30,
            check=False,
        )
    assert done.returncode == 0
    assert index.stat().st_ino != before  # the new one took its place
    assert not index.with_name("index.new").exists()


def test_a_stopped_bookie_is_scrubbed(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as client:
        client.ask(add(1, 0))
    assert bookie.terminate() == 0
    intact = run_bookie("scrub", "--data", str(bookie.data), "-o", "json")
    assert (intact.returncode, intact.stderr) == (0, "")
    assert json.loads(intact.stdout)["damaged_blocks"] == 0
    assert json.loads(intact.stdout)["blocks"] == 1
    [log] = (bookie.data / "ledgers" / "entry-logs").iterdir()
    log.write_bytes(log.read_bytes()[:-1] + b"?")
    damaged = run_bookie("scrub", "--data", str(bookie.data), "-o", "json")
    assert damaged.returncode == 1
    assert json.loads(damaged.stdout)["damaged_ledgers"] == [1]
    assert f"{log} is damaged at offset 64" in damaged.stderr
    assert "1 block is damaged" in damaged.stderr


@pytest.mark.parametrize(
    "command",
    [["scrub"], ["space"], ["compact", "--dry-run"], ["read-ledger", "1"], ["info"], ["read-log"]],
    ids=" ".join,
)
def test_nothing_is_made_in_empty_directories(tmp_path: Path, command: list[str]) -> None:
    """A disk that is not mounted: a bookie that starts there for the first time must find it unused."""
    for name in ("journal", "ledgers"):
        (tmp_path / name).mkdir()
    done = CliRunner().invoke(app, [*command, "--data", str(tmp_path)])
    if command != ["read-log"]:
        assert done.exit_code == 1, done.output
        assert f"log mark {tmp_path / 'ledgers' / 'log-mark'} is missing" in done.stderr
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"lock"}
    assert {path.name for path in tmp_path.rglob("*") if path.is_dir()} == {"journal", "ledgers"}


def test_what_the_next_start_replays_is_not_missing(bookie: BookieProcess) -> None:
    """The index of a killed bookie may lack what a checkpoint had begun to store, and the journal has."""
    with RawClient(bookie.port) as client:
        client.ask(add(1, 0))
        client.ask(add(1, 2))
    assert bookie.terminate() == 0
    mark = bookie.data / "ledgers" / "log-mark"
    older = mark.read_bytes()
    bookie.start()
    with RawClient(bookie.port) as client:
        client.ask(add(1, 1))
    assert bookie.terminate() == 0
    index = Index(SystemDisk().open_key_values(bookie.data / "ledgers" / "index"))
    lose_intervals(index, 1, lambda each: each.first == 1)
    index.sync(index.generation())
    index.close()
    lost = run_bookie("scrub", "--data", str(bookie.data), "-o", "json")
    assert lost.returncode == 1 and json.loads(lost.stdout)["unindexed_blocks"] == 1
    mark.write_bytes(older)
    replayed = run_bookie("scrub", "--data", str(bookie.data), "-o", "json")
    assert (replayed.returncode, replayed.stderr) == (0, "")


def test_a_running_bookie_notes_what_its_scrubber_has_done(tmp_path: Path, metadata: str) -> None:
    bookie = BookieProcess(metadata, tmp_path / "bookie", scrub_interval_s=0.1)
    bookie.start()
    try:
        eventually(lambda: status_of(bookie) != [])
        [complete] = [row for row in status_of(bookie) if row["pass"] == "complete"]
        assert complete["damaged_blocks"] == 0
        assert str(complete["ended"]).startswith("20")
    finally:
        bookie.stop()


def test_the_scrubber_of_no_directories_has_no_status(tmp_path: Path) -> None:
    """A misspelt one is not the directory of a bookie whose scrubber has done nothing yet."""
    done = run_bookie("scrub", "--data", str(tmp_path / "misspelt"), "--status")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"directory {tmp_path / 'misspelt' / 'ledgers'} does not exist" in done.stderr


def status_of(bookie: BookieProcess) -> list[dict[str, object]]:
    done = run_bookie("scrub", "--data", str(bookie.data), "--status", "-o", "json")
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, object]] = json.loads(done.stdout)
    return rows


def test_the_journal_is_listed_record_by_record(bookie: BookieProcess) -> None:
    stop_with_entries(bookie, killed=True)
    rows = lines("read-journal", "--data", str(bookie.data))
    kinds = {str(row["type"]) for row in rows}
    assert {"adds", "ledger_key", "fence"} <= kinds
    assert [row["detail"] for row in rows if row["type"] == "fence"] == ["ledger 2"]


def test_a_reader_that_stops_reading_is_no_error(bookie: BookieProcess) -> None:
    stop_with_entries(bookie, killed=True)
    command = [sys.executable, "-m", "bookie_server", "read-journal", "--data", str(bookie.data)]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("killed", [False, True])
def test_info_reports_the_owner_of_the_directories(bookie: BookieProcess, killed: bool) -> None:
    stop_with_entries(bookie, killed=killed)
    facts = info(bookie)
    assert facts["bookie"] == f"127.0.0.1:{bookie.port}"
    assert facts["kept_port"] == bookie.port
    assert facts["in_limbo"] is False
    assert facts["ledgers"] == [1, 2]


@pytest.mark.parametrize(
    "arguments",
    [["read-journal"], ["read-ledger", "1"], ["format", "--yes"]],
    ids=lambda each: each[0],
)
def test_nothing_is_touched_while_the_bookie_runs(bookie: BookieProcess, arguments: list[str]) -> None:
    extra = ["--metadata", bookie.metadata] if arguments[0] == "format" else []
    done = run_bookie(*arguments, *extra, "--data", str(bookie.data))
    assert done.returncode == 1
    assert "used by another process" in done.stderr


def test_an_unknown_ledger_is_named(bookie: BookieProcess) -> None:
    bookie.terminate()
    done = run_bookie("read-ledger", "77", "--data", str(bookie.data))
    assert done.returncode == 1
    assert "ledger 77" in done.stderr


def test_a_formatted_bookie_starts_anew(bookie: BookieProcess) -> None:
    stop_with_entries(bookie, killed=False)
    done = run_bookie("format", "--yes", "--metadata", bookie.metadata, "--data", str(bookie.data))
    assert done.returncode == 0, done.stderr
    bookie.start()
    assert bookie.terminate() == 0
    facts = info(bookie)
    assert facts["ledgers"] == []


def test_format_asks_and_takes_no_for_an_answer(bookie: BookieProcess) -> None:
    stop_with_entries(bookie, killed=False)
    done = run_bookie("format", "--metadata", bookie.metadata, "--data", str(bookie.data))
    assert done.returncode == 1
    bookie.start()


def test_format_refuses_while_a_ledger_needs_the_bookie(bookie: BookieProcess) -> None:
    """The bookie would come back empty under its old name, and recovery would believe it."""

    async def create_ledger() -> None:
        store = await open_store(bookie.metadata)
        member = check_bookie_id(f"127.0.0.1:{bookie.port}")
        metadata = LedgerMetadata(
            quorum=QuorumSizes(ensemble=1, write=1, ack=1), fragments=(Fragment(EntryId(0), (member,)),)
        )
        await store.create_ledger(await store.new_ledger_id(), metadata)
        await store.close()

    asyncio.run(create_ledger())
    stop_with_entries(bookie, killed=False)
    format_it = ("format", "--yes", "--metadata", bookie.metadata, "--data", str(bookie.data))
    done = run_bookie(*format_it)
    assert done.returncode == 1
    assert "delete or trim its log" in done.stderr
    assert run_bookie(*format_it, "--force").returncode == 0


def test_two_processes_never_share_a_directory(bookie: BookieProcess, tmp_path: Path) -> None:
    """Another port and a fixed id get past the address and the cookie, not past the lock."""
    done = run_bookie(
        *("start", "--metadata", bookie.metadata, "--data", str(bookie.data)),
        *("--port", "0", "--bookie-id", "same"),
    )
    assert done.returncode == 1
    assert "used by another process" in done.stderr


def test_entry_logs_are_listed_entry_by_entry_and_damage_is_shown(bookie: BookieProcess) -> None:
    stop_with_entries(bookie, killed=False)
    data = ("--data", str(bookie.data))
    rows = lines("read-log", *data)
    assert [(row["ledger"], row["entry"]) for row in rows] == [*((1, each) for each in range(5)), (2, 0)]
    assert {row["log"] for row in rows} == {"0000000000000001.log"}
    assert lines("read-log", "1", *data) == lines("read-log", "0000000000000001.log", *data) == rows
    assert lines("read-log", "--ledger", "1", "--entry", "3", *data) == [rows[3]]
    path = bookie.data / "ledgers" / "entry-logs" / "0000000000000001.log"
    content = bytearray(path.read_bytes())
    offset = rows[0]["offset"]
    assert isinstance(offset, int)
    content[offset + 60] ^= 1
    path.write_bytes(content)
    damaged, *rest = lines("read-log", *data)
    assert damaged["offset"] == offset and damaged["damaged_bytes"] == rows[5]["offset"] - offset  # type: ignore[operator]
    assert rest == [rows[5]]


@pytest.mark.parametrize(
    ("log", "code", "says"), [("7", 1, "there is no entry log"), ("x", 2, "hexadecimal")]
)
def test_an_entry_log_that_is_not_there_is_named(
    bookie: BookieProcess, log: str, code: int, says: str
) -> None:
    assert bookie.terminate() == 0
    done = run_bookie("read-log", log, "--data", str(bookie.data))
    assert done.returncode == code and says in done.stderr and "Traceback" not in done.stderr
