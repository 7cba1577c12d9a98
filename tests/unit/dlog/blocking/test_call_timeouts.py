"""A blocking call that takes longer than `timeout_s` ends with an error that says what became of it."""

from __future__ import annotations

import asyncio
import copy
import math
import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest

from dlog.blocking.loop_thread import LoopThread
from dlog.core.batching import BatchLimits
from dlog.errors import (
    AppendIndeterminateError,
    AppendsFailedError,
    CallTimeoutError,
    MessageTooLargeError,
    QueueFullError,
)
from dlog.model import NO_MESSAGE, MessageId
from dlog.read.resolution import Resolution
from ledger.config import LedgerClientConfig
from ledger.errors import ConfigurationError, OutcomeUnknownError
from tests.helpers.log.blocking_log import BlockingLog, blocking_log

KIB = 1024
PATIENT = LedgerClientConfig(add_timeout_s=30.0, quorum_timeout_s=30.0, read_timeout_s=30.0)
SMALL = BatchLimits(entry_bytes_max=16 * KIB, batch_bytes=4 * KIB)


def payloads(log: BlockingLog) -> list[bytes | None]:
    with log.client().reader("orders", until="latest") as reader:
        return [message.payload for message in reader]


def test_an_append_that_takes_too_long_goes_on() -> None:
    with blocking_log() as log:
        writer = log.client(ledger=PATIENT).open_writer("orders", create=True)
        log.be_silent()
        with pytest.raises(CallTimeoutError, match=r"0\.05 s and continues") as one:
            writer.append(b"one", timeout_s=0.05)
        with pytest.raises(CallTimeoutError) as many:
            writer.append_many([b"two", b"three"], timeout_s=0.05)
        assert isinstance(one.value, TimeoutError)
        assert isinstance(one.value, OutcomeUnknownError)
        assert one.value.timeout_s == 0.05
        log.speak()
        assert one.value.pending is not None and many.value.pending is not None
        assert [one.value.pending.result(), *many.value.pending.result()] == sorted(
            [one.value.pending.result(), *many.value.pending.result()]
        )
        writer.close()
        assert payloads(log) == [b"one", b"two", b"three"]


def test_its_error_gets_to_another_process_without_the_append() -> None:
    """`multiprocessing` and `concurrent.futures` pickle what a worker raises."""
    with blocking_log() as log:
        writer = log.client(ledger=PATIENT).open_writer("orders", create=True)
        log.be_silent()
        with pytest.raises(CallTimeoutError) as here:
            writer.append(b"one", timeout_s=0.05)
        there = pickle.loads(pickle.dumps(here.value))
        assert (type(there), str(there), there.timeout_s) == (CallTimeoutError, str(here.value), 0.05)
        assert there.pending is None
        assert copy.copy(here.value).pending is copy.deepcopy(here.value).pending is here.value.pending
        log.speak()
        writer.close()


def test_a_late_failure_of_such_an_append_is_reported_by_flush() -> None:
    with blocking_log() as log:
        writer = log.client(ledger=PATIENT).open_writer("orders", create=True)
        log.be_silent()
        with pytest.raises(CallTimeoutError):
            writer.append(b"one", timeout_s=0.05)
        writer.abort()
        with pytest.raises(AppendsFailedError) as failed:
            writer.flush()
        assert isinstance(failed.value.first, AppendIndeterminateError)


def test_what_finds_no_capacity_in_time_is_not_submitted() -> None:
    with blocking_log() as log:
        writer = log.client(ledger=PATIENT, batching=SMALL, buffer_bytes_max=16 * KIB).open_writer(
            "orders", create=True
        )
        log.be_silent()
        accepted = 0
        with pytest.raises(QueueFullError, match=r"no capacity for 0\.3 s"):
            for _ in range(64):
                writer.submit(b"x" * KIB, timeout_s=0.3)
                accepted += 1
        for submit in (writer.append, writer.submit, lambda one, **rest: writer.append_many([one], **rest)):
            with pytest.raises(QueueFullError):
                submit(b"absent", timeout_s=0)
        log.speak()
        writer.close()
        assert 10 <= accepted < 64
        assert payloads(log) == [b"x" * KIB] * accepted


