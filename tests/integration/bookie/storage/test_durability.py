"""What was acknowledged survives kill -9: entries, fences, keys and explicit LACs."""

from __future__ import annotations

import pytest

from ledger.wire import v3
from ledger.wire.messages import Operation, ReadLacRequest, ReadLacResponse, V3Request, WriteLacRequest
from ledger.wire.status import Status
from tests.helpers.bookie.entries import (
    KEY,
    WRONG_KEY,
    add,
    add_answer,
    entry,
    fence,
    lac_packet,
    read,
    read_answer,
)
from tests.helpers.bookie.raw_client import ConnectionClosed, RawClient
from tests.helpers.processes.bookie import BookieProcess

pytestmark = pytest.mark.integration


def status_of_add(client: RawClient, frame: bytes) -> Status:
    return add_answer(client.ask(frame)).status


def test_every_acknowledged_add_survives_kill_9(bookie: BookieProcess) -> None:
    """Killed while adds are on their way: what was answered is there, byte for byte."""
    acknowledged: list[int] = []
    with RawClient(bookie.port) as client:
        client.send(b"".join(add(1, each) for each in range(2000)))
        try:
            while True:
                answer = add_answer(client.frame())
                assert answer.status is Status.EOK
                acknowledged.append(answer.entry_id)
                if len(acknowledged) == 700:
                    bookie.kill()
        except ConnectionClosed:
            pass
    assert acknowledged == list(range(len(acknowledged)))
    bookie.start()
    with RawClient(bookie.port) as client:
        for entry_id in acknowledged:
            found = read_answer(client.ask(read(1, entry_id)))
            assert (found.status, found.entry) == (Status.EOK, entry(1, entry_id))


def test_a_fence_survives_kill_9(bookie: BookieProcess) -> None:
    """Also of a ledger that never had an entry here."""
    with RawClient(bookie.port) as client:
        assert status_of_add(client, add(1, 0)) is Status.EOK
        assert read_answer(client.ask(fence(1))).entry == entry(1, 0)
        assert read_answer(client.ask(fence(2))).status is Status.ENOENTRY
    bookie.restart()
    with RawClient(bookie.port) as client:
        assert status_of_add(client, add(1, 1)) is Status.EFENCED
        assert status_of_add(client, add(2, 0)) is Status.EFENCED
        assert status_of_add(client, add(1, 1, recovery=True)) is Status.EOK


def test_the_key_of_a_ledger_survives_kill_9(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as client:
        assert status_of_add(client, add(1, 0)) is Status.EOK
    bookie.restart()
    with RawClient(bookie.port) as client:
        assert status_of_add(client, add(1, 1, key=WRONG_KEY)) is Status.EUA
        assert read_answer(client.ask(fence(1, key=WRONG_KEY))).status is Status.EUA
        assert status_of_add(client, add(1, 1)) is Status.EOK


def test_an_explicit_lac_survives_kill_9(bookie: BookieProcess) -> None:
    packet = lac_packet(1, 0)
    body = WriteLacRequest(ledger_id=1, lac=0, master_key=KEY, packet=packet)
    with RawClient(bookie.port) as client:
        assert status_of_add(client, add(1, 0)) is Status.EOK
    with RawClient(bookie.port) as client:
        answer = client.ask(v3.encode_request(V3Request(txn_id=1, operation=Operation.WRITE_LAC, body=body)))
        assert v3.decode_response(answer[4:]).outcome is Status.EOK
    bookie.restart()
    question = V3Request(txn_id=2, operation=Operation.READ_LAC, body=ReadLacRequest(ledger_id=1))
    with RawClient(bookie.port) as client:
        answer = client.ask(v3.encode_request(question))
    found = v3.decode_response(answer[4:]).body
    assert isinstance(found, ReadLacResponse)
    assert (found.lac_packet, found.last_entry) == (packet, entry(1, 0))


def test_a_restart_after_a_restart_changes_nothing(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as client:
        for entry_id in range(10):
            client.ask(add(1, entry_id))
    for _ in range(3):
        bookie.restart()
        with RawClient(bookie.port) as client:
            last = read_answer(client.ask(read(1, -1)))
            assert last.entry == entry(1, 9)
