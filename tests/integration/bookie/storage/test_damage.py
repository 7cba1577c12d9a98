"""Broken journals: refused, or served with "unknown" where the bookie cannot know."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import pytest

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.journal.record import (
    FILE_HEADER_BYTES,
    RecordType,
    adds_body,
    decode_file_header,
    encode_record,
)
from bookie_server.tools.inspection import FoundRecord, journal_records
from dlog.local.signalling import pause_process
from ledger.model import LedgerId, QuorumSizes
from ledger.wire.status import Status
from tests.helpers.bookie.damaged_journal import damage_the_middle_of_the_journal, killed_after_ten_adds
from tests.helpers.bookie.entries import add, add_answer, entry, fence, read, read_answer
from tests.helpers.bookie.raw_client import ConnectionClosed, RawClient
from tests.helpers.ledger.appender import client_of
from tests.helpers.processes.bookie import BookieProcess, eventually, listed_bookies, run_bookie
from tests.helpers.processes.strace import needs_strace, strace

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("kept", [1, 11, 31, 32, 60])
def test_a_torn_tail_is_cut_and_nothing_acknowledged_with_it(bookie: BookieProcess, kept: int) -> None:
    """The power went while a record was being written: `kept` of its bytes are on the disk, the rest is not."""
    killed_after_ten_adds(bookie)
    *_, last = journal_records(SystemDisk(), bookie.data / "journal")
    begun = one_more_record(last, entry(1, 10))
    with last.path.open("r+b") as journal:
        journal.seek(last.next_offset)
        journal.write(begun[:kept])
    bookie.start()
    with RawClient(bookie.port) as client:
        for entry_id in range(10):
            assert read_answer(client.ask(read(1, entry_id))).entry == entry(1, entry_id)
        assert read_answer(client.ask(read(1, 10))).status is Status.ENOENTRY
        assert add_answer(client.ask(add(1, 10))).status is Status.EOK
    bookie.restart()
    with RawClient(bookie.port) as client:
        assert read_answer(client.ask(read(1, 10))).entry == entry(1, 10)


def one_more_record(last: FoundRecord, stored: bytes) -> bytes:
    """What the journal would have written next: a record in a group of its own."""
    header = decode_file_header(last.path.read_bytes()[:FILE_HEADER_BYTES], last.path)
    body = adds_body([len(stored)], [stored])
    return b"".join(encode_record(header, RecordType.ADDS, last.record.sequence + 1, last.next_offset, body))


def test_a_damaged_journal_refuses_to_start(bookie: BookieProcess) -> None:
    killed_after_ten_adds(bookie)
    damage_the_middle_of_the_journal(bookie)
    done = run_bookie("start", "--metadata", bookie.metadata, "--data", str(bookie.data), "--port", "0")
    assert done.returncode == 1
    assert "is damaged at offset" in done.stderr
    assert "limbo_on_damage" in done.stderr
    assert listed_bookies(bookie.metadata) == []


def test_in_limbo_nothing_is_said_to_be_absent(bookie: BookieProcess) -> None:
    """What is found is served. What is not found may have been in the lost part: unknown, never "no"."""
    killed_after_ten_adds(bookie)
    damage_the_middle_of_the_journal(bookie)
    bookie.settings = {"storage": {"limbo_on_damage": True}}
    bookie.start()
    assert [each["state"] for each in listed_bookies(bookie.metadata)] == ["read-only"]
    with RawClient(bookie.port) as client:
        assert read_answer(client.ask(read(1, 0))).entry == entry(1, 0)
        assert read_answer(client.ask(read(1, 9))).entry == entry(1, 9)
        unknown = Status.EUNKNOWNLEDGERSTATE
        assert read_answer(client.ask(read(1, 3))).status is unknown
        assert read_answer(client.ask(read(1, -1))).status is unknown
        assert read_answer(client.ask(fence(1, 3))).status is unknown
        assert read_answer(client.ask(read(77, 0))).status is unknown
        assert add_answer(client.ask(add(77, 0))).status is Status.EREADONLY
        assert add_answer(client.ask(add(1, 10))).status in (Status.EREADONLY, Status.EFENCED)
        assert add_answer(client.ask(add(1, 3, recovery=True, priority=True))).status is Status.EOK
        assert read_answer(client.ask(read(1, 3))).entry == entry(1, 3)


def test_when_limbo_ends_a_fence_that_was_lost_is_back(bookie: BookieProcess) -> None:
    """Its ledger is closed and complete here; the record of the fence is the only damage.

    A ledger in no metadata may have been deleted, and its tombstone lost: it takes no add either.
    """

    async def write_and_recover() -> LedgerId:
        async with client_of(bookie.metadata) as client:
            handle = await client.create(QuorumSizes(ensemble=1, write=1, ack=1))
            await handle.add(b"first")
            await client.open_with_recovery(handle.ledger_id)
            return handle.ledger_id

    ledger_id = asyncio.run(write_and_recover())
    with RawClient(bookie.port) as client:
        for entry_id in range(10):
            assert add_answer(client.ask(add(1000, entry_id))).status is Status.EOK
    bookie.kill()
    [found] = [
        each
        for each in journal_records(SystemDisk(), bookie.data / "journal")
        if each.record.type is RecordType.FENCE
    ]
    with found.path.open("r+b") as journal:
        journal.seek(found.next_offset - 1)
        journal.write(b"\xff")
    bookie.settings = {"storage": {"limbo_on_damage": True, "limbo_check_interval_s": 0.5}}
    bookie.start()
    eventually(lambda: [each["state"] for each in listed_bookies(bookie.metadata)] == ["writable"])
    for _ in range(2):
        with RawClient(bookie.port) as client:
            assert add_answer(client.ask(add(ledger_id, 1))).status is Status.EFENCED
            assert add_answer(client.ask(add(1000, 10))).status is Status.EFENCED
        bookie.restart()


@needs_strace
def test_the_first_failed_sync_ends_the_bookie_and_nothing_is_acknowledged(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as client:
        assert add_answer(client.ask(add(1, 0))).status is Status.EOK
        with strace(bookie.pid, "fdatasync:error=EIO"):
            client.send(add(1, 1))
            with contextlib.suppress(ConnectionClosed):
                assert add_answer(client.frame()).status is Status.EIO
            code, errors = bookie.wait()
    assert code == 1
    assert "Input/output error" in errors
    assert "Traceback" not in errors
    assert listed_bookies(bookie.metadata) == []


def test_files_made_unwritable_do_not_hide_the_reason(bookie: BookieProcess) -> None:
    """A directory that cannot be read says so in one sentence."""
    bookie.terminate()
    mark = bookie.data / "ledgers" / "log-mark"
    mark.write_bytes(os.urandom(48))
    done = run_bookie("start", "--metadata", bookie.metadata, "--data", str(bookie.data), "--port", "0")
    assert done.returncode == 1
    assert "log-mark" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_stopped_process_goes_on_where_it_was(bookie: BookieProcess) -> None:
    """SIGSTOP and SIGCONT, as a paused machine: nothing is lost, nothing answered twice."""
    with RawClient(bookie.port) as client:
        pause_process(bookie.pid)
        client.send(b"".join(add(1, each) for each in range(100)))
        os.kill(bookie.pid, signal.SIGCONT)
        answers = [add_answer(client.frame()) for _ in range(100)]
    assert [each.entry_id for each in answers] == list(range(100))
    assert all(each.status is Status.EOK for each in answers)