@pytest.mark.parametrize(
    ("buffer_bytes_max", "all_writers_bytes_max"), [(2500, 1 << 20), (1 << 20, 2500), (1 << 26, 1 << 26)]
)
def test_the_error_names_a_limit_only_if_it_is_reached(
    buffer_bytes_max: int, all_writers_bytes_max: int
) -> None:
    """Appends that have not crossed to the client's thread are in no queue of the writer yet."""
    with blocking_log() as log:
        writer = log.client(
            batching=BatchLimits(entry_bytes_max=2000),
            buffer_bytes_max=buffer_bytes_max,
            unacknowledged_bytes_max=all_writers_bytes_max,
        ).open_writer("orders", create=True)
        refusals = []
        for _ in range(20_000):
            try:
                writer.submit(b"x" * 500, timeout_s=0.0)
            except QueueFullError as error:
                refusals.append(error)
        writer.close()
        assert refusals
        for error in refusals:
            if "the limit is" in str(error):
                assert error.queued_bytes >= error.queued_bytes_max, error
            else:
                assert "wait for the client's thread" in str(error), error


def test_a_call_to_the_cluster_is_cancelled() -> None:
    """It is opened afterwards: nothing of the cancelled call is in the way."""
    with blocking_log() as log:
        client = log.client(ledger=PATIENT)
        client.open_writer("orders", create=True).append(b"one")
        log.be_silent()
        began = time.monotonic()
        with pytest.raises(CallTimeoutError, match=r"open_writer did not end within 0\.1 s"):
            client.open_writer("orders", timeout_s=0.1, create=True)
        assert time.monotonic() - began < 5
        log.speak()
        client.open_writer("orders", create=True).append(b"two")
        assert payloads(log) == [b"one", b"two"]


def test_a_conditional_append_is_decided_by_the_tail() -> None:
    with blocking_log() as log:
        client = log.client()
        writer = client.open_writer("orders", create=True)
        first = writer.append(b"one")
        second = writer.append(b"two", expect_tail=first)
        with pytest.raises(ConfigurationError, match="the last message of log "):
            writer.append(b"three", expect_tail=first, timeout_s=10)
        assert writer.append(b"four", expect_tail=str(second)) > second
        assert client.resolve("orders", second) is Resolution.COMMITTED
        assert client.collect("orders") is not None
        assert client.sweep() == []
        assert payloads(log) == [b"one", b"two", b"four"]


def test_a_conditional_batch_is_decided_by_the_tail() -> None:
    with blocking_log() as log:
        client = log.client()
        writer = client.open_writer("orders", create=True)
        first = writer.append_many([b"a", b"b"], expect_tail=NO_MESSAGE)[-1]
        with pytest.raises(ConfigurationError, match="the last message of log "):
            writer.append_many([b"no"], expect_tail=first._replace(batch_index=0), timeout_s=10)
        second = writer.submit_many([b"c"], expect_tail=str(first))
        refused = writer.submit_many([b"no"], expect_tail=first)
        writer.submit(b"d")
        with pytest.raises(ConfigurationError, match="the last message of log "):
            refused.result()
        assert second.result()[0] > first
        writer.flush()
        assert payloads(log) == [b"a", b"b", b"c", b"d"]


def test_a_conditional_append_that_takes_too_long_appends_what_it_was_given() -> None:
    """Its first step reads the log's last message; the caller may use its buffer again. And `flush` waits for it."""
    with blocking_log() as log:
        client = log.client(ledger=PATIENT)
        with client.open_writer("orders", create=True) as writer:
            last = writer.append(b"one")
        writer = client.open_writer("orders")
        payload, headers = bytearray(b"two"), [(b"name", b"value")]
        log.be_silent()
        with pytest.raises(CallTimeoutError) as late:
            writer.append(payload, None, headers, expect_tail=last, timeout_s=0.05)
        payload[:] = b"old"
        headers.clear()
        with pytest.raises(CallTimeoutError):
            writer.flush(timeout_s=0.05)
        log.speak()
        writer.flush()
        assert late.value.pending is not None and late.value.pending.done()
        assert late.value.pending.result() > last
        with client.reader("orders", until="latest") as reader:
            found = [(message.payload, message.headers) for message in reader]
        assert found == [(b"one", ()), (b"two", ((b"name", b"value"),))]


