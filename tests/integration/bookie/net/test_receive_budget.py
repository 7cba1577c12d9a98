"""Half-sent frames of many peers: what they hold is bounded, and nobody else waits for them."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from ledger.wire import v3
from ledger.wire.messages import Operation, V3AddRequest, V3Request
from ledger.wire.status import Status
from tests.helpers.bookie.entries import KEY, add, add_answer, entry, fence, read_answer
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess, eventually

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
BUDGET_BYTES = 64 * MIB
ELSEWHERE = "127.0.0.2"
LARGE = bytes(5 * MIB - 1000)


def large_v3(ledger_id: int) -> bytes:
    body = V3AddRequest(ledger_id=ledger_id, entry_id=0, master_key=KEY, entry=entry(ledger_id, 0, LARGE))
    return v3.encode_request(V3Request(txn_id=1, operation=Operation.ADD_ENTRY, body=body))


@contextlib.contextmanager
def half_sent(port: int, count: int, frame: bytes) -> Iterator[list[socket.socket]]:
    """Peers that send all but the end of a large add, as far as the bookie takes it."""
    peers = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    left = {each: memoryview(frame)[:-100] for each in peers}
    try:
        for each in peers:
            each.setblocking(False)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < 0.5:
            for each in peers:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    if left[each]:
                        left[each] = left[each][each.send(left[each][:MIB]) :]
                        quiet_since = time.monotonic()
        yield peers
    finally:
        for each in peers:
            each.close()


def closed(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("version", ["v2", "v3"])
@pytest.mark.parametrize("count", [20, 100])
def test_half_sent_frames_hold_no_more_than_their_budget(
    bookie: BookieProcess, version: str, count: int
) -> None:
    """Large and small adds and a fence of another peer go on; whoever does not go on with its frame is cut off."""
    frame = add(7, 0, LARGE) if version == "v2" else large_v3(7)
    with RawClient(bookie.port, source=ELSEWHERE) as honest:
        assert add_answer(honest.ask(add(1, 0))).status is Status.EOK
        before = bookie.resident_bytes()
        with half_sent(bookie.port, count, frame) as peers:
            held = bookie.resident_bytes() - before
            print(f"{count} peers, {version}: {held / MIB:.0f} MiB")
            assert held < BUDGET_BYTES + 32 * MIB
            started = time.monotonic()
            for entry_id in range(1, 4):
                assert add_answer(honest.ask(add(1, entry_id))).status is Status.EOK
            assert read_answer(honest.ask(fence(1, 0))).status is Status.EOK
            small_s = time.monotonic() - started
            started = time.monotonic()
            assert add_answer(honest.ask(add(2, 0, LARGE))).status is Status.EOK
            large_s = time.monotonic() - started
            print(f"small requests took {small_s:.2f} s, a large add {large_s:.2f} s")
            assert small_s < 2.0
            eventually(lambda: sum(map(closed, peers)) >= min(12, count - 12))
        eventually(lambda: bookie.resident_bytes() - before < 48 * MIB)
        print(f"{(bookie.resident_bytes() - before) / MIB:.0f} MiB once they are gone")
