"""The handler of a signal may use the writer in whose call the signal has interrupted the thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from dlog.blocking.client import Client
from dlog.blocking.crossing import Crossing
from dlog.blocking.pending import Pending
from dlog.blocking.producer import Producer
from dlog.blocking.reader import Reader, _Part
from dlog.blocking.writer import Writer
from dlog.core.batching import BatchLimits
from dlog.errors import AppendAbortedError, LogStoreError, QueueFullError
from dlog.read.batch import MessageBatch
from dlog.write.left_out import leave_out
from ledger.errors import ConfigurationError
from tests.helpers.log.blocking_log import blocking_log

GUARD_S = 30.0


def in_a_thread(work: Callable[[], None]) -> None:
    """Fails instead of waiting indefinitely."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(GUARD_S)
    assert not thread.is_alive()
    if errors:
        raise errors[0]


def interrupt(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, handler: Callable[[], object]) -> None:
    """Call `handler` once, where the interpreter checks for signals: at the beginning of this function."""
    function: Callable[..., Any] = getattr(owner, name)
    calls: list[None] = []

    def interrupted(*args: Any, **options: Any) -> Any:
        if not calls:
            calls.append(None)
            handler()
        return function(*args, **options)

    monkeypatch.setattr(owner, name, interrupted)


def read(client: Client) -> list[bytes | None]:
    with client.reader("orders", until="latest") as reader:
        return [message.payload for message in reader]


@pytest.mark.parametrize("place", ["_append", "_ask"])
def test_a_handler_may_append(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with blocking_log() as log:
        writer = log.client().open_writer("orders", create=True)
        interrupt(monkeypatch, Crossing, place, lambda: writer.append(b"handler"))

        def work() -> None:
            pending = writer.submit(b"one")
            writer.append(b"two")
            pending.result()

        in_a_thread(work)
        first = [b"handler", b"one"] if place == "_append" else [b"one", b"handler"]
        assert read(log.client()) == [*first, b"two"]


@pytest.mark.parametrize("place", ["_append", "_ask"])
def test_a_handler_may_close_the_writer(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupted append is in the log, or is refused."""
    with blocking_log() as log:
        writer = log.client().open_writer("orders", create=True)
        interrupt(monkeypatch, Crossing, place, writer.close)
        appended = []

        def work() -> None:
            try:
                writer.append(b"one")
                appended.append(b"one")
            except LogStoreError:
                pass

        in_a_thread(work)
        assert read(log.client()) == appended


def test_the_loop_ends_although_an_interrupted_call_holds_the_lock() -> None:
    with blocking_log() as log:
        client = log.client()
        crossing = client.open_writer("orders", create=True)._crossing

        async def end() -> None:
            crossing._refuse_the_rest()

        def work() -> None:
            with crossing._lock:
                client._thread.run_within(GUARD_S / 2, "the end", end)
                crossing._asked += 1  # the loop, which runs on in this test, is not asked to take the call
                with pytest.raises(AppendAbortedError):  # its check came before
                    crossing._append((b"one", None, ()), None, 3, Pending(crossing._board))

        in_a_thread(work)
        assert not crossing._calls
        assert crossing.empty


def test_what_a_handler_leaves_out_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with blocking_log() as log:
        small = BatchLimits(entry_bytes_max=64 * 1024, batch_bytes=16 * 1024)
        writer: Writer = log.client(buffer_bytes_max=64 * 1024, batching=small).open_writer(
            "orders", create=True
        )
        producer: Producer = writer.producer("p")
        log.be_silent()

        def submit(sequence: int) -> None:
            with pytest.raises(QueueFullError):
                while True:
                    producer.submit(b"x" * 1024, sequence=sequence, timeout_s=0.0)

        calls: list[None] = []

        def interrupted(*args: Any) -> Any:
            if not calls:
                calls.append(None)
                submit(5)
            return leave_out(*args)

        monkeypatch.setattr("dlog.blocking.producer.leave_out", interrupted)
        in_a_thread(lambda: submit(1))
        assert producer._left_out == ((1, 1), (5, 5))
        log.speak()


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("owner", "place"), [(Reader, "_take_rest"), (Reader, "_take_part"), (_Part, "opened")]
)
def test_a_handler_may_close_the_reader(
    owner: type, place: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is returned before, and perhaps after, is the beginning of the log; iteration then ends."""
    with blocking_log() as log:
        writer = log.client().open_writer("orders", create=True)
        for number in range(6):
            writer.append_many([b"%d" % (2 * number), b"%d" % (2 * number + 1)])
        reader = log.client().reader("orders", until="latest")
        found: list[bytes | None] = []

        def work() -> None:
            found.append(next(reader).payload)
            interrupt(monkeypatch, owner, place, reader.close)
            with suppress(ConfigurationError):
                for one in reader.batches() if whole else reader:
                    found.extend(one.payloads if isinstance(one, MessageBatch) else [one.payload])

        in_a_thread(work)
        assert found == [b"%d" % number for number in range(len(found))]
