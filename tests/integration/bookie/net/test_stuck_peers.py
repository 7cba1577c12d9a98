"""Peers that take none of their answers: what they hold is theirs, and a takeover does not wait for them."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from ledger.wire import v2, v3
from ledger.wire.constants import FENCE, HIGH_PRIORITY
from ledger.wire.messages import (
    Operation,
    ReadFlag,
    ReadRequest,
    V3ReadRequest,
    V3ReadResponse,
    V3Request,
)
from ledger.wire.status import Status
from tests.helpers.bookie.entries import KEY, add, add_answer, batch_read, entry, read, read_answer
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
LARGE_LEDGER = 9
ELSEWHERE = "127.0.0.2"


def fence_v2(ledger_id: int) -> bytes:
    """A recovery's read of a ledger, as our client sends it."""
    return v2.encode_request(
        ReadRequest(ledger_id=ledger_id, entry_id=0, master_key=KEY, flags=FENCE | HIGH_PRIORITY)
    )


def fence_v3(ledger_id: int) -> bytes:
    body = V3ReadRequest(ledger_id=ledger_id, entry_id=0, master_key=KEY, flag=ReadFlag.FENCE)
    return v3.encode_request(V3Request(txn_id=1, operation=Operation.READ_ENTRY, body=body, priority=100))


def entry_of(frame: bytes, version: str) -> bytes | None:
    if version == "v2":
        found = read_answer(frame).entry
    else:
        body = v3.decode_response(frame[4:]).body
        assert isinstance(body, V3ReadResponse)
        found = body.entry
    return None if found is None else bytes(found)


def reads_v2() -> bytes:
    return b"".join(batch_read(LARGE_LEDGER, 0) for _ in range(20)) + b"".join(
        read(LARGE_LEDGER, each % 4) for each in range(40)
    )


def reads_v3() -> bytes:
    return b"".join(
        v3.encode_request(
            V3Request(
                txn_id=each,
                operation=Operation.READ_ENTRY,
                body=V3ReadRequest(ledger_id=LARGE_LEDGER, entry_id=each % 4),
            )
        )
        for each in range(40)
    )


@contextlib.contextmanager
def stuck(port: int, count: int, requests: bytes) -> Iterator[list[socket.socket]]:
    """Peers that have asked for gigabytes and take nothing."""
    peers = []
    try:
        for _ in range(count):
            peer = socket.socket()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
            peer.connect(("127.0.0.1", port))
            peer.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                peer.send(requests)
            peers.append(peer)
        yield peers
    finally:
        for each in peers:
            each.close()


def timed(ask: Callable[[], bytes]) -> tuple[bytes, float]:
    started = time.monotonic()
    frame = ask()
    return frame, time.monotonic() - started


@pytest.mark.parametrize("version", ["v2", "v3"])
@pytest.mark.parametrize("count", [32, 200])
def test_a_fencing_read_does_not_wait_for_stuck_peers(
    bookie: BookieProcess, version: str, count: int
) -> None:
    """Nor do adds; a plain read waits until they are cut off, a few seconds later. What they hold is bounded."""
    fence, requests = (fence_v2, reads_v2()) if version == "v2" else (fence_v3, reads_v3())
    with RawClient(bookie.port, source=ELSEWHERE) as honest:
        for entry_id in range(4):
            assert add_answer(honest.ask(add(LARGE_LEDGER, entry_id, bytes(MIB)))).status is Status.EOK
        for ledger_id in range(20, 26):
            assert add_answer(honest.ask(add(ledger_id, 0))).status is Status.EOK
        before = bookie.resident_bytes()
        with stuck(bookie.port, count, requests), RawClient(bookie.port, source=ELSEWHERE) as writer:
            time.sleep(1.0)
            delays = []
            for ledger_id in range(20, 26):
                with RawClient(bookie.port, source=ELSEWHERE) as taker:
                    frame, delay_s = timed(lambda taker=taker, each=ledger_id: taker.ask(fence(each)))  # type: ignore[misc]
                assert entry_of(frame, version) == entry(ledger_id, 0)
                delays.append(delay_s)
                assert add_answer(writer.ask(add(1, ledger_id))).status is Status.EOK
            held = bookie.resident_bytes() - before
            frame, plain_s = timed(lambda: writer.ask(read(25, 0)))
            assert read_answer(frame).entry == entry(25, 0)
        print(
            f"{count} stuck peers, {version}: fencing reads took {max(delays) * 1000:.0f} ms at most, "
            f"a plain read {plain_s:.2f} s, {held / MIB:.0f} MiB held"
        )
        assert max(delays) < 2.0
        assert plain_s < 8.0
        assert held < 250 * MIB
