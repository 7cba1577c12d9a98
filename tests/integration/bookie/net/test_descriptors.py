"""More connections than the process may have descriptors: refused politely, while files can always be opened."""

from __future__ import annotations

import contextlib
import re
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.wire.status import Status
from tests.helpers.bookie.entries import add, add_answer, entry, read, read_answer
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess, eventually

pytestmark = pytest.mark.integration

KIB = 1024
CROWD = 1200
STRANGER = "127.0.0.2"
SMALL_LOGS = {
    "journal_segment_bytes": 64 * KIB,
    "write_cache_bytes_max": 256 * KIB,
    "entry_log_bytes_max": 256 * KIB,
    "read_cache_bytes_max": 0,
    "checkpoint_interval_s": 0.2,
    "disk_check_interval_s": 0.2,
}
"""Files are opened all the time: journal segments, entry logs, tables of the index."""


@pytest.fixture
def limited(metadata: str, tmp_path: Path) -> Iterator[BookieProcess]:
    """A bookie that is not started yet; it must not have complained of a bug when the test is over."""
    process = BookieProcess(metadata, tmp_path / "limited", storage=SMALL_LOGS)
    yield process
    process.stop()
    assert "Traceback" not in process.errors


@contextlib.contextmanager
def crowd(port: int, count: int = CROWD) -> Iterator[list[socket.socket]]:
    """Connections from one address that say nothing."""
    peers: list[socket.socket] = []
    try:
        for _ in range(count):
            peer = socket.socket()
            peer.settimeout(10)
            peer.bind((STRANGER, 0))
            peer.connect(("127.0.0.1", port))
            peer.setblocking(False)
            peers.append(peer)
        yield peers
    finally:
        for each in peers:
            each.close()


def closed(peer: socket.socket) -> bool:
    """Whether the bookie has closed this silent connection."""
    try:
        return peer.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def work(client: RawClient, ids: range) -> None:
    """Append and read back, by so much that many files are made and opened."""
    for entry_id in ids:
        assert add_answer(client.ask(add(1, entry_id, bytes(8 * KIB)))).status is Status.EOK, entry_id
    for entry_id in range(0, ids.stop, 7):
        assert read_answer(client.ask(read(1, entry_id))).entry == entry(1, entry_id, bytes(8 * KIB))


@pytest.mark.parametrize("descriptors", [512, pytest.param(1024, marks=pytest.mark.nightly)])
def test_a_crowd_beyond_the_hard_limit_costs_no_other_client_anything(
    limited: BookieProcess, descriptors: int
) -> None:
    limited.descriptors = (descriptors, descriptors)
    limited.start()
    with RawClient(limited.port) as honest:
        work(honest, range(50))
        with crowd(limited.port) as peers:
            work(honest, range(50, 400))
            eventually(lambda: sum(map(closed, peers)) >= CROWD - descriptors)
            assert limited.open_descriptors() < descriptors
            with RawClient(limited.port) as late:
                assert add_answer(late.ask(add(2, 0))).status is Status.EOK
            refused_count = sum(map(closed, peers))
        work(honest, range(400, 500))
    assert limited.terminate() == 0
    reports = [line for line in limited.warnings if "refused" in line]
    assert len(reports) <= 2, "once in a while and at the end, not for each connection"
    assert sum(int(re.search(rf"refused (\d+) .*{STRANGER}", line)[1]) for line in reports) == refused_count


def test_connections_refused_just_before_the_bookie_stops_are_reported(limited: BookieProcess) -> None:
    """The server looks at its connections each second, and this one is stopped sooner."""
    limited.descriptors = (512, 512)
    limited.start()
    with crowd(limited.port, 300) as peers:
        eventually(lambda: any(map(closed, peers)))
        assert limited.terminate() == 0
    assert re.search(rf"refused \d+ connections, \d+ of them from {STRANGER}", limited.errors), limited.errors


def test_the_soft_limit_is_raised_to_the_hard_one(limited: BookieProcess) -> None:
    """What most systems give a process: 1,024 at first, and many more if it asks."""
    limited.descriptors = (256, 4096)
    limited.start()
    with RawClient(limited.port) as honest, crowd(limited.port, 900) as peers:
        work(honest, range(100))
        assert not any(map(closed, peers))
    assert limited.terminate() == 0
    assert limited.warnings == []


def test_too_few_descriptors_are_refused_with_a_sentence(limited: BookieProcess) -> None:
    limited.descriptors = (128, 128)
    with pytest.raises(AssertionError) as refused:
        limited.start()
    assert re.search(r"limit of open files is 128.*ulimit -n \d+", str(refused.value))


def test_a_bookie_without_descriptors_goes_on_and_reports_it(limited: BookieProcess) -> None:
    """The limit falls below what is open: nothing can be opened, and the disk is as healthy as before."""
    limited.start()

    def turn() -> Status:
        nonlocal next_id
        status = add_answer(honest.ask(add(1, next_id, bytes(8 * KIB)))).status
        next_id += status is Status.EOK
        return status

    next_id = 0
    with RawClient(limited.port) as honest:
        work(honest, range(50))
        next_id = 50
        before = resource.prlimit(limited.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(limited.pid, resource.RLIMIT_NOFILE, (8, before[1]))
        eventually(lambda: turn() is Status.EREADONLY)
        acked = next_id
        for _ in range(20):
            assert turn() in (Status.EOK, Status.EREADONLY)
        assert read_answer(honest.ask(read(1, acked - 1))).entry == entry(1, acked - 1, bytes(8 * KIB))
        resource.prlimit(limited.pid, resource.RLIMIT_NOFILE, before)
        eventually(lambda: turn() is Status.EOK)
        eventually(lambda: [turn() for _ in range(100)] == [Status.EOK] * 100)
        for entry_id in range(next_id):
            assert read_answer(honest.ask(read(1, entry_id))).entry == entry(1, entry_id, bytes(8 * KIB))
    limited.restart()
    with RawClient(limited.port) as honest:
        assert read_answer(honest.ask(read(1, next_id - 1))).status is Status.EOK
    assert limited.terminate() == 0
    said = limited.warnings
    assert re.match("read-only until files can be opened again: .*too many open files", said[0]), said
    assert said[-2].startswith("writable again"), said
    assert said[-1].startswith("ledger 1 was stored"), "without an id from the cluster"