def test_a_conditional_append_checks_its_message_where_it_is_called() -> None:
    with blocking_log() as log:
        writer: Any = log.client(batching=SMALL).open_writer("orders", create=True)
        log.be_silent()
        with pytest.raises(MessageTooLargeError, match="the message needs an entry of"):
            writer.append(bytes(16 * KIB), expect_tail=NO_MESSAGE, timeout_s=0)
        with pytest.raises(ConfigurationError, match="a payload must be bytes or None"):
            writer.append("text", expect_tail=NO_MESSAGE, timeout_s=0)


def test_wrong_arguments_are_refused_in_the_names_of_the_call() -> None:
    with blocking_log() as log:
        client: Any = log.client()
        with pytest.raises(
            TypeError, match=r"Client\.describe\(\) missing 1 required positional argument: 'log'"
        ):
            client.describe()
        with pytest.raises(TypeError, match=r"Client\.create\(\) got an unexpected keyword argument 'logg'"):
            client.create(logg="orders")
        with pytest.raises(
            TypeError, match=r"Client\.tail\(\) got an unexpected keyword argument 'timeout_s'"
        ):
            client.tail("orders", timeout_s=1)
        with pytest.raises(ConfigurationError, match="timeout_s must be a number"):
            client.list(timeout_s="1")
        for huge in (10**400, -(10**400), 10**5000):
            with pytest.raises(
                ConfigurationError, match=r"timeout_s must be a number or None, got .* too large"
            ):
                client.list(timeout_s=huge)
        writer = client.open_writer("orders", create=True)
        with pytest.raises(ConfigurationError, match="timeout_s must be a number"):
            writer.submit(b"one", timeout_s="1")


@pytest.mark.parametrize("wrong", [-1, -0.5, math.nan, math.inf, -math.inf])
def test_a_time_below_zero_or_that_is_none_is_refused_before_anything_is_done(wrong: float) -> None:
    with blocking_log() as log:
        client = log.client()
        writer = client.open_writer("orders", create=True)
        producer = writer.producer("one")
        pending = writer.submit(b"one")
        calls: list[Callable[[], object]] = [
            lambda: client.create("others", timeout_s=wrong),
            lambda: writer.append(b"no", timeout_s=wrong),
            lambda: writer.append(b"no", expect_tail=NO_MESSAGE, timeout_s=wrong),
            lambda: writer.append_many([b"no"], timeout_s=wrong),
            lambda: writer.submit(b"no", timeout_s=wrong),
            lambda: writer.submit_many([b"no"], timeout_s=wrong),
            lambda: producer.append(b"no", sequence=1, timeout_s=wrong),
            lambda: producer.submit(b"no", sequence=1, timeout_s=wrong),
            lambda: writer.flush(wrong),
            lambda: writer.close(wrong),
            lambda: client.close(wrong),
            lambda: pending.result(wrong),
            lambda: pending.exception(wrong),
        ]
        for call in calls:
            with pytest.raises(
                ConfigurationError, match=r"^timeout(_s)? must be (0 or more seconds, or None|a number)"
            ):
                call()
        writer.append(b"two")
        assert client.list() == ["orders"]
        assert payloads(log) == [b"one", b"two"]


def test_what_ends_although_it_is_cancelled_is_returned() -> None:
    """Its result is known then, and must not be lost."""
    thread = LoopThread("test")

    async def stubborn() -> str:
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            return "done"
        return "too late"

    assert thread.run_within(0.05, "stubborn", stubborn) == "done"
    assert thread.run_within(5, "quick", asyncio.sleep, 0, MessageId(1, 2, 3)) == MessageId(1, 2, 3)
    thread.close()
