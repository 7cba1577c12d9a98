"""Broken and malicious peers: cut off or answered, never remembered, never at the cost of others."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledger.wire import v2, v3
from ledger.wire.constants import HIGH_PRIORITY, RECOVERY_ADD
from ledger.wire.messages import (
    AddRequest,
    ForceLedgerRequest,
    ListEntriesRequest,
    Operation,
    ReadFlag,
    ReadLacRequest,
    V3AddRequest,
    V3ReadRequest,
    V3Request,
    V3RequestBody,
    WriteLacRequest,
)
from ledger.wire.status import Status
from tests.helpers.bookie.entries import KEY, add, add_answer, batch_read, entry, fence, read, read_answer
from tests.helpers.bookie.raw_client import ConnectionClosed, RawClient
from tests.helpers.processes.bookie import BookieProcess, eventually

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
STRICT: dict[str, object] = {
    "first_frame_s": 1,
    "frame_progress_s": 1,
    "send_stall_s": 2,
    "connections_max": 60,
    "connections_per_address_max": 50,
}


@pytest.fixture
def strict(metadata: str, tmp_path: Path) -> Iterator[BookieProcess]:
    """A bookie with short deadlines."""
    process = BookieProcess(metadata, tmp_path / "strict", limits=STRICT)
    process.start()
    yield process
    process.stop()


def honest_add_works(client: RawClient, entry_id: int) -> None:
    assert add_answer(client.ask(add(1, entry_id))).status is Status.EOK
    assert read_answer(client.ask(read(1, entry_id))).entry == entry(1, entry_id)


def test_a_lying_length_closes_its_connection_only(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as honest:
        honest_add_works(honest, 0)
        before = bookie.resident_bytes()
        for length in (0, 1, 3, 5 * MIB - 3, 2**31 - 1, 2**31, 2**32 - 1):
            with RawClient(bookie.port) as hostile:
                hostile.send(struct.pack(">I", length) + bytes(max(0, min(length, 8))))
                hostile.expect_close()
        honest_add_works(honest, 1)
        assert bookie.resident_bytes() < before + 8 * MIB


def test_garbage_closes_and_leaves_no_memory(bookie: BookieProcess) -> None:
    """Some thousand frames of noise, on many connections, framed correctly or not."""
    chance = random.Random(7)
    with RawClient(bookie.port) as honest:
        honest_add_works(honest, 0)
        before, descriptors = bookie.resident_bytes(), bookie.open_descriptors()
        for turn in range(300):
            body = chance.randbytes(chance.randrange(1, 200))
            if turn % 3 == 0:
                body = bytes((2, chance.choice((1, 2, 3, 7)), 0, chance.randrange(8))) + body
            with RawClient(bookie.port) as hostile:
                hostile.send(struct.pack(">I", len(body)) + body)
        honest_add_works(honest, 1)
        eventually(lambda: bookie.open_descriptors() <= descriptors)
        assert bookie.resident_bytes() < before + 16 * MIB


def test_garbage_is_logged_with_the_address_once_a_minute(bookie: BookieProcess) -> None:
    for _ in range(20):
        with RawClient(bookie.port) as hostile:
            hostile.send(b"GET / HTTP/1.1\r\n\r\n")
            hostile.expect_close()
    assert bookie.terminate() == 0
    one, more = bookie.warnings
    assert "closed the connection of 127.0.0.1, which sent no valid request: " in one
    assert "closed 19 more connections that sent no valid request, 19 of them from 127.0.0.1" in more


@pytest.mark.parametrize("pair", ["c20c00", "c20c040a001200"])
def test_a_frame_full_of_logging_context_costs_no_more_than_its_bytes(
    bookie: BookieProcess, pair: str
) -> None:
    """A million pairs in a request of version 3, complete or not, are passed over, and the request is answered."""
    request = v3_request(Operation.READ_LAC, ReadLacRequest(ledger_id=77))[4:]
    context = bytes.fromhex(pair) * (5_000_000 // (len(pair) // 2))
    with RawClient(bookie.port) as peer:
        plain = peer.ask(struct.pack(">I", len(request)) + request)
        before = bookie.peak_bytes()
        body = request + context
        assert peer.ask(struct.pack(">I", len(body)) + body) == plain
        assert bookie.peak_bytes() < before + 32 * MIB


EXTREMES = (-(2**63), -(2**31), -5, -2, -1, 0, 1, 2**31, 2**63 - 1)


def extreme_v2() -> Iterator[bytes]:
    """Every v2 request with every odd id."""
    for ledger_id in EXTREMES:
        for entry_id in EXTREMES:
            header = struct.pack(">qqqq", ledger_id, entry_id, entry_id, entry_id)
            for flags in (0, RECOVERY_ADD, HIGH_PRIORITY):
                yield v2.encode_request(AddRequest(master_key=KEY, entry=header + bytes(8), flags=flags))
            yield read(ledger_id, entry_id)
            yield fence(ledger_id, entry_id)
            for limit in EXTREMES:
                count = max(-(2**31), min(2**31 - 1, limit))
                yield batch_read(ledger_id, entry_id, max_count=count, max_bytes=limit)


def extreme_v3() -> Iterator[bytes]:
    """Every v3 request with every odd id."""
    for ledger_id in EXTREMES:
        yield v3_request(Operation.READ_LAC, ReadLacRequest(ledger_id=ledger_id))
        yield v3_request(Operation.FORCE_LEDGER, ForceLedgerRequest(ledger_id=ledger_id))
        yield v3_request(Operation.LIST_ENTRIES, ListEntriesRequest(ledger_id=ledger_id))
        for entry_id in EXTREMES:
            packet = struct.pack(">qq", ledger_id, entry_id)
            body = packet + packet + bytes(8)
            for key in (KEY, b"", b"short"):
                yield v3_request(
                    Operation.WRITE_LAC,
                    WriteLacRequest(ledger_id=ledger_id, lac=entry_id, master_key=key, packet=packet),
                )
                yield v3_request(
                    Operation.ADD_ENTRY,
                    V3AddRequest(ledger_id=ledger_id, entry_id=entry_id, master_key=key, entry=body),
                )
                for flag in (None, ReadFlag.FENCE, ReadFlag.PIGGYBACK):
                    yield v3_request(
                        Operation.READ_ENTRY,
                        V3ReadRequest(
                            ledger_id=ledger_id,
                            entry_id=entry_id,
                            master_key=key,
                            flag=flag,
                            previous_lac=None if flag is None else ledger_id,
                            timeout_ms=entry_id if entry_id < 2 else None,
                        ),
                    )


def v3_request(operation: Operation, body: V3RequestBody) -> bytes:
    return v3.encode_request(V3Request(txn_id=1, operation=operation, body=body))


@pytest.mark.parametrize("requests", [extreme_v2, extreme_v3])
def test_odd_numbers_are_answered_each_and_break_nothing(
    bookie: BookieProcess, requests: Callable[[], Iterator[bytes]]
) -> None:
    """Every request gets an answer, and the bookie starts again on what it has stored of them."""
    with RawClient(bookie.port) as client:
        for frame in requests():
            client.ask(frame)
    bookie.restart()
    with RawClient(bookie.port) as honest:
        assert add_answer(honest.ask(add(4242, 0))).status is Status.EOK


def test_a_slow_loris_is_cut_off(strict: BookieProcess) -> None:
    """A frame that never ends, a peer that never speaks: both go; a quiet honest peer stays."""
    with RawClient(strict.port) as honest, RawClient(strict.port) as silent, RawClient(strict.port) as slow:
        honest_add_works(honest, 0)
        slow.send(add(1, 1)[:10])
        slow.expect_close()
        silent.expect_close()
        honest_add_works(honest, 1)


def test_a_crowd_that_announces_large_frames_costs_little(bookie: BookieProcess) -> None:
    """200 peers announce 5 MiB each and send little: a gigabyte by promise, not by memory."""
    before = bookie.resident_bytes()
    crowd = [RawClient(bookie.port) for _ in range(200)]
    try:
        for each in crowd:
            each.send(struct.pack(">I", 5 * MIB - 4) + bytes(1000))
        with RawClient(bookie.port) as honest:
            honest_add_works(honest, 0)
        assert bookie.resident_bytes() < before + 32 * MIB
    finally:
        for each in crowd:
            each.close()


def test_a_peer_that_never_takes_its_answers_is_held_and_then_cut_off(strict: BookieProcess) -> None:
    """Ten peers ask for gigabytes and read nothing: the answers are not made, others are served."""
    with RawClient(strict.port) as honest:
        for entry_id in range(4):
            assert add_answer(honest.ask(add(9, entry_id, bytes(MIB)))).status is Status.EOK
        before = strict.resident_bytes()
        takers = [stuffed(strict.port) for _ in range(10)]
        for entry_id in range(20):
            honest_add_works(honest, entry_id)
        assert strict.resident_bytes() < before + 150 * MIB
        for each in takers:
            eventually(lambda each=each: is_closed(each))
        honest_add_works(honest, 20)


def stuffed(port: int) -> socket.socket:
    """A peer that has sent two thousand reads of large entries and takes no answer."""
    peer = socket.create_connection(("127.0.0.1", port))
    peer.setblocking(False)
    requests = b"".join(batch_read(9, 0) for _ in range(500)) + b"".join(read(9, 1) for _ in range(1500))
    with contextlib.suppress(BlockingIOError):
        peer.send(requests)
    return peer


def is_closed(peer: socket.socket) -> bool:
    """Whether the other side has reset the connection, without taking a byte from it."""
    try:
        peer.send(b"\x00")
    except BlockingIOError:
        return False
    except OSError:
        peer.close()
        return True
    return False


def test_connections_over_the_limit_are_closed_and_the_others_served(strict: BookieProcess) -> None:
    with RawClient(strict.port) as honest:
        honest_add_works(honest, 0)
        crowd = [RawClient(strict.port) for _ in range(60)]
        refused = 0
        for each in crowd:
            try:
                each.send(read(1, 0))
                each.frame()
            except (ConnectionClosed, OSError):
                refused += 1
        assert refused == 11
        honest_add_works(honest, 1)
        for each in crowd:
            each.close()


def test_half_closed_peers_are_closed_and_their_adds_kept(bookie: BookieProcess) -> None:
    peer = socket.create_connection(("127.0.0.1", bookie.port))
    peer.sendall(add(3, 0))
    peer.shutdown(socket.SHUT_WR)
    peer.settimeout(10)
    while True:
        try:
            if not peer.recv(1024):
                break
        except ConnectionError:
            break
    peer.close()
    with RawClient(bookie.port) as client:
        eventually(lambda: read_answer(client.ask(read(3, 0))).status is Status.EOK)


def test_a_flood_of_adds_does_not_grow_the_bookie(bookie: BookieProcess) -> None:
    """A peer that sends without ever waiting is held to the disk's pace."""
    total, chunk = 60_000, 1000
    with RawClient(bookie.port) as client:
        client.ask(add(4, 0, bytes(900)))
        before = bookie.resident_bytes()
        answered = peak = 0
        for start in range(1, total, chunk):
            client.send(
                b"".join(add(4, each, bytes(900)) for each in range(start, min(start + chunk, total)))
            )
            peak = max(peak, bookie.resident_bytes())
            while answered < start - 20 * chunk:
                assert add_answer(client.frame()).status is Status.EOK
                answered += 1
        while answered < total - 1:
            assert add_answer(client.frame()).status is Status.EOK
            answered += 1
    assert peak < before + 400 * MIB
