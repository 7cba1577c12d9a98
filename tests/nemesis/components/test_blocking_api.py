"""The blocking API in several threads, with timeouts at random times, while bookies are killed and links are cut."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from random import Random

import pytest

import dlog
from dlog.errors import CallTimeoutError
from dlog.testing import RealCluster
from ledger.errors import LogStoreError

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SECONDS = 6.0
THREADS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


class Appender(threading.Thread):
    """Appends with a timeout that is often too short; what it gave up may be there or not."""

    def __init__(self, writer: dlog.Writer, name: str, end: float) -> None:
        super().__init__(name=name)
        self._writer = writer
        self._random = Random(name)
        self._end = end
        self.acked: list[tuple[dlog.MessageId, bytes]] = []
        self.submitted: list[bytes] = []
        self.pending: list[tuple[dlog.Pending, bytes]] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        number = 0
        while time.monotonic() < self._end:
            payload = b"%s:%d" % (self.name.encode(), number)
            number += 1
            self.submitted.append(payload)
            limit_s = self._random.choice([None, 0.0, 0.001, self._random.uniform(0.0, 0.5)])
            began = time.monotonic()
            try:
                self.acked.append((self._writer.append(payload, timeout_s=limit_s), payload))
            except CallTimeoutError as error:
                if error.pending is not None:
                    self.pending.append((error.pending, payload))
            except LogStoreError as error:
                self.wrong.append(repr(error))
            if limit_s is not None and time.monotonic() - began > limit_s + 20.0:
                self.wrong.append(f"a limit of {limit_s} s took {time.monotonic() - began} s")


def test_what_threads_were_given_is_there(cluster: RealCluster) -> None:
    random, end = Random(1), time.monotonic() + SECONDS
    with dlog.connect(cluster.uri) as client, client.open_writer("threads", create=True) as writer:
        threads = [Appender(writer, f"thread-{number}", end) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        while time.monotonic() < end:
            number = random.randrange(3)
            fault = random.choice([cluster.pause, cluster.partition, cluster.cut, cluster.kill])
            fault(number)
            time.sleep(random.uniform(0.0, 0.6))
            cluster.heal()
        for thread in threads:
            thread.join(60.0)
            assert not thread.is_alive()
        assert [found for thread in threads for found in thread.wrong] == []
        for thread in threads:  # what was given up by its caller still gets its outcome
            thread.acked += [(pending.result(60.0), payload) for pending, payload in thread.pending]
        found = {message.id: message.payload for message in client.reader("threads", until="latest")}
    for thread in threads:
        assert thread.acked
        for message_id, payload in thread.acked:
            assert found.get(message_id) == payload, (message_id, payload)
        mine = [payload for payload in found.values() if payload in set(thread.submitted)]
        assert len(mine) == len(set(mine))
    print({thread.name: (len(thread.acked), len(thread.pending)) for thread in threads})


def test_readers_with_limits_return_every_message_once(cluster: RealCluster) -> None:
    """`poll` with limits at random, while links break: nothing is skipped, nothing comes twice."""
    random = Random(2)
    with dlog.connect(cluster.uri) as client:
        with client.open_writer("polled", create=True) as writer:
            expected = [b"%d" % number for number in range(300)]
            for payload in expected:
                writer.submit(payload)
        found: list[bytes | None] = []
        give_up_at = time.monotonic() + 60.0
        with client.reader("polled") as reader:
            while len(found) < len(expected):
                assert time.monotonic() < give_up_at, len(found)
                if random.random() < 0.02:
                    cluster.cut(random.randrange(3))
                if random.random() < 0.05:
                    cluster.heal()
                message = reader.poll(random.choice([0.0, 0.001, 0.02]))
                if message is not None:
                    found.append(message.payload)
                else:
                    cluster.heal()
        assert found == expected
    cluster.heal()
