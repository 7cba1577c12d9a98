"""Entries up to the frame limit, in many pieces, over both protocols."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ledger.model import FRAME_BYTES_MAX
from ledger.wire import v3
from ledger.wire.messages import Operation, V3ReadRequest, V3ReadResponse, V3Request
from ledger.wire.status import Status
from tests.helpers.bookie.entries import (
    add,
    add_answer,
    batch_answer,
    batch_read,
    entry,
    read,
    read_answer,
)
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess

pytestmark = pytest.mark.integration

LARGEST_PAYLOAD = FRAME_BYTES_MAX - 4 - 24 - 36
"""Frame prefix, packet header and key, entry header and digest."""


def test_the_largest_entry_is_stored_and_read_over_both_protocols(bookie: BookieProcess) -> None:
    payload = bytes(range(256)) * (LARGEST_PAYLOAD // 256)
    payload += bytes(LARGEST_PAYLOAD - len(payload))
    question = V3Request(
        txn_id=1, operation=Operation.READ_ENTRY, body=V3ReadRequest(ledger_id=1, entry_id=0)
    )
    with RawClient(bookie.port) as client:
        assert add_answer(client.ask(add(1, 0, payload))).status is Status.EOK
        assert read_answer(client.ask(read(1, 0))).entry == entry(1, 0, payload)
    bookie.restart()
    with RawClient(bookie.port) as client:
        found = v3.decode_response(client.ask(v3.encode_request(question))[4:]).body
    assert isinstance(found, V3ReadResponse)
    assert found.entry == entry(1, 0, payload)


def test_one_byte_more_is_refused(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as client:
        try:
            client.send(add(1, 0, bytes(LARGEST_PAYLOAD + 1)))
        except ConnectionError:
            return
        client.expect_close()


def test_a_large_frame_in_small_pieces_is_not_copied_again_and_again(bookie: BookieProcess) -> None:
    """The same bytes, in pieces of 16 KiB, cost the bookie as much in large frames as in small ones."""
    small, large = bytes(LARGEST_PAYLOAD // 16), bytes(LARGEST_PAYLOAD)
    spent = []
    with RawClient(bookie.port) as client:
        for ledger_id, payload, count in ((2, small, 320), (3, large, 20)):
            before = cpu_s(bookie.pid)
            for entry_id in range(count):
                frame = add(ledger_id, entry_id, payload)
                for start in range(0, len(frame), 16 * 1024):
                    client.send(frame[start : start + 16 * 1024])
                assert add_answer(client.frame()).status is Status.EOK
            spent.append(cpu_s(bookie.pid) - before)
    assert spent[1] < 3 * spent[0], spent


def cpu_s(process_id: int) -> float:
    """Processor time that the process has used."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_batch_brings_what_fits_the_budget(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as client:
        for entry_id in range(50):
            client.ask(add(3, entry_id, bytes(100)))
        size = len(entry(3, 0, bytes(100)))
        for count in (1, 2, 7):
            budget = 36 + count * (size + 4)
            exact = batch_answer(client.ask(batch_read(3, 0, max_bytes=budget)))
            assert [bytes(each) for each in exact.entries] == [entry(3, n, bytes(100)) for n in range(count)]
            less = batch_answer(client.ask(batch_read(3, 0, max_bytes=budget - 1)))
            assert len(less.entries) == max(1, count - 1)
        everything = batch_answer(client.ask(batch_read(3, 0)))
        assert len(everything.entries) == 50
        assert batch_answer(client.ask(batch_read(3, 50))).status is Status.ENOENTRY


def test_many_concurrent_reads_are_all_answered(bookie: BookieProcess) -> None:
    """More reads than may run together, after a restart, so that they go to the disk."""
    with RawClient(bookie.port) as client:
        client.send(b"".join(add(4, each, bytes(2000)) for each in range(2000)))
        for _ in range(2000):
            assert add_answer(client.frame()).status is Status.EOK
    assert bookie.terminate() == 0
    bookie.start()
    with RawClient(bookie.port) as client:
        client.send(b"".join(read(4, each) for each in range(2000)))
        answers = [read_answer(client.frame()) for _ in range(2000)]
    found = {each.entry_id: each.entry for each in answers}
    assert found == {each: entry(4, each, bytes(2000)) for each in range(2000)}
