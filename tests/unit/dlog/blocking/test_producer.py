"""A blocking append of a producer that finds no buffer space in time does not count, and no later one passes it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from threading import Thread

import pytest

from dlog.blocking.producer import Producer
from dlog.blocking.writer import Writer
from dlog.core.batching import BatchLimits
from dlog.errors import AppendRejectedError, QueueFullError
from dlog.model import Appended
from tests.helpers.log.blocking_log import BlockingLog, blocking_log

FILLING = bytes(2500)


def full_buffer(log: BlockingLog) -> tuple[Writer, Producer]:
    """A producer, and its writer, whose buffer is full while the bookies are silent."""
    client = log.client(batching=BatchLimits(entry_bytes_max=4096), buffer_bytes_max=2 * len(FILLING))
    writer = client.open_writer("orders", create=True)
    producer = writer.producer("a")
    log.be_silent()
    for _ in range(2):
        writer.submit(FILLING)
    return writer, producer


def payloads(log: BlockingLog) -> list[bytes | None]:
    with log.client().reader("orders", until="latest") as reader:
        return [message.payload for message in reader if message.payload != FILLING]


def test_what_found_no_buffer_space_must_be_appended_before_later_sequences() -> None:
    with blocking_log() as log:
        _, producer = full_buffer(log)
        for sequence in (7, 8):
            with pytest.raises(QueueFullError):
                producer.append(b"%d" % sequence, sequence=sequence, timeout_s=0)
        log.speak()
        with pytest.raises(AppendRejectedError, match="append from 7 on again"):
            producer.append(b"9", sequence=9)
        assert producer.append(b"7", sequence=7).new == 1
        with pytest.raises(AppendRejectedError, match="append from 8 on again"):
            producer.append(b"9", sequence=9)
        assert producer.append_many([b"8", b"9"], first_sequence=8).new == 2
        assert producer.append(b"7", sequence=7).new == 0
        assert payloads(log) == [b"7", b"8", b"9"]


def test_an_append_that_was_interrupted_while_it_waited_must_be_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with blocking_log() as log:
        _, producer = full_buffer(log)

        def interrupted(*_: object) -> bool:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr("dlog.blocking.pending.Board.wait_until", interrupted)
            with pytest.raises(KeyboardInterrupt):
                producer.append(b"7", sequence=7)
        log.speak()
        with pytest.raises(AppendRejectedError, match="append from 7 on again"):
            producer.append(b"8", sequence=8)
        assert producer.append_many([b"7", b"8"], first_sequence=7).new == 2
        assert payloads(log) == [b"7", b"8"]


def test_what_found_no_buffer_space_is_left_out_by_the_producer_that_is_opened_anew() -> None:
    with blocking_log() as log:
        writer, producer = full_buffer(log)
        with pytest.raises(QueueFullError):
            producer.append(b"7", sequence=7, timeout_s=0)
        log.speak()
        assert writer.producer("a").append(b"8", sequence=8).new == 1
        assert payloads(log) == [b"8"]


def in_thread(producer: Producer, sequence: int, call: Callable[[], object]) -> Thread:
    """The call of this sequence waits for buffer space when this returns."""
    thread = Thread(target=call)
    thread.start()
    while (sequence, sequence) not in list(producer._waiting.values()):
        assert thread.is_alive(), f"the call of {sequence} has not waited"
        time.sleep(0.001)
    return thread


def test_an_append_that_waited_longer_does_not_pass_one_that_has_given_up() -> None:
    """Both wait for buffer space, each in its own thread, and the first one's time is over."""
    with blocking_log() as log:
        _, producer = full_buffer(log)

        def first() -> None:
            with pytest.raises(QueueFullError):
                producer.append(b"7", sequence=7, timeout_s=0.5)

        def second() -> None:
            with pytest.raises(AppendRejectedError, match="append from 7 on again"):
                producer.append(b"8", sequence=8)

        threads = [in_thread(producer, 7, first), in_thread(producer, 8, second)]
        threads[0].join()
        log.speak()
        threads[1].join()
        assert producer.append(b"7", sequence=7).new == 1
        assert producer.append(b"8", sequence=8).new == 1
        assert payloads(log) == [b"7", b"8"]


def test_appends_of_several_threads_that_wait_for_buffer_space_are_there_or_rejected() -> None:
    """They are woken in any order: one that passes a lower sequence would make that one a duplicate."""
    sequences = range(7, 27)
    with blocking_log() as log:
        _, producer = full_buffer(log)
        outcomes: dict[int, Appended | AppendRejectedError] = {}

        def append(sequence: int) -> None:
            try:
                outcomes[sequence] = producer.append(b"%d" % sequence, sequence=sequence)
            except AppendRejectedError as error:
                outcomes[sequence] = error

        threads = [in_thread(producer, each, partial(append, each)) for each in sequences]
        log.speak()
        for thread in threads:
            thread.join()
        appended = [one for one in sequences if isinstance(outcomes[one], Appended)]
        assert payloads(log) == [b"%d" % sequence for sequence in appended]
        assert appended == list(range(7, 7 + len(appended))) and appended
