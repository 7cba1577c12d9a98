"""Our bookies with their metadata in ZooKeeper, by the commands that a user types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

import dlog
from dlog.local.embedded import Standalone
from ledger.errors import ConfigurationError
from tests.helpers.processes.command import Command, bookie
from tests.helpers.processes.zookeeper import ZooKeeperProcess

pytestmark = pytest.mark.integration


@pytest.fixture
def root(zookeeper: ZooKeeperProcess) -> str:
    return zookeeper.new_root()


@pytest.fixture
def uri(zookeeper: ZooKeeperProcess, root: str) -> str:
    # So short that a killed bookie soon is off the list.
    return f"zk+hierarchical://{zookeeper.address}{root}?session_timeout_ms=2000"


def names(raw: KazooClient, path: str) -> list[str]:
    return sorted(raw.get_children(path))


def test_a_cluster_in_one_command(uri: str, tmp_path: Path) -> None:
    """Bookies of a directory join the cluster at the address, whose records others see; and they come back."""
    with dlog.standalone(tmp_path / "data", metadata=uri) as cluster, dlog.connect(uri) as client:
        assert cluster.uri == uri
        with client.open_writer("orders", create=True) as writer:
            writer.append(b"one")
        before = [one.bookie_id for one in cluster.bookies]
        cluster.kill(0)
        with client.open_writer("orders", create=True) as writer:
            writer.append(b"two")
        cluster.restart(0)
    assert not (tmp_path / "data" / "meta.db").exists()
    with dlog.standalone(tmp_path / "data", metadata=uri) as cluster, dlog.connect(uri) as client:
        assert [one.bookie_id for one in cluster.bookies] == before
        assert [one.payload for one in client.reader("orders", until="latest")] == [b"one", b"two"]
        listed = bookie("ls", "--metadata", uri).must_succeed()
        assert all(f"{one}  {one}  writable" in listed for one in before)
        busy = ["--metadata", uri, "--data", str(tmp_path / "data" / "bookie-1")]
        bookie("format", *busy, "--yes").must_fail(1, "used by another process", "stop")
    bookie("format", *busy, "--yes").must_fail(1, "ledger 0 still has entries on bookie " + before[0])
    assert before[0] in bookie("format", *busy, "--yes", "--force").must_succeed()


def test_two_directories_make_one_cluster(uri: str, tmp_path: Path) -> None:
    """As on two machines: each runs some bookies, and both have the same cluster."""
    with (
        Standalone(tmp_path / "a", 2, metadata=uri),
        Standalone(tmp_path / "b", 1, metadata=uri),
    ):
        listed = bookie("ls", "--metadata", uri).must_succeed()
        assert listed.count("writable") == 3
        Command(uri)("append", "orders", "--create", stdin=b"on three bookies\n").must_succeed()


def test_the_command_prints_an_address_that_a_shell_takes(uri: str, tmp_path: Path) -> None:
    several = uri.replace("/test", ";127.0.0.1:1/test", 1)
    with Command().start("standalone", "--data", str(tmp_path), "--metadata", several) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().decode() for _ in range(3)]
        finally:
            process.terminate()
            assert process.wait(30) == 0
    assert lines[0] == f"3 bookies are running, data in {tmp_path}\n"
    assert lines[2] == f"    export DLOG_METADATA='{several}'\n"


def test_metadata_of_one_process_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="store that they can reach"):
        Standalone(tmp_path / "data", metadata="memory:here")
    assert not (tmp_path / "data").exists()


def test_the_demonstration_leaves_nothing_at_an_address_that_was_empty(
    uri: str, root: str, raw: KazooClient
) -> None:
    """It starts bookies for it, kills one of them, and takes everything away again."""
    story = Command()("demo", "--no-spark", "--metadata", uri, timeout_s=110).must_succeed()
    assert "kill -9" in story and "is restarted" in story
    assert "27,004 flights, none missing, duplicated or out of order" in story
    left = re.sub(r"/.*", "", root.removeprefix("/"))
    assert names(raw, f"/{left}") == ["ledgers-ids"]


@pytest.fixture
def cluster(uri: str, tmp_path: Path) -> Iterator[Standalone]:
    with Standalone(tmp_path / "data", metadata=uri) as cluster:
        yield cluster


def test_the_demonstration_uses_the_bookies_that_are_there(
    cluster: Standalone, root: str, raw: KazooClient
) -> None:
    """They are somebody's: none is killed. Its log is another than the one of that name, and goes again."""
    with dlog.connect(cluster.uri) as client:
        client.create("flights")
    cookies = names(raw, f"{root}/cookies")
    story = Command()("demo", "--no-spark", "--metadata", cluster.uri, timeout_s=110).must_succeed()
    assert "no bookie is killed" in story and "kill -9" not in story
    assert "27,004 flights, none missing, duplicated or out of order" in story
    assert Command(cluster.uri).here("ls").must_succeed().split() == ["flights"]
    assert names(raw, f"{root}/cookies") == cookies
