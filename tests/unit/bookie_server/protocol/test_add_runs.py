"""Adds of one block are gathered by ledger, and everything else is left where it stands."""

from __future__ import annotations

import pytest

from bookie_server.protocol.add_runs import VIEW_BYTES_MIN, RunHead, frame_end, gather
from bookie_server.storage.stored_entry import EntryRun
from ledger.errors import ProtocolError
from ledger.wire import v2
from ledger.wire.constants import HIGH_PRIORITY, RECOVERY_ADD
from ledger.wire.entry import ENTRY_HEADER
from ledger.wire.messages import AddRequest, ReadRequest

KEY = bytes(range(20))
LIMIT = 1024 * 1024


def entry(ledger_id: int, entry_id: int, payload: bytes = b"payload") -> bytes:
    return ENTRY_HEADER.pack(ledger_id, entry_id, entry_id - 1, 7) + b"DIGS" + payload


def add(
    ledger_id: int, entry_id: int, payload: bytes = b"payload", key: bytes = KEY, flags: int = 0
) -> bytes:
    return v2.encode_request(
        AddRequest(master_key=key, entry=entry(ledger_id, entry_id, payload), flags=flags)
    )


def gathered(block: bytes, limit: int = LIMIT) -> tuple[list[tuple[int, list[int]]], int]:
    runs: dict[bytes, EntryRun] = {}
    position = gather(block, 0, limit, runs)
    return [(RunHead(head).ledger_id, run.ids) for head, run in runs.items() if run.ids], position


def test_adds_of_one_ledger_are_one_run() -> None:
    block = b"".join(add(5, each) for each in range(4))
    assert gathered(block) == ([(5, [0, 1, 2, 3])], len(block))


def test_interleaved_ledgers_are_one_run_each() -> None:
    block = add(5, 0) + add(6, 9) + add(5, 1) + add(6, 10)
    assert gathered(block) == ([(5, [0, 1]), (6, [9, 10])], len(block))


def test_the_entry_is_kept_as_it_was_sent() -> None:
    runs: dict[bytes, EntryRun] = {}
    gather(add(5, 3), 0, LIMIT, runs)
    [run] = runs.values()
    assert run == EntryRun([3], [entry(5, 3)])


def test_a_large_entry_is_a_view_and_not_a_copy() -> None:
    runs: dict[bytes, EntryRun] = {}
    block = add(5, 3, bytes(VIEW_BYTES_MIN))
    gather(block, 0, LIMIT, runs)
    [run] = runs.values()
    [stored] = run.entries
    assert isinstance(stored, memoryview)
    assert stored.obj is block


def test_key_and_flags_part_the_runs() -> None:
    """A recovery add must not slip in with normal ones, nor a wrong key with the right one."""
    block = add(5, 0) + add(5, 1, flags=RECOVERY_ADD | HIGH_PRIORITY) + add(5, 2, key=bytes(20))
    runs: dict[bytes, EntryRun] = {}
    gather(block, 0, LIMIT, runs)
    heads = [RunHead(head) for head in runs]
    assert [each.flags for each in heads] == [0, RECOVERY_ADD | HIGH_PRIORITY, 0]
    assert [each.key for each in heads] == [KEY, KEY, bytes(20)]


@pytest.mark.parametrize(
    "other",
    [
        v2.encode_request(ReadRequest(ledger_id=5, entry_id=0)),
        v2.encode_request(AddRequest(version=3, master_key=KEY, entry=entry(5, 1))),
        v2.encode_request(AddRequest(version=1, master_key=KEY, entry=entry(5, 1))),
        add(-1, 1),
        add(5, -1),
        v2.encode_request(AddRequest(master_key=KEY, entry=entry(5, 1)[:23])),
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff" + bytes(60),
    ],
    ids=["read", "version 3", "version 1", "ledger -1", "entry -1", "short entry", "empty", "too long"],
)
def test_gathering_stops_before_anything_else(other: bytes) -> None:
    block = add(5, 0) + other + add(5, 2) + add(5, 3)
    found, position = gathered(block)
    assert found == [(5, [0])]
    assert position == len(add(5, 0))


def test_an_incomplete_add_stays_for_the_next_block() -> None:
    block = add(5, 0) + add(5, 1)
    for cut in range(len(add(5, 0)), len(block)):
        assert gathered(block[:cut]) == ([(5, [0])], len(add(5, 0)))


def test_an_add_over_the_limit_is_not_gathered() -> None:
    block = add(5, 0, bytes(100))
    assert gathered(block, limit=len(block)) == ([(5, [0])], len(block))
    assert gathered(block, limit=len(block) - 1) == ([], 0)


def test_frame_end_waits_for_the_frame_and_refuses_a_long_one() -> None:
    block = add(5, 0)
    assert frame_end(block, 0, LIMIT) == len(block)
    assert frame_end(block[:-1], 0, LIMIT) is None
    assert frame_end(block[:3], 0, LIMIT) is None
    with pytest.raises(ProtocolError):
        frame_end(block, 0, len(block) - 1)
