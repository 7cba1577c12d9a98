"""Ctrl-C at any moment: nothing is lost, doubled or reordered, and the object is usable afterwards or closed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import dlog
from dlog.blocking.client import Client, Reader
from dlog.blocking.pending import Pending
from dlog.blocking.writer import Writer
from dlog.errors import AppendAbortedError, AppendIndeterminateError, AppendsFailedError, LogStoreError
from dlog.local.embedded import Standalone
from dlog.model import MessageId
from ledger.errors import ConfigurationError
from tests.helpers.processes.interrupts import Moment, alarm, moments

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

ENTRIES, MESSAGES = 4, 3

Way = Callable[[Reader], Iterable[Any]]


@pytest.fixture
def client(cluster: Standalone) -> Iterator[Client]:
    with dlog.connect(cluster.uri) as connected:
        yield connected


@pytest.fixture
def filled(client: Client, log: str) -> list[bytes]:
    """Payloads of a log of a few entries."""
    payloads = [b"%d" % number for number in range(ENTRIES * MESSAGES)]
    with client.open_writer(log, create=True) as writer:
        for first in range(0, len(payloads), MESSAGES):
            writer.append_many(payloads[first : first + MESSAGES])
    return payloads


def _messages(reader: Reader) -> Iterator[bytes | None]:
    for message in reader:
        yield message.payload


def _next(reader: Reader) -> Iterator[bytes | None]:
    with suppress(StopIteration):
        while True:
            yield next(reader).payload


def _poll(reader: Reader) -> Iterator[bytes | None]:
    while (message := reader.poll(10)) is not None:
        yield message.payload


def _batches(reader: Reader) -> Iterator[bytes | None]:
    for batch in reader.batches():
        yield from batch.payloads


def _items(reader: Reader) -> Iterator[bytes | None]:
    for item in reader.items():
        assert not isinstance(item, dlog.Gap)
        yield item.payload


def _arrow(reader: Reader) -> Iterator[bytes | None]:
    for batch in reader.arrow_batches(["value"], batch_rows=2 * MESSAGES - 1):
        values: list[bytes | None] = batch["value"].to_pylist()
        yield from values


def _record_batches(reader: Reader) -> Iterator[Any]:
    """Not looked into here, where an interrupt may strike between two steps."""
    return reader.arrow_batches(["value"], batch_rows=7)


def _payloads(seen: list[Any]) -> list[bytes | None]:
    found: list[bytes | None] = []
    for one in seen:
        found += one["value"].to_pylist() if hasattr(one, "num_rows") else [one]
    return found


def _table(reader: Reader) -> Iterator[bytes | None]:
    values: list[bytes | None] = reader.to_arrow(["value"])["value"].to_pylist()
    yield from values


def _read(client: Client, log: str, way: Way, moment: Moment, then: Way | None = None) -> list[Any]:
    """All that a reader returns that goes on after the interrupt; another one, at its position, gets the same rest."""
    with client.reader(log, start="earliest", until="latest") as reader:
        seen: list[Any] = []
        with suppress(KeyboardInterrupt), moment.strike():
            for payload in way(reader):
                seen.append(payload)
        if not moment.reached:
            return seen
        position = reader.position
        rest = list((then or way)(reader))
    with client.reader(log, start=position, until="latest") as again:
        assert list(way(again)) == rest, (moment.where, position, rest)
    return seen + rest


@pytest.mark.parametrize(
    "way",
    [
        _messages,
        _poll,
        _batches,
        _arrow,
        pytest.param(_next, marks=pytest.mark.nightly),
        pytest.param(_items, marks=pytest.mark.nightly),
    ],
)
def test_an_interrupted_reader_goes_on_where_it_was(
    client: Client, log: str, filled: list[bytes], way: Way
) -> None:
    wrong, struck = [], 0
    for moment in moments():
        seen = _read(client, log, way, moment)
        struck += moment.reached
        if seen != filled:
            wrong.append((moment.number, moment.where, seen))
    assert wrong == []
    assert struck > 15  # 40 for batches on Python 3.11, 23 on 3.13; messages above 100


@pytest.mark.parametrize(
    ("way", "then"),
    [(_arrow, _messages), (_arrow, _batches), (_arrow, _table), (_messages, _arrow), (_batches, _table)],
)
def test_an_interrupted_reader_goes_on_in_another_way(
    client: Client, log: str, filled: list[bytes], way: Way, then: Way
) -> None:
    wrong = []
    for moment in moments():
        seen = _read(client, log, way, moment, then)
        if seen != filled:
            wrong.append((moment.number, moment.where, seen))
    assert wrong == []


@pytest.mark.parametrize("way", [_messages, _batches, _record_batches])
def test_real_signals_cost_a_reader_nothing(client: Client, log: str, way: Way) -> None:
    """Timers that go off at any time, waits for the loop among them; a fast machine reads more than once."""
    payloads = [b"%d" % number for number in range(6000)]
    with client.open_writer(log, create=True) as writer:
        for first in range(0, len(payloads), 5):
            writer.submit_many(payloads[first : first + 5])
    rng, interrupts = random.Random(1), 0
    for _ in range(100):
        seen: list[Any] = []
        ended = False
        with client.reader(log, start="earliest", until="latest") as reader:
            while not ended:
                items = way(reader)
                try:
                    with alarm(rng.uniform(0.0001, 0.004)):
                        # extend() appends what it is given before the interpreter looks for signals again.
                        seen.extend(items)
                        ended = True
                except KeyboardInterrupt:
                    interrupts += 1
        assert _payloads(seen) == payloads
        if interrupts > 50:
            return
    raise AssertionError(f"{interrupts} interrupts in a hundred readings prove nothing")


class Calls:
    """Calls of one writer, of which some are interrupted. Payloads are numbered in the order of the calls."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.made = 0
        self.acked: dict[bytes, MessageId] = {}
        self.pending: list[tuple[list[bytes], Pending[Any]]] = []
        self.unsure: set[bytes] = set()

    def payload(self) -> bytes:
        self.made += 1
        return b"%06d" % self.made

    def do(self, moment: Moment) -> None:
        """One of each call; an interrupted one has an outcome that its caller does not know."""
        one, two, three, four, five = (self.payload() for _ in range(5))
        self.unsure |= {one, two, three, four, five}
        with suppress(KeyboardInterrupt), moment.strike():
            self.pending.append(([one], self.writer.submit(one)))
            self.pending.append(([two, three], self.writer.submit_many([two, three])))
            self._ack([four], [self.writer.append(four)])
            self._ack([five], self.writer.append_many([five]))
            self.writer.flush()

    def settle(self) -> None:
        """Everything that was passed on has an outcome."""
        last = self.payload()
        self._ack([last], [self.writer.append(last)])
        for payloads, pending in self.pending:
            found = pending.result(timeout=10)
            self._ack(payloads, [found] if isinstance(found, MessageId) else found)
        self.pending.clear()

    def _ack(self, payloads: list[bytes], ids: Iterable[MessageId]) -> None:
        self.acked.update(zip(payloads, ids, strict=True))
        self.unsure -= set(payloads)

    def check(self, client: Client, log: str) -> None:
        with client.reader(log, until="latest") as reader:
            found = [(message.payload or b"", message.id) for message in reader]
        payloads = [payload for payload, _ in found]
        assert payloads == sorted(set(payloads)), "doubled or reordered"
        assert self.acked.items() <= dict(found).items()
        assert set(payloads) - self.acked.keys() <= self.unsure


