"""What `bookie` tells about a stopped bookie's files, and how its directories are given up."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.metadata.drivers import open_store
from ledger.model import EntryId, Fragment, LedgerMetadata, QuorumSizes, check_bookie_id
from ledger.wire import v2
from ledger.wire.messages import AddRequest
from ledger.wire.status import Status
from tests.helpers.bookie.entries import KEY, add, add_answer, entry, fence
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess, run_bookie
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
    assert "verified entry log 1, 1 of 1: 6 entries so far" in rebuilt.stderr
    facts = json.loads(rebuilt.stdout)
    assert (facts["ledgers"], facts["fenced"], facts["entries"], facts["in_limbo"]) == (2, 1, 6, False)
    bookie.start()
    with RawClient(bookie.port) as client:
        assert add_answer(client.ask(add(2, 1))).status is Status.EFENCED
        assert add_answer(client.ask(add(1, 5))).status is Status.EOK
        refused_here = run_bookie("rebuild-index", "--data", str(bookie.data))
    assert refused_here.returncode == 1
    assert "used by another process" in refused_here.stderr
    assert bookie.terminate() == 0
    assert [row["entry"] for row in lines("read-ledger", "1", "--data", str(bookie.data))] == list(range(6))


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
    assert facts["ledgers"] == [1, 2]


@pytest.mark.parametrize(
    "arguments",
    [["info"], ["read-journal"], ["read-ledger", "1"], ["format", "--yes"]],
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
