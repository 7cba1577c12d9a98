"""A pending append is a `concurrent.futures.Future`: the functions of the standard library work with it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, Future, InvalidStateError
from contextlib import suppress
from typing import Any

import pytest

from dlog.blocking.pending import Pending
from dlog.blocking.writer import Writer
from dlog.errors import AppendsFailedError, CallTimeoutError
from dlog.model import MessageId
from ledger.config import LedgerClientConfig
from ledger.errors import ConfigurationError, LogStoreError
from tests.helpers.log.blocking_log import BlockingLog, blocking_log
from tests.helpers.processes.interrupts import moments

PATIENT = LedgerClientConfig(add_timeout_s=30.0, quorum_timeout_s=30.0)


@pytest.fixture
def log() -> Iterator[BlockingLog]:
    with blocking_log() as made:
        yield made


@pytest.fixture
def writer(log: BlockingLog) -> Writer:
    return log.client(ledger=PATIENT).open_writer("orders", create=True)


def failed(writer: Writer, log: BlockingLog) -> Pending[MessageId]:
    log.be_silent()
    pending = writer.submit(b"lost")
    writer.abort()
    log.speak()
    return pending


def test_it_is_a_future(log: BlockingLog, writer: Writer) -> None:
    log.be_silent()
    pending = writer.submit(b"one")
    assert isinstance(pending, Future)
    assert (pending.done(), pending.running(), pending.cancelled()) == (False, True, False)
    assert repr(pending) == "<Pending undecided>"
    with pytest.raises(TimeoutError):
        pending.result(timeout=0.01)
    with pytest.raises(CallTimeoutError):
        pending.exception(timeout=0.01)
    log.speak()
    assert pending.result(timeout=10) == MessageId(1, 0, 0)
    assert pending.exception() is None
    assert (pending.done(), pending.running(), pending.cancelled()) == (True, False, False)
    assert repr(pending) == "<Pending MessageId(ledger_id=1, entry_id=0, batch_index=0)>"


def test_it_cannot_be_cancelled_nor_decided_by_its_owner(log: BlockingLog, writer: Writer) -> None:
    log.be_silent()
    pending = writer.submit(b"one")
    assert not pending.cancel()
    with pytest.raises(InvalidStateError):
        pending.set_result(MessageId(9, 9, 9))
    with pytest.raises(InvalidStateError):
        pending.set_exception(ValueError())
    log.speak()
    assert pending.result() == MessageId(1, 0, 0)
    assert not pending.cancel()


def test_wait_returns_at_its_time_and_when_all_are_decided(log: BlockingLog, writer: Writer) -> None:
    first = writer.submit(b"first")
    first.result()
    log.be_silent()
    others = {writer.submit(b"%d" % number) for number in range(5)}
    assert concurrent.futures.wait({first, *others}, timeout=0.05) == ({first}, others)
    assert concurrent.futures.wait({first, *others}, return_when=FIRST_COMPLETED).done == {first}
    speaks = threading.Timer(0.2, log.speak)
    speaks.start()
    assert concurrent.futures.wait({first, *others}, timeout=10).done == {first, *others}
    speaks.join()


@pytest.mark.parametrize("return_when", [FIRST_COMPLETED, FIRST_EXCEPTION, ALL_COMPLETED])
def test_it_may_be_waited_for_with_other_futures(log: BlockingLog, writer: Writer, return_when: str) -> None:
    with concurrent.futures.ThreadPoolExecutor() as executor:
        log.be_silent()
        pending = writer.submit(b"one")
        other = executor.submit(time.sleep, 0.1)
        done, _ = concurrent.futures.wait([pending, other], timeout=0.3, return_when=return_when)
        assert done == {other}
        log.speak()
        assert list(concurrent.futures.as_completed([other, pending], timeout=10)) in (
            [other, pending],
            [pending, other],
        )


def test_as_completed_gives_each_once_it_is_decided(log: BlockingLog, writer: Writer) -> None:
    log.be_silent()
    pendings = [writer.submit(b"%d" % number) for number in range(100)]
    log.speak()
    found = list(concurrent.futures.as_completed(pendings, timeout=10))
    assert set(found) == set(pendings)
    assert len(found) == 100
    log.be_silent()
    late = writer.submit(b"late")
    with pytest.raises(TimeoutError):
        list(concurrent.futures.as_completed([*pendings, late], timeout=0.05))
    log.speak()


def test_many_threads_wait_while_appends_are_decided(writer: Writer) -> None:
    """A waiter left just when an append is decided is called once, by the loop or by its own thread."""
    wrong: list[Any] = []

    def append_and_wait() -> None:
        for _ in range(150):
            pendings = [writer.submit(b"x") for _ in range(3)]
            done, left = concurrent.futures.wait(pendings, timeout=10)
            if len(done) != 3 or not all(one.done() for one in pendings):
                wrong.append((done, left))
            if len(list(concurrent.futures.as_completed([*pendings, writer.submit(b"y")], timeout=10))) != 4:
                wrong.append(pendings)

    threads = [threading.Thread(target=append_and_wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_callbacks_are_called_once_before_and_after_the_outcome(log: BlockingLog, writer: Writer) -> None:
    log.be_silent()
    pending = writer.submit(b"one")
    called: list[str] = []
    decided = threading.Event()
    pending.add_done_callback(lambda one: called.append(f"first {one.result()}"))
    pending.add_done_callback(lambda one: 1 / 0)
    pending.add_done_callback(lambda one: decided.set())
    log.speak()
    assert decided.wait(10)
    pending.add_done_callback(lambda one: called.append(f"second {one.result()}"))
    assert called == ["first 1:0:0", "second 1:0:0"]


def test_an_event_loop_can_await_it(log: BlockingLog, writer: Writer) -> None:
    async def append() -> MessageId:
        return await asyncio.wrap_future(writer.submit(b"one"))

    assert asyncio.run(append()) == MessageId(1, 0, 0)


def test_an_error_counts_as_read_once_its_caller_has_it(log: BlockingLog, writer: Writer) -> None:
    assert isinstance(failed(writer, log).exception(), LogStoreError)
    writer.flush()
    other = log.client(ledger=PATIENT).open_writer("others", create=True)
    pending = failed(other, log)
    assert concurrent.futures.wait([pending], return_when=FIRST_EXCEPTION).done == {pending}
    assert concurrent.futures.wait([pending], return_when=FIRST_EXCEPTION).done == {pending}
    with pytest.raises(AppendsFailedError):
        other.flush()


def test_the_loop_of_the_client_is_not_waited_for_on_itself(log: BlockingLog, writer: Writer) -> None:
    log.be_silent()
    pending = writer.submit(b"one")
    refused = threading.Event()

    def on_the_loop() -> None:
        with suppress(ConfigurationError):
            concurrent.futures.wait([pending])
            return
        refused.set()

    log.on_loop(lambda _: on_the_loop())
    assert refused.is_set()
    log.speak()
    assert pending.result() == MessageId(1, 0, 0)


@pytest.mark.parametrize(
    "way",
    [
        lambda pendings: concurrent.futures.wait(pendings, timeout=10),
        lambda ps: list(concurrent.futures.as_completed(ps)),
    ],
    ids=["wait", "as_completed"],
)
def test_an_interrupted_wait_leaves_nothing_locked(writer: Writer, way: Callable[[list[Any]], Any]) -> None:
    """Struck at each of its moments; the same appends can be waited for again, and the loop goes on."""
    struck = 0
    for moment in moments():
        pendings = [writer.submit(b"x"), writer.submit(b"y")]
        with suppress(KeyboardInterrupt), moment.strike():
            way(pendings)
        assert len(concurrent.futures.wait(pendings, timeout=10).done) == 2
        assert [one.result(timeout=10) for one in pendings] == sorted(one.result() for one in pendings)
        struck += moment.reached
    assert struck > 30
    writer.append(b"z", timeout_s=10)
