"""Adds of one block are gathered by ledger, all else is left in place; responses equal the codec's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie_server.net.receive_buffer import frame_end
from bookie_server.protocol.requests import AddRun, Adds
from bookie_server.protocol.v2_adds import SHORT_RUN, VIEW_BYTES_MIN, AddResponses, gather
from ledger.errors import ProtocolError
from ledger.wire import v2
from ledger.wire.constants import ADD_HEADER, HIGH_PRIORITY, RECOVERY_ADD
from ledger.wire.entry import ENTRY_HEADER
from ledger.wire.messages import AddRequest, AddResponse, ReadRequest
from ledger.wire.status import Status

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


def runs_of(block: bytes, limit: int = LIMIT) -> tuple[Sequence[AddRun], int]:
    adds, position = gather(block, 0, limit)
    if adds is None:
        return [], position
    assert isinstance(adds, Adds)
    assert adds.byte_count == position
    return adds.runs, position


def gathered(block: bytes, limit: int = LIMIT) -> tuple[list[tuple[int, list[int]]], int]:
    runs, position = runs_of(block, limit)
    return [(run.ledger_id, run.ids) for run in runs], position


def test_adds_of_one_ledger_are_one_run() -> None:
    block = b"".join(add(5, each) for each in range(4))
    assert gathered(block) == ([(5, [0, 1, 2, 3])], len(block))


def test_interleaved_ledgers_are_one_run_each() -> None:
    block = add(5, 0) + add(6, 9) + add(5, 1) + add(6, 10)
    assert gathered(block) == ([(5, [0, 1]), (6, [9, 10])], len(block))


def test_the_entry_is_kept_as_it_was_sent() -> None:
    [run], _ = runs_of(add(5, 3))
    assert (run.ids, run.entries) == ([3], [entry(5, 3)])


def test_a_large_entry_is_a_view_and_not_a_copy() -> None:
    block = add(5, 3, bytes(VIEW_BYTES_MIN))
    [run], _ = runs_of(block)
    [stored] = run.entries
    assert isinstance(stored, memoryview)
    assert stored.obj is block


def test_key_and_flags_part_the_runs() -> None:
    """A recovery add must not slip in with normal ones, nor a wrong key with the right one."""
    block = add(5, 0) + add(5, 1, flags=RECOVERY_ADD | HIGH_PRIORITY) + add(5, 2, key=bytes(20))
    runs, _ = runs_of(block)
    assert [(each.recovery, each.priority) for each in runs] == [(False, False), (True, True), (False, False)]
    assert [each.key for each in runs] == [KEY, KEY, bytes(20)]


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


ids = st.integers(min_value=0, max_value=2**63 - 1)


def responses(
    runs: Sequence[AddRun], status: Status = Status.EOK, conflicts: frozenset[int] = frozenset()
) -> bytes:
    return AddResponses(ADD_HEADER).added(runs, status, conflicts)


def encoded(ledger_id: int, entry_id: int, status: Status) -> bytes:
    return v2.encode_response(AddResponse(status=status, ledger_id=ledger_id, entry_id=entry_id))


@given(
    ledger_id=ids,
    entry_ids=st.lists(ids, min_size=1, max_size=2 * SHORT_RUN),
    status=st.sampled_from(Status),
)
def test_the_responses_to_a_run_are_the_single_responses_joined(
    ledger_id: int, entry_ids: list[int], status: Status
) -> None:
    runs, _ = runs_of(b"".join(add(ledger_id, each) for each in entry_ids))
    assert responses(runs, status) == b"".join(encoded(ledger_id, each, status) for each in entry_ids)


@pytest.mark.parametrize("count", [SHORT_RUN - 1, SHORT_RUN, SHORT_RUN + 1])
def test_both_ways_to_build_the_responses_agree(count: int) -> None:
    runs, _ = runs_of(b"".join(add(7, each) for each in range(count)))
    assert responses(runs) == b"".join(encoded(7, each, Status.EOK) for each in range(count))


def test_short_and_long_runs_that_arrived_together_are_all_answered() -> None:
    lengths = {5: 1, 6: SHORT_RUN, 7: 2, 8: SHORT_RUN + 1, 9: 1}
    runs, _ = runs_of(
        b"".join(add(each, number) for each, count in lengths.items() for number in range(count))
    )
    sent = responses(runs)
    answered = Counter(sent[start : start + 28] for start in range(0, len(sent), 28))
    assert answered == Counter(
        encoded(each, number, Status.EOK) for each, count in lengths.items() for number in range(count)
    )


def test_only_the_conflicting_entries_of_a_run_are_refused() -> None:
    runs, _ = runs_of(add(7, 3) + add(7, 4) + add(7, 5))
    sent = responses(runs, Status.EOK, frozenset({4}))
    assert sent == encoded(7, 3, Status.EOK) + encoded(7, 4, Status.EBADREQ) + encoded(7, 5, Status.EOK)
