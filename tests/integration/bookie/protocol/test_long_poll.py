"""Readers that wait for the LAC over real connections."""

from __future__ import annotations

import time

import pytest

from ledger.wire import v3
from ledger.wire.messages import Operation, ReadFlag, V3ReadRequest, V3ReadResponse, V3Request
from ledger.wire.status import Status
from tests.helpers.bookie.entries import add, entry, fence
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess

pytestmark = pytest.mark.integration


def poll(ledger_id: int, previous_lac: int, timeout_ms: int, txn_id: int = 1) -> bytes:
    body = V3ReadRequest(
        ledger_id=ledger_id,
        entry_id=-1,
        previous_lac=previous_lac,
        timeout_ms=timeout_ms,
        flag=ReadFlag.PIGGYBACK,
    )
    return v3.encode_request(V3Request(txn_id=txn_id, operation=Operation.READ_ENTRY, body=body))


def answered(frame: bytes) -> V3ReadResponse:
    body = v3.decode_response(frame[4:]).body
    assert isinstance(body, V3ReadResponse)
    return body


def test_a_waiting_reader_gets_the_entry_with_the_news(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as writer, RawClient(bookie.port) as reader:
        writer.ask(add(1, 0))
        reader.send(poll(1, -1, 60_000))
        writer.ask(add(1, 1))
        found = answered(reader.frame())
    assert (found.entry_id, found.entry, found.max_lac) == (0, entry(1, 0), 0)
    assert found.lac_update_ms is not None


def test_nothing_new_is_answered_in_time(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as writer, RawClient(bookie.port) as reader:
        writer.ask(add(1, 0))
        started = time.monotonic()
        found = answered(reader.ask(poll(1, 5, 200)))
    assert (found.status, found.entry_id, found.max_lac) == (Status.EOK, -1, -1)
    assert time.monotonic() - started >= 0.2


def test_a_fence_wakes_the_reader(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as writer, RawClient(bookie.port) as reader:
        writer.ask(add(1, 0))
        reader.send(poll(1, 5, 60_000))
        writer.ask(fence(1))
        assert answered(reader.frame()).entry_id == -1


def test_a_reader_waits_for_the_first_entry_of_a_ledger_that_the_bookie_has_never_heard_of(
    bookie: BookieProcess,
) -> None:
    """Refused, the reader of an empty ledger would have to ask again and again."""
    with RawClient(bookie.port) as writer, RawClient(bookie.port) as reader:
        reader.send(poll(1, -1, 60_000))
        writer.ask(add(1, 0))
        writer.ask(add(1, 1))
        found = answered(reader.frame())
        assert (found.entry_id, found.entry, found.max_lac) == (0, entry(1, 0), 0)


def test_a_wait_for_a_ledger_that_never_comes_ends_in_time_with_its_refusal(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as reader:
        started = time.monotonic()
        found = answered(reader.ask(poll(1, -1, 200)))
    assert found.status is Status.ENOLEDGER
    assert time.monotonic() - started >= 0.2


def test_ten_thousand_waiters_cost_no_tasks_and_go_with_their_connection(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as writer:
        writer.ask(add(1, 0))
        before = bookie.resident_bytes()
        with RawClient(bookie.port) as reader:
            reader.send(b"".join(poll(1, 1_000_000, 3_600_000, txn_id) for txn_id in range(10_000)))
            writer.ask(add(1, 1))
        assert bookie.resident_bytes() < before + 64 * 1024 * 1024
        writer.ask(add(1, 2))
