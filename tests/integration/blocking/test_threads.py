"""Several threads on one object: each message goes to exactly one of them, in order."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import pytest

import dlog
from dlog.blocking.client import Reader
from dlog.local.embedded import Standalone

pytestmark = pytest.mark.integration

MESSAGES = 20_000


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


@pytest.mark.usefixtures("many_switches")
@pytest.mark.parametrize("way", [_messages, _next, _batches, _arrow])
def test_threads_share_a_reader(
    cluster: Standalone, log: str, way: Callable[[Reader], Iterable[Any]]
) -> None:
    """Nothing is lost, nothing comes twice, and the ids that each thread sees rise."""
    with dlog.connect(cluster.uri) as client:
        with client.open_writer(log, create=True) as writer:
            for first in range(0, MESSAGES, 2):
                writer.submit_many([b"%d" % number for number in range(first, first + 2)])
        with client.reader(log, start="earliest", until="latest") as reader:
            seen: list[list[int]] = [[], [], []]
            faults: list[BaseException] = []

            def read(mine: list[int]) -> None:
                try:
                    mine.extend(way(reader))
                except BaseException as error:  # noqa: BLE001 - told by the test's own thread
                    faults.append(error)

            threads = [threading.Thread(target=read, args=(mine,)) for mine in seen]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert not any(thread.is_alive() for thread in threads)
        assert faults == []
        assert all(mine == sorted(mine) for mine in seen)
        assert sorted(chain.from_iterable(seen)) == list(range(MESSAGES))
