"""Real processes that are hurt on purpose, used by blocking programs; async ones are in the examples."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import dlog
from dlog.testing import RealCluster
from ledger.errors import ConfigurationError

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def payloads(client: object, log: str) -> list[bytes | None]:
    return [message.payload for message in client.reader(log, until="latest")]  # type: ignore[attr-defined]


def test_clients_get_the_address_of_the_relay(cluster: RealCluster) -> None:
    for facts in cluster.bookies:
        assert facts.bookie_id.startswith("127.0.0.1:")


def test_a_paused_bookie_answers_when_it_is_resumed(cluster: RealCluster) -> None:
    with dlog.connect(cluster.uri) as client, client.open_writer("paused", create=True) as writer:
        writer.append(b"to all")
        for number in range(3):
            cluster.pause(number)
        append = writer.submit(b"later")
        time.sleep(0.3)
        assert not append.done()
        cluster.heal()
        append.result()
        assert payloads(client, "paused") == [b"to all", b"later"]


def test_cut_connections_are_made_again(cluster: RealCluster) -> None:
    with dlog.connect(cluster.uri) as client, client.open_writer("cut", create=True) as writer:
        writer.append(b"before")
        cluster.cut(0)
        writer.append(b"with two")
        cluster.reconnect(0)
        cluster.cut(1)
        writer.append(b"with another two")
        cluster.heal()
        assert payloads(client, "cut") == [b"before", b"with two", b"with another two"]


def test_all_that_died_are_back_after_healing(cluster: RealCluster) -> None:
    with dlog.connect(cluster.uri) as client:
        with client.open_writer("killed", create=True) as writer:
            writer.append(b"before")
        before = [facts.process_id for facts in cluster.bookies]
        for number in range(3):
            cluster.kill(number)
        assert [facts.process_id for facts in cluster.bookies] == [None, None, None]
        cluster.heal()
        assert not set(before) & {facts.process_id for facts in cluster.bookies}
        with client.open_writer("killed", create=True) as writer:
            writer.append(b"after")
        assert payloads(client, "killed") == [b"before", b"after"]


def test_a_cluster_of_which_half_is_paused_stops_immediately(tmp_path: Path) -> None:
    with RealCluster(tmp_path, 2) as cluster:
        cluster.pause(0)
        processes = [supervisor._process for supervisor in cluster._cluster._supervisors]
    # SIGKILL would be the supervisor's, after it has waited for the sleeper in vain.
    assert [process.returncode for process in processes if process is not None] == [0, 0]


def test_what_cannot_be_hurt_is_refused(cluster: RealCluster) -> None:
    """A negative number, as that of the last bookie, too: a test would hurt another one than it names."""
    for number in (-1, 3):
        for hurt in (cluster.partition, cluster.cut, cluster.reconnect, cluster.kill, cluster.pause):
            with pytest.raises(ConfigurationError, match=f"there is no bookie {number}: 3 are running"):
                hurt(number)


def test_a_cluster_starts_once_in_an_empty_directory(cluster: RealCluster, tmp_path: Path) -> None:
    """A second start would lose the processes of the first, and bookies refuse the port of another relay."""
    with pytest.raises(ConfigurationError, match="running already"):
        cluster.start()
    with dlog.connect(cluster.uri) as client:
        client.create("still-there")
    with pytest.raises(ConfigurationError, match="choose an empty one"):
        RealCluster(cluster.logs.parent).start()
    other = RealCluster(tmp_path)
    with pytest.raises(ConfigurationError, match="does not run"):
        other.kill(0)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_stops_nothing(cluster: RealCluster) -> None:
    child = multiprocessing.get_context("fork").Process(target=cluster.stop)
    child.start()
    child.join(30)
    assert child.exitcode == 0
    with dlog.connect(cluster.uri) as client, client.open_writer("forked", create=True) as writer:
        writer.append(b"payload")
