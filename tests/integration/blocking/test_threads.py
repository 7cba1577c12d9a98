"""Several threads on one object: each message goes to exactly one of them, in order."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import pytest

import dlog
from dlog.blocking.client import Client, Reader
from dlog.blocking.loop_thread import LoopThread
from dlog.local.embedded import Standalone

pytestmark = pytest.mark.integration

MESSAGES = 20_000
ATTEMPTS = 50

Way = Callable[[Reader], Iterable[int]]


def _next(reader: Reader) -> Iterator[int]:
    try:
        while True:
            yield int(next(reader).payload or b"")
    except StopIteration:
        return


def _messages(reader: Reader) -> Iterator[int]:
    for message in reader:
        yield int(message.payload or b"")


def _batches(reader: Reader) -> Iterator[int]:
    for batch in reader.batches():
        yield from (int(payload or b"") for payload in batch.payloads)


def _arrow(reader: Reader) -> Iterator[int]:
    for batch in reader.arrow_batches(["value"], batch_rows=7):
        yield from map(int, batch["value"].to_pylist())


@pytest.fixture
def many_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _read_in_threads(reader: Reader, ways: Sequence[Way]) -> list[list[int]]:
    """What each of the threads saw that began together."""
    seen: list[list[int]] = [[] for _ in ways]
    faults: list[BaseException] = []
    together = threading.Barrier(len(ways))

    def read(way: Way, mine: list[int]) -> None:
        try:
            together.wait(30)
            mine.extend(way(reader))
        except BaseException as error:  # noqa: BLE001 - raised by the test's own thread
            faults.append(error)

    threads = [threading.Thread(target=read, args=each) for each in zip(ways, seen, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert faults == []
    return seen


@pytest.mark.usefixtures("many_switches")
@pytest.mark.parametrize("in_entry", [2, 500])
@pytest.mark.parametrize(
    "ways",
    [
        [_messages] * 3,
        [_next] * 3,
        [_batches] * 3,
        [_arrow] * 3,
        [_messages, _batches],
        [_next, _next, _batches],
        [_messages, _batches, _arrow],
    ],
    ids=lambda ways: "".join(way.__name__ for way in ways),
)
def test_threads_share_a_reader(cluster: Standalone, log: str, ways: Sequence[Way], in_entry: int) -> None:
    """Nothing is lost, nothing comes twice, and the ids that each thread sees rise."""
    with dlog.connect(cluster.uri) as client:
        with client.open_writer(log, create=True) as writer:
            for first in range(0, MESSAGES, in_entry):
                writer.submit_many([b"%d" % number for number in range(first, first + in_entry)])
        with client.reader(log, start="earliest", until="latest") as reader:
            seen = _read_in_threads(reader, ways)
        assert all(mine == sorted(mine) for mine in seen)
        assert sorted(chain.from_iterable(seen)) == list(range(MESSAGES))


@pytest.mark.usefixtures("many_switches")
def test_the_rest_of_a_batch_goes_to_one_thread(cluster: Standalone, log: str) -> None:
    """One message of the entry was returned; then several threads take batches."""
    with dlog.connect(cluster.uri) as client:
        with client.open_writer(log, create=True) as writer:
            writer.append_many([b"%d" % number for number in range(3000)])
        for _ in range(ATTEMPTS):
            with client.reader(log, start="earliest", until="latest") as reader:
                next(reader)
                seen = _read_in_threads(reader, [_batches] * 3)
            assert sorted(chain.from_iterable(seen)) == list(range(1, 3000))


@pytest.mark.parametrize(
    "opened",
    [
        lambda client, log: client.open_writer(log),
        lambda client, log: client.reader(log),
        lambda client, log: client.metadata_cache(),
    ],
    ids=["writer", "reader", "cache"],
)
def test_a_close_returns_if_another_thread_closes_the_client_first(
    cluster: Standalone, log: str, opened: Callable[[Client, str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = dlog.connect(cluster.uri)
    client.create(log)
    found = opened(client, log)
    run_within = LoopThread.run_within

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.setattr(LoopThread, "run_within", run_within)
        other = threading.Thread(target=client.close)
        other.start()
        other.join()
        return run_within(*arguments)

    monkeypatch.setattr(LoopThread, "run_within", overtaken)
    found.close()
    assert client._thread.ended
