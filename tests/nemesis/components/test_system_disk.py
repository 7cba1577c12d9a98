"""A real bookie whose system calls fail: what it acknowledged is there after the next start, and it reports why.

strace lets one kind of call fail, from its n-th call on or only then. With NEMESIS_SECONDS set, all of the list do.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.wire.status import Status
from tests.helpers.bookie.entries import add, add_answer, entry, fence, read, read_answer
from tests.helpers.bookie.raw_client import ConnectionClosed, RawClient
from tests.helpers.processes.bookie import BookieProcess, run_bookie
from tests.helpers.processes.strace import needs_strace, strace

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    needs_strace,
]

FENCED = 9
PAYLOAD = b"x" * 3000
ADDS, BURST = 1500, 50
CHECKPOINTS_S = 0.4
"""Time for some of them, after the adds."""

FAULTS = [
    "fdatasync:error=EIO:when=3+",
    "fdatasync:error=EIO:when=9",
    "fsync:error=EIO:when=1",
    "pwritev2:error=EIO:when=4",
    "pwritev2:error=ENOSPC:when=4+",
    "pwritev2:retval=0:when=3",
    "write:error=ENOSPC:when=20+",
    "openat:error=EMFILE:when=2+",
    "openat:error=EIO:when=1",
    "fallocate:error=ENOSPC:when=1+",
    "rename:error=EIO:when=1",
    "unlink:error=EIO:when=1+",
    "pread64:error=EIO:when=1",
]
if "NEMESIS_SECONDS" not in os.environ:
    FAULTS = FAULTS[::4]


@pytest.fixture
def bookie(tmp_path: Path) -> Iterator[BookieProcess]:
    """With files so small and checkpoints so frequent that every kind of call is made within a second."""
    uri = f"sqlite:///{tmp_path / 'meta.db'}"
    done = run_bookie("init-cluster", "--metadata", uri)
    assert done.returncode == 0, done.stderr
    process = BookieProcess(
        uri,
        tmp_path / "bookie",
        storage={
            "journal_segment_bytes": 1 << 20,
            "checkpoint_interval_s": CHECKPOINTS_S / 4,
            "entry_log_bytes_max": 1 << 20,
        },
    )
    process.start()
    yield process
    process.stop()


@pytest.mark.parametrize("fault", FAULTS)
def test_what_was_acknowledged_is_there_after_the_next_start(bookie: BookieProcess, fault: str) -> None:
    with RawClient(bookie.port) as client:
        assert add_answer(client.ask(add(FENCED, 0))).status is Status.EOK
        assert read_answer(client.ask(fence(FENCED, 0))).status is Status.EOK
        trace = bookie.data.with_suffix(".trace")
        with strace(bookie.pid, fault, trace):
            acked = acknowledged(client)
            time.sleep(CHECKPOINTS_S)
    assert "(INJECTED)" in trace.read_text(), "the bookie made no such call"
    with contextlib.suppress(AssertionError):  # it may have ended by itself, with a sentence
        bookie.kill()
    assert "Traceback" not in bookie.errors, bookie.errors[-3000:]
    bookie.start()
    with RawClient(bookie.port) as client:
        for entry_id in acked:
            found = read_answer(client.ask(read(1, entry_id)))
            assert (found.status, found.entry) == (Status.EOK, entry(1, entry_id, PAYLOAD)), (fault, entry_id)
        assert add_answer(client.ask(add(FENCED, 1))).status is Status.EFENCED
        assert add_answer(client.ask(add(2, 0))).status is Status.EOK


def acknowledged(client: RawClient) -> list[int]:
    """The adds of ledger 1 that succeeded, until all are answered or the connection is closed."""
    found: list[int] = []
    with contextlib.suppress(ConnectionClosed, OSError):
        for first in range(0, ADDS, BURST):
            client.send(b"".join(add(1, each, PAYLOAD) for each in range(first, first + BURST)))
            for _ in range(BURST):
                answer = add_answer(client.frame())
                if answer.status is Status.EOK:
                    found.append(answer.entry_id)
    return found
