"""What the blocking writer adds to the asyncio one: its limits hold for what still is on its way to the loop."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import pytest

from dlog.blocking.pending import Pending
from dlog.blocking.writer import Writer
from dlog.core.batching import BatchLimits
from dlog.errors import QueueFullError
from ledger.config import LedgerClientConfig
from ledger.errors import ConfigurationError, LogStoreError
from tests.helpers.log.blocking_log import blocking_log

KIB = 1024
SMALL = BatchLimits(entry_bytes_max=64 * KIB, batch_bytes=16 * KIB)
PATIENT = LedgerClientConfig(add_timeout_s=30.0, quorum_timeout_s=30.0)


def _submit_all(writer: Writer, found: list[Pending[Any]], payload: bytes, count: int, many: int) -> None:
    with suppress(LogStoreError):
        for _ in range(count):
            found.append(writer.submit_many([payload] * many) if many else writer.submit(payload))


def _settled_length(*found: list[Pending[Any]], at_least: int = 0) -> int:
    """How many were accepted once no more are. Below `at_least` the machine may just be slow."""
    length, give_up_at = -1, time.monotonic() + 20
    while (length != _length(found) or length < at_least) and time.monotonic() < give_up_at:
        length = _length(found)
        time.sleep(0.3)
    return length


def _length(found: Iterable[list[Pending[Any]]]) -> int:
    return sum(map(len, found))


@pytest.mark.parametrize(("size", "many"), [(10 * KIB, 0), (60 * KIB, 0), (100, 0), (1, 0), (10 * KIB, 5)])
@pytest.mark.parametrize("threads", [1, 4])
def test_the_buffer_limit_holds_for_what_waits_to_cross(size: int, many: int, threads: int) -> None:
    """Bookies are silent: callers wait at `buffer_bytes_max`, whatever the size of their messages; then all goes.

    What a message and its result occupy in addition to the payload counts, too.
    """
    limit, payload, overhead = 1024 * KIB, b"x" * size, 300
    count = 3 * limit // ((size + overhead) * max(many, 1)) // threads
    with blocking_log() as log:
        writer = log.client(buffer_bytes_max=limit, batching=SMALL, ledger=PATIENT).open_writer(
            "orders", create=True
        )
        log.be_silent()
        found: list[Pending[Any]] = []
        callers = [
            threading.Thread(target=_submit_all, args=(writer, found, payload, count, many))
            for _ in range(threads)
        ]
        for caller in callers:
            caller.start()
        call_bytes = (size + overhead) * max(many, 1)
        accepted = _settled_length(found, at_least=limit // 2 // call_bytes + 1) * call_bytes
        # The limit is exceeded by an entry or two, and by what the loop has taken from the crossing for another one.
        entry_bytes = max(SMALL.batch_bytes // (size + 16), many, 1) * (size + overhead)
        assert limit // 2 <= accepted <= limit + 3 * entry_bytes + threads * size * max(many, 1)
        log.speak()
        for caller in callers:
            caller.join(30)
        assert len(found) == count * threads
        for pending in found:
            pending.result(timeout=30)


@pytest.mark.parametrize("size", [100, 20 * KIB])
def test_the_limit_of_all_writers_holds_for_what_waits_to_cross(size: int) -> None:
    """One thread for each of some writers; then all goes. Each writer may have two batches more."""
    limit, overhead, threads = 1024 * KIB, 300, 8
    count = 3 * limit // (size + overhead) // threads
    with blocking_log() as log:
        client = log.client(unacknowledged_bytes_max=limit, batching=SMALL, ledger=PATIENT)
        writers = [client.open_writer(f"log-{number}", create=True) for number in range(threads)]
        log.be_silent()
        found: list[list[Pending[Any]]] = [[] for _ in writers]
        callers = [
            threading.Thread(target=_submit_all, args=(writer, accepted, b"x" * size, count, 0))
            for writer, accepted in zip(writers, found, strict=True)
        ]
        for caller in callers:
            caller.start()
        length = _settled_length(*found, at_least=limit // 2 // (size + overhead) + 1)
        batches = threads * 2 * (SMALL.batch_bytes // size + 1) * (size + overhead)
        assert limit // 2 <= length * (size + overhead) <= limit * 3 // 2 + batches
        log.speak()
        for caller in callers:
            caller.join(30)
        for accepted in found:
            assert len(accepted) == count
            for pending in accepted:
                pending.result(timeout=30)


def test_a_call_that_waits_in_vain_names_the_limit() -> None:
    with blocking_log() as log:
        client = log.client(unacknowledged_bytes_max=64 * KIB, batching=SMALL, ledger=PATIENT)
        writer = client.open_writer("orders", create=True)
        log.be_silent()
        with pytest.raises(
            QueueFullError, match=r"orders had no capacity for 0\.1 s: all writers .* raise unack"
        ):
            for _ in range(100):
                writer.submit(b"x" * 10 * KIB, timeout_s=0.1)


@pytest.mark.parametrize("count", [3, 3000])
def test_close_ends_within_its_timeout(count: int) -> None:
    """Bookies are silent, the buffer is full, calls wait to cross: after `timeout_s` each has its outcome."""
    with blocking_log() as log:
        writer = log.client(buffer_bytes_max=64 * KIB, batching=SMALL, ledger=PATIENT).open_writer(
            "orders", create=True
        )
        log.be_silent()
        found: list[Pending[Any]] = []
        caller = threading.Thread(target=_submit_all, args=(writer, found, b"x" * KIB, count, 0))
        caller.start()
        _settled_length(found)
        began = time.monotonic()
        with suppress(LogStoreError):
            writer.close(timeout_s=0.5)
        assert time.monotonic() - began < 2.5
        caller.join(5)
        assert not caller.is_alive()
        for pending in found:
            assert pending.done()
            with pytest.raises(LogStoreError):
                pending.result()


def test_the_loop_does_other_work_while_many_calls_cross() -> None:
    with blocking_log() as log:
        writer = log.client().open_writer("orders", create=True)
        loop, queued, turns = writer._thread.loop, threading.Event(), [0]

        def count_turns() -> None:
            if not writer._crossing.empty:
                turns[0] += 1
                loop.call_soon(count_turns)

        writer._thread.post(lambda: queued.wait(30))
        found = [writer.submit(b"x") for _ in range(4000)]
        writer._thread.post(count_turns)
        queued.set()
        for pending in found:
            pending.result(timeout=30)
        assert turns[0] >= 4


def test_a_failure_that_comes_while_failures_are_reported_is_reported_next() -> None:
    """The loop adds to them while another thread is in `flush` or `close`."""
    count, interval = 30_000, sys.getswitchinterval()
    with blocking_log() as log:
        writer = log.client().open_writer("orders", create=True)
        board, failed = writer._board, threading.Event()
        pending: list[Pending[Any]] = []

        def fail() -> None:
            for number in range(count):
                pending.append(Pending(board))
                pending[-1].fail(OSError(number))
            failed.set()

        sys.setswitchinterval(1e-6)
        try:
            writer._thread.post(fail)
            reported = 0
            while not failed.is_set():
                if (failure := writer.unread_failures()) is not None:
                    reported += failure.count
        finally:
            sys.setswitchinterval(interval)
        if (failure := writer.unread_failures()) is not None:
            reported += failure.count
        assert reported == count


def test_a_client_does_not_keep_writers_that_have_ended() -> None:
    """Unless they have failures to report: a program may reopen its log without end, and close none of its writers."""
    with blocking_log() as log:
        client = log.client()
        ended = [client.open_writer("orders", create=True) for _ in range(3)]
        ended[-1].abort()
        failed = client.open_writer("failed", create=True)
        log.be_silent()
        failed.submit(b"x")
        failed.abort()
        log.speak()
        give_up_at = time.monotonic() + 20
        while any(writer.is_open for writer in ended) and time.monotonic() < give_up_at:
            time.sleep(0.01)
        last = client.open_writer("others", create=True)
        assert client._writers == {failed, last}
        assert failed.unread_failures() is not None


def test_a_close_in_a_callback_is_refused_and_changes_nothing() -> None:
    with blocking_log() as log:
        writer = log.client().open_writer("orders", create=True)
        refused: list[str] = []

        def close(_: object) -> None:
            try:
                writer.close()
            except ConfigurationError as error:
                refused.append(str(error))

        appended = writer.submit(b"one")
        appended.add_done_callback(close)
        appended.result()
        writer.append(b"two")
        writer.close()
        assert len(refused) == 1 and "use dlog.aio" in refused[0]


def test_an_append_that_a_callback_could_not_wait_for_appends_nothing() -> None:
    """ConfigurationError means that nothing was changed: its caller may append the message elsewhere."""
    with blocking_log() as log:
        client = log.client()
        writer = client.open_writer("orders", create=True)
        producer = writer.producer("callback")
        refused: list[str] = []
        calls: list[Callable[[], object]] = [
            lambda: writer.append(b"absent"),
            lambda: writer.append(b"absent", timeout_s=5),
            lambda: writer.append_many([b"absent"]),
            lambda: producer.append(b"absent", sequence=1),
            lambda: producer.append_many([b"absent"], first_sequence=2),
        ]

        def append_all(_: object) -> None:
            for call in calls:
                try:
                    call()
                except ConfigurationError as error:
                    refused.append(str(error))

        appended = writer.submit(b"one")
        appended.add_done_callback(append_all)
        appended.result()
        writer.close()
        assert [message.payload for message in client.reader("orders", until="latest")] == [b"one"]
        assert len(refused) == len(calls) and all("use dlog.aio" in each for each in refused)
