"""`bookie space`, `compact`, `scrub` and `rebuild-index` of a bookie that runs, and goes on serving."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.entry_logs.format import FILE_HEADER_BYTES
from bookie_server.storage.index import Index
from bookie_server.storage.storage_paths import COMPACTION, StoragePaths
from bookie_server.tools import running_bookie
from bookie_server.tools.cli import app
from dlog.local.signalling import pause_process
from ledger.metadata.drivers import open_store
from ledger.model import EntryId, Fragment, LedgerId, LedgerMetadata, QuorumSizes, check_bookie_id
from tests.helpers.bookie.entries import add, read, read_answer
from tests.helpers.bookie.lost_intervals import lose_intervals
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.bookie.storage import small_config
from tests.helpers.processes.bookie import PATIENCE_S, BookieProcess, eventually, run_bookie

pytestmark = pytest.mark.integration

PAYLOAD = os.urandom(4096)
ENTRIES = 50


@pytest.fixture
def bookie(metadata: str, tmp_path: Path) -> Iterator[BookieProcess]:
    """Collects garbage every second, and compacts only when it is asked."""
    process = BookieProcess(
        metadata,
        tmp_path / "bookie",
        gc_interval_s=1.0,
        gc_grace_s=0.5,
        storage={
            "minor_compaction_interval_s": 0,
            "major_compaction_interval_s": 0,
            "checkpoint_interval_s": 0.1,
        },
    )
    process.start()
    yield process
    process.stop()
    assert "Traceback" not in process.errors


def create_ledgers(bookie: BookieProcess, count: int) -> list[LedgerId]:
    async def create() -> list[LedgerId]:
        store = await open_store(bookie.metadata)
        member = check_bookie_id(f"127.0.0.1:{bookie.port}")
        metadata = LedgerMetadata(
            quorum=QuorumSizes(ensemble=1, write=1, ack=1), fragments=(Fragment(EntryId(0), (member,)),)
        )
        made = []
        for _ in range(count):
            ledger_id = await store.new_ledger_id()
            await store.create_ledger(ledger_id, metadata)
            made.append(ledger_id)
        await store.close()
        return made

    return asyncio.run(create())


def delete_ledger(bookie: BookieProcess, ledger_id: LedgerId) -> None:
    async def delete() -> None:
        store = await open_store(bookie.metadata)
        await store.remove_ledger(ledger_id)
        await store.close()

    asyncio.run(delete())


def fill(bookie: BookieProcess, ledger_ids: list[LedgerId]) -> None:
    with RawClient(bookie.port) as client:
        for entry_id in range(ENTRIES):
            for ledger_id in ledger_ids:
                client.ask(add(ledger_id, entry_id, PAYLOAD))


def result(bookie: BookieProcess, *arguments: str, code: int = 0) -> Any:
    done = run_bookie(*arguments, "--data", str(bookie.data), "-o", "json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def live_ledgers(bookie: BookieProcess) -> list[int]:
    return [row["ledger"] for row in result(bookie, "space", "--ledgers")]


def test_space_comes_back_while_the_bookie_serves(bookie: BookieProcess) -> None:
    kept, deleted = create_ledgers(bookie, 2)
    fill(bookie, [kept, deleted])
    eventually(lambda: live_ledgers(bookie) == [kept, deleted])
    delete_ledger(bookie, deleted)
    eventually(lambda: live_ledgers(bookie) == [kept])
    *files, total = result(bookie, "space")
    assert total["file"] == "all" and sum(each["bytes"] for each in files) == total["bytes"]
    assert total["dead_bytes"] > ENTRIES * len(PAYLOAD)
    dry = result(bookie, "compact", "--dry-run")
    assert dry and all(each in files for each in dry)
    assert result(bookie, "space")[-1] == total, "a dry run changes nothing"
    done = result(bookie, "compact")
    assert done["files_removed"] == len(dry) and done["copied_bytes"] > ENTRIES * len(PAYLOAD)
    assert done["bytes_before"] - done["bytes_after"] > ENTRIES * len(PAYLOAD)
    assert result(bookie, "compact")["files_removed"] == 0
    with RawClient(bookie.port) as client:
        for entry_id in range(ENTRIES):
            entry = read_answer(client.ask(read(kept, entry_id))).entry
            assert entry is not None and bytes(entry).endswith(PAYLOAD)
    bookie.kill()
    assert result(bookie, "space")[-1]["live_bytes"] > ENTRIES * len(PAYLOAD), (
        "a socket that was left is passed over"
    )


def test_a_pass_of_the_scrubber_is_asked_for(bookie: BookieProcess) -> None:
    """Its next one would begin a minute after the start."""
    [ledger_id] = create_ledgers(bookie, 1)
    fill(bookie, [ledger_id])
    eventually(lambda: live_ledgers(bookie) == [ledger_id])
    intact = result(bookie, "scrub")
    assert intact["blocks"] > 0 and intact["damaged_blocks"] == 0
    assert intact["bytes"] > ENTRIES * len(PAYLOAD)
    path = sorted((bookie.data / "ledgers" / "entry-logs").iterdir())[0]
    with path.open("r+b") as file:
        file.seek(FILE_HEADER_BYTES + 2000)
        file.write(b"damage")
    damaged = result(bookie, "scrub", code=1)
    assert (damaged["damaged_blocks"], damaged["damaged_ledgers"]) == (1, [ledger_id])
    [complete] = result(bookie, "scrub", "--status")
    assert complete["pass"] == "complete" and complete["damaged_blocks"] == 1
    assert bookie.terminate() == 0
    assert "is damaged" in bookie.errors


def test_a_start_without_an_entry_log_names_it_and_begins_a_pass(bookie: BookieProcess) -> None:
    [ledger_id] = create_ledgers(bookie, 1)
    fill(bookie, [ledger_id])
    eventually(lambda: live_ledgers(bookie) == [ledger_id])
    assert bookie.terminate() == 0
    path = sorted((bookie.data / "ledgers" / "entry-logs").iterdir())[0]
    path.unlink()
    bookie.start()
    eventually(lambda: result(bookie, "scrub", "--status")[-1]["damaged_ledgers"] == [ledger_id])
    assert bookie.terminate() == 0
    assert f"{path} is missing, and the index leads into it" in bookie.errors


def test_the_index_is_rebuilt_while_the_bookie_serves(bookie: BookieProcess) -> None:
    """Unless a file is damaged: then everything stays as it was."""
    kept, other = create_ledgers(bookie, 2)
    fill(bookie, [kept, other])
    eventually(lambda: live_ledgers(bookie) == [kept, other])
    done = result(bookie, "rebuild-index")
    assert (done["ledgers"], done["entries"], done["in_limbo"]) == (2, 2 * ENTRIES, False)
    fill(bookie, create_ledgers(bookie, 1))
    with RawClient(bookie.port) as client:
        for entry_id in range(ENTRIES):
            entry = read_answer(client.ask(read(kept, entry_id))).entry
            assert entry is not None and bytes(entry).endswith(PAYLOAD)
    path = sorted((bookie.data / "ledgers" / "entry-logs").iterdir())[0]
    with path.open("r+b") as file:
        file.seek(FILE_HEADER_BYTES + 2000)
        file.write(b"damage")
    refused = run_bookie("rebuild-index", "--data", str(bookie.data))
    assert refused.returncode == 1
    assert "the index stays as it is: " in refused.stderr and "is damaged from" in refused.stderr
    bookie.kill()
    rebuilt = run_bookie("rebuild-index", "--data", str(bookie.data), "-o", "json")
    assert rebuilt.returncode == 1
    assert json.loads(rebuilt.stdout)["in_limbo"]
    assert "lost: " in rebuilt.stderr and "limbo ends by itself" in rebuilt.stderr
    stopped = run_bookie("info", "--data", str(bookie.data), "-o", "json")
    assert json.loads(stopped.stdout)["in_limbo"]
    bookie.start()
    running = run_bookie("info", f"127.0.0.1:{bookie.port}", "-o", "json")
    assert json.loads(running.stdout)["in_limbo"]


def test_a_pass_puts_back_what_the_index_has_lost(bookie: BookieProcess) -> None:
    [ledger_id] = create_ledgers(bookie, 1)
    fill(bookie, [ledger_id])
    assert bookie.terminate() == 0
    index = Index(SystemDisk().open_key_values(bookie.data / "ledgers" / "index"))
    lost = lose_intervals(index, ledger_id)
    index.sync(index.generation())
    index.close()
    stopped = run_bookie("scrub", "--data", str(bookie.data), "-o", "json")
    assert stopped.returncode == 1
    facts = json.loads(stopped.stdout)
    assert (facts["unindexed_blocks"], facts["restored_blocks"], facts["damaged_blocks"]) == (len(lost), 0, 0)
    assert (
        f"the index has lost entries {lost[0].first} to {lost[0].last} of ledger {ledger_id}"
        in stopped.stderr
    )
    assert "are missing in the index: the scrubber of a running bookie puts them back" in stopped.stderr
    bookie.start()
    restored = result(bookie, "scrub")
    assert (restored["unindexed_blocks"], restored["restored_blocks"]) == (len(lost), len(lost))
    [complete] = result(bookie, "scrub", "--status")
    assert complete["restored_blocks"] == len(lost)
    table = run_bookie("scrub", "--data", str(bookie.data), "--status").stdout
    assert "unindexed blocks" in table and "restored blocks" in table
    with RawClient(bookie.port) as client:
        for entry_id in range(ENTRIES):
            assert read_answer(client.ask(read(ledger_id, entry_id))).entry is not None
    assert bookie.terminate() == 0
    assert run_bookie("scrub", "--data", str(bookie.data)).returncode == 0
    assert (
        f"the index had lost entries {lost[0].first} to {lost[0].last} of ledger {ledger_id}" in bookie.errors
    )


def test_a_bookie_without_a_scrubber_says_so(metadata: str, tmp_path: Path) -> None:
    bookie = BookieProcess(metadata, tmp_path / "bookie", scrub_interval_s=0)
    bookie.start()
    try:
        done = run_bookie("scrub", "--data", str(bookie.data))
        assert done.returncode == 1 and "scrub_interval_s is 0" in done.stderr
    finally:
        bookie.stop()


def test_an_interrupted_compaction_ends(bookie: BookieProcess) -> None:
    """It would take minutes at this rate. Nothing of it stays, and the bookie serves."""
    bookie.terminate()
    bookie.settings["storage"]["compaction_bytes_per_s"] = 1024
    bookie.start()
    kept, deleted = create_ledgers(bookie, 2)
    fill(bookie, [kept, deleted])
    eventually(lambda: live_ledgers(bookie) == [kept, deleted])
    delete_ledger(bookie, deleted)
    eventually(lambda: live_ledgers(bookie) == [kept])
    copy = StoragePaths.of(small_config(bookie.data)).entry_logs / COMPACTION
    before = result(bookie, "space")
    command = subprocess.Popen(
        [sys.executable, "-m", "bookie_server", "compact", "--data", str(bookie.data)],
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(copy.exists)
    command.send_signal(signal.SIGINT)
    assert command.communicate(timeout=PATIENCE_S)[1] == "bookie: interrupted\n"
    assert command.returncode == 130
    eventually(lambda: not copy.exists())
    assert result(bookie, "space") == before


def test_a_hung_bookie_is_reported(bookie: BookieProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_bookie, "_SILENT_S", 0.5)
    pause_process(bookie.pid)
    try:
        done = CliRunner().invoke(app, ["space", "--data", str(bookie.data)])
    finally:
        os.kill(bookie.pid, signal.SIGCONT)
    assert done.exit_code == 1
    assert "has not responded: nothing for 0.5 s" in done.stderr
