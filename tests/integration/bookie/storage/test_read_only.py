"""A bookie whose disks are too full: refuses new writers, serves everything that ends a takeover."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.wire import v3
from ledger.wire.messages import ForceLedgerRequest, Operation, V3Request, WriteLacRequest
from ledger.wire.status import Status
from tests.helpers.bookie.entries import KEY, add, add_answer, entry, fence, lac_packet, read, read_answer
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess, listed_bookies

pytestmark = pytest.mark.integration

FULL: dict[str, object] = {"disk_usage_max": 1e-7, "disk_usage_writable": 5e-8}


@pytest.fixture
def full(metadata: str, tmp_path: Path) -> Iterator[BookieProcess]:
    """A bookie that had room for one ledger and has none now."""
    process = BookieProcess(metadata, tmp_path / "bookie")
    process.start()
    with RawClient(process.port) as client:
        assert add_answer(client.ask(add(1, 0))).status is Status.EOK
    assert process.terminate() == 0
    process.settings = {"storage": FULL}
    process.start()
    yield process
    process.stop()


def v3_status(client: RawClient, operation: Operation, body: WriteLacRequest | ForceLedgerRequest) -> Status:
    question = V3Request(txn_id=1, operation=operation, body=body, priority=100)
    return v3.decode_response(client.ask(v3.encode_request(question))[4:]).outcome


def test_it_is_listed_as_read_only(full: BookieProcess) -> None:
    assert [each["state"] for each in listed_bookies(full.metadata)] == ["read-only"]


def test_a_takeover_still_works(full: BookieProcess) -> None:
    with RawClient(full.port) as client:
        assert add_answer(client.ask(add(1, 1))).status is Status.EREADONLY
        assert add_answer(client.ask(add(1, 1, recovery=True))).status is Status.EREADONLY
        assert read_answer(client.ask(fence(1))).entry == entry(1, 0)
        assert add_answer(client.ask(add(1, 1, recovery=True, priority=True))).status is Status.EOK
        assert read_answer(client.ask(read(1, 1))).entry == entry(1, 1)
        assert add_answer(client.ask(add(9, 0, priority=True))).status is Status.EOK


def test_an_explicit_lac_is_refused_and_a_force_is_not(full: BookieProcess) -> None:
    write_lac = WriteLacRequest(ledger_id=1, lac=0, master_key=KEY, packet=lac_packet(1, 0))
    with RawClient(full.port) as client:
        assert v3_status(client, Operation.WRITE_LAC, write_lac) is Status.EREADONLY
        assert v3_status(client, Operation.FORCE_LEDGER, ForceLedgerRequest(ledger_id=1)) is Status.EOK