def test_an_interrupted_writer_goes_on(client: Client, log: str) -> None:
    """append, append_many, submit, submit_many and flush, each struck at each of its moments."""
    struck = 0
    with client.open_writer(log, create=True) as writer:
        calls = Calls(writer)
        for moment in moments():
            calls.do(moment)
            calls.settle()
            struck += moment.reached
    calls.check(client, log)
    assert struck > 50
    # Nothing is sure only because nothing was acked.
    assert len(calls.acked) > calls.made / 2


def test_real_signals_cost_a_writer_nothing(client: Client, log: str) -> None:
    rng = random.Random(2)
    with client.open_writer(log, create=True) as writer:
        calls = Calls(writer)
        for _ in range(200):
            payload = calls.payload()
            calls.unsure.add(payload)
            with suppress(KeyboardInterrupt), alarm(rng.uniform(0.00005, 0.003)):
                while True:
                    calls.pending.append(([payload], writer.submit(payload)))
                    payload = calls.payload()
                    calls.unsure.add(payload)
                    calls._ack([payload], [writer.append(payload)])
                    payload = calls.payload()
                    calls.unsure.add(payload)
        calls.settle()
    calls.check(client, log)


def test_an_interrupted_close_leaves_a_closed_writer(client: Client, log: str) -> None:
    """Struck at each moment of `close`: every append has its outcome soon, and the next writer finds what was acked."""
    acked: list[MessageId] = []
    for moment in moments():
        writer = client.open_writer(log, create=True)
        acked.append(writer.append(b"a"))
        pending = [writer.submit(b"%d" % number) for number in range(3)]
        with suppress(KeyboardInterrupt), moment.strike():
            writer.close()
        with suppress(AppendsFailedError):  # of what the interrupt left in flight
            writer.close()
        assert not writer.active
        with pytest.raises(LogStoreError, match="closed"):
            writer.append(b"late")
        for one in pending:
            with suppress(AppendAbortedError, AppendIndeterminateError):
                acked.append(one.result(timeout=10))
    with client.reader(log, until="latest") as reader:
        assert set(acked) <= {message.id for message in reader}


def test_an_interrupted_client_goes_on(client: Client, log: str) -> None:
    """Calls that only ask."""
    client.create(log)
    for moment in moments():
        with suppress(KeyboardInterrupt), moment.strike():
            assert log in client.list()
            assert client.describe(log).record.ledgers == ()
        assert log in client.list()


def test_an_interrupted_opening_or_closing_leaves_nothing(cluster: Standalone, log: str) -> None:
    """open_writer and close: the log can be taken over and written at once."""
    threads = threading.active_count()
    for moment in moments():
        # Not connect: an interrupt in Thread.start of the standard library leaves what no caller can put right.
        client = dlog.connect(cluster.uri)
        with suppress(KeyboardInterrupt), moment.strike():
            client.open_writer(log, create=True).append(b"a")
            client.close()
        client.close()
        with pytest.raises(ConfigurationError, match="connect again"):
            client.list()
    with dlog.connect(cluster.uri) as client, client.open_writer(log, create=True) as writer:
        writer.append(b"b")
    give_up_at = time.monotonic() + 10
    while threading.active_count() > threads and time.monotonic() < give_up_at:
        time.sleep(0.05)
    assert threading.active_count() == threads
