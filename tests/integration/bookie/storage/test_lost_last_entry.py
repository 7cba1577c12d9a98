"""The last entry of a ledger is known to have been taken: where it is not found, it was lost and not "never there"."""

from __future__ import annotations

import struct

import pytest

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.entry_logs.format import SUFFIX
from ledger.wire import v3
from ledger.wire.messages import (
    ListEntriesRequest,
    Operation,
    ReadFlag,
    ReadLacRequest,
    V3ReadRequest,
    V3Request,
    V3RequestBody,
    WriteLacRequest,
)
from ledger.wire.status import Status
from tests.helpers.bookie.damaged_journal import damage_the_middle_of_the_journal, killed_after_ten_adds
from tests.helpers.bookie.entries import (
    KEY,
    add,
    add_answer,
    batch_answer,
    batch_read,
    entry,
    fence,
    lac_packet,
    read,
    read_answer,
)
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess

pytestmark = pytest.mark.integration

LAST = 9
V2_READS = {
    "read": read(1, LAST),
    "read of the last entry": read(1, -1),
    "fencing read": fence(1, LAST),
    "fencing read of the last entry": fence(1, -1),
}
BATCH_READS = {"batch read": batch_read(1, LAST), "batch read of the last entry": batch_read(1, -1)}


def v3_read(entry_id: int, **more: object) -> V3ReadRequest:
    return V3ReadRequest(ledger_id=1, entry_id=entry_id, **more)  # type: ignore[arg-type]  # as in its definition


V3_READS: dict[str, tuple[Operation, V3RequestBody]] = {
    "v3 read": (Operation.READ_ENTRY, v3_read(LAST)),
    "v3 read of the last entry": (Operation.READ_ENTRY, v3_read(-1)),
    "v3 fencing read": (Operation.READ_ENTRY, v3_read(LAST, flag=ReadFlag.FENCE, master_key=KEY)),
    "long poll": (
        Operation.READ_ENTRY,
        v3_read(-1, flag=ReadFlag.PIGGYBACK, previous_lac=LAST - 1, timeout_ms=100),
    ),
    "READ_LAC": (Operation.READ_LAC, ReadLacRequest(ledger_id=1)),
    "list of entries": (Operation.LIST_ENTRIES, ListEntriesRequest(ledger_id=1)),
}


def v3_status(port: int, operation: Operation, body: V3RequestBody) -> Status:
    with RawClient(port) as client:  # a connection speaks one version
        frame = client.ask(v3.encode_request(V3Request(txn_id=1, operation=operation, body=body)))
    return v3.decode_response(frame[4:]).outcome


def statuses(port: int) -> dict[str, Status]:
    with RawClient(port) as client:
        found = {name: read_answer(client.ask(frame)).status for name, frame in V2_READS.items()}
        found |= {name: batch_answer(client.ask(frame)).status for name, frame in BATCH_READS.items()}
    return found | {name: v3_status(port, *asked) for name, asked in V3_READS.items()}


def stopped_after_ten_entries_in_ten_blocks(bookie: BookieProcess) -> None:
    bookie.settings = {"storage": {"block_bytes_max": 1}}
    bookie.restart()
    with RawClient(bookie.port) as client:
        for entry_id in range(LAST + 1):
            assert add_answer(client.ask(add(1, entry_id))).status is Status.EOK
    lac = WriteLacRequest(ledger_id=1, lac=LAST, master_key=KEY, packet=lac_packet(1, LAST))
    assert v3_status(bookie.port, Operation.WRITE_LAC, lac) is Status.EOK
    assert set(statuses(bookie.port).values()) == {Status.EOK}
    assert bookie.terminate() == 0


def lose_the_last_interval(bookie: BookieProcess) -> None:
    index = SystemDisk().open_key_values(bookie.data / "ledgers" / "index")
    key = struct.pack(">cQQ", b"I", 1, LAST)
    assert index.get(key) is not None
    index.write((), [key])
    index.sync()
    index.close()


def test_the_last_entry_missing_is_unknown_to_every_request(bookie: BookieProcess) -> None:
    stopped_after_ten_entries_in_ten_blocks(bookie)
    lose_the_last_interval(bookie)
    bookie.start()
    found = statuses(bookie.port)
    assert found == dict.fromkeys(found, Status.EIO)
    with RawClient(bookie.port) as client:
        assert read_answer(client.ask(read(1, LAST - 1))).entry == entry(1, LAST - 1)
        before = batch_answer(client.ask(batch_read(1, LAST - 2)))
        assert before.entries == (entry(1, LAST - 2), entry(1, LAST - 1))
        assert read_answer(client.ask(read(1, LAST + 1))).status is Status.ENOENTRY
        assert add_answer(client.ask(add(1, LAST, recovery=True))).status is Status.EOK
        assert read_answer(client.ask(read(1, LAST))).entry == entry(1, LAST)


def test_damage_of_an_entry_log_is_logged_with_the_file_and_the_way_out(bookie: BookieProcess) -> None:
    """Clients only get EIO. However many reads fail, there are two lines: the first one, and how many more."""
    stopped_after_ten_entries_in_ten_blocks(bookie)
    [log] = (bookie.data / "ledgers" / "entry-logs").glob(f"*{SUFFIX}")
    data = log.read_bytes()
    at = data.index(entry(1, 3)[-8:])
    log.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    bookie.start()
    with RawClient(bookie.port) as client:
        assert read_answer(client.ask(read(1, 2))).entry == entry(1, 2)
        for _ in range(20):
            assert read_answer(client.ask(read(1, 3))).status is Status.EIO
    assert bookie.terminate() == 0
    first, *more = [line for line in bookie.errors.splitlines() if str(log) in line]
    assert "is damaged at offset" in first and "docs/operations.md#a-damaged-entry-log" in first
    counts = [int(line.split(" more failed read")[0].rsplit(maxsplit=1)[-1]) for line in more]
    assert 1 <= len(counts) <= 2 and sum(counts) == 19


def test_a_list_of_entries_in_limbo_leaves_none_out_silently(bookie: BookieProcess) -> None:
    killed_after_ten_adds(bookie)
    damage_the_middle_of_the_journal(bookie)
    bookie.settings = {"storage": {"limbo_on_damage": True}}
    bookie.start()
    listed = v3_status(bookie.port, Operation.LIST_ENTRIES, ListEntriesRequest(ledger_id=1))
    assert listed is Status.EUNKNOWNLEDGERSTATE
