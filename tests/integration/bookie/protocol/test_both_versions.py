"""How a bookie tells v2 from v3 on one connection (docs/bookkeeper.md#telling-v2-from-v3)."""

from __future__ import annotations

import pytest

from ledger.wire import v2, v3
from ledger.wire.frame import frame
from ledger.wire.messages import Operation, ReadLacRequest, ReadRequest, V3Request
from ledger.wire.status import Status
from tests.helpers.bookie.entries import add, answer, read
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess

READ_LAC = v3.encode_request(
    V3Request(txn_id=5, operation=Operation.READ_LAC, body=ReadLacRequest(ledger_id=1))
)


def test_v3_then_v2_on_one_connection_works(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as client:
        client.ask(add(1, 0))
    with RawClient(bookie.port) as client:
        for _ in range(2):
            assert v3.decode_response(client.ask(READ_LAC)[4:]).status is Status.EOK
        for _ in range(2):
            assert answer(client.ask(read(1, 0))).status is Status.EOK


def test_v3_after_v2_ends_the_connection(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as client:
        client.ask(add(1, 0))
        client.send(READ_LAC)
        client.expect_close()


def test_version_10_of_v2_begins_like_v3_and_is_answered_as_v2(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as client:
        asked = v2.encode_request(ReadRequest(ledger_id=1, entry_id=2, version=10))
        assert answer(client.ask(asked)).status is Status.EBADVERSION


@pytest.mark.parametrize("body", [bytes.fromhex("0a070803106318a001"), b"\x02", b"\x0a", b"\xff" * 40])
def test_what_is_neither_ends_the_connection(bookie: BookieProcess, body: bytes) -> None:
    with RawClient(bookie.port) as client:
        client.send(frame(body))
        client.expect_close()
