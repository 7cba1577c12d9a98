"""What tests on a real ZooKeeper share: a look at its nodes past our driver, and a server to be mistreated."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import kazoo.protocol.connection
import kazoo.retry
import pytest
from kazoo.client import KazooClient

from tests.helpers.apache.cluster import MixedCluster
from tests.helpers.apache.java_client import JavaClient, JavaProcess, compile_driver, java_client
from tests.helpers.processes.zookeeper import ZooKeeperProcess

# kazoo's threads draw whenever they connect or ping. From the global source that would be a surprise to any property
# test that runs in the same process at that moment.
for module in (kazoo.retry, kazoo.protocol.connection):
    setattr(module, "random", Random())  # noqa: B010 - a module of its own, as far as kazoo sees


@pytest.fixture(scope="module")
def raw(zookeeper: ZooKeeperProcess) -> Iterator[KazooClient]:
    """kazoo itself on the server that tests share.

    Not for longer than a module: its thread draws from the global random source whenever it pings, and a property
    test that runs at that moment takes it for a fault of its own.
    """
    client = KazooClient(zookeeper.address)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """A server of this module's own: to be killed, paused and started again."""
    server = ZooKeeperProcess(tmp_path_factory.mktemp("fragile"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def both_kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Four bookies of Apache's and four of ours in one cluster, for the whole session: use `mixed`."""
    with MixedCluster(tmp_path_factory.mktemp("mixed"), apache=4, ours=4) as cluster:
        yield cluster


@pytest.fixture
def mixed(both_kinds: MixedCluster) -> MixedCluster:
    """The cluster of both kinds, all of it running, whatever the test before has killed."""
    both_kinds.start_all()
    return both_kinds


@pytest.fixture(scope="session")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaProcess]:
    """One JVM with Apache's client in it, for the whole session."""
    classes = tmp_path_factory.mktemp("java")
    process = JavaProcess(compile_driver(classes), classes / "client.log")
    yield process
    process.stop()


@pytest.fixture(scope="session")
def java(both_kinds: MixedCluster, jvm: JavaProcess) -> dict[str, JavaClient]:
    """Apache's client: "v3" with its defaults, "v2" on the binary protocol, as Pulsar uses it."""
    return {
        "v3": java_client(jvm, "v3", both_kinds.uri),
        "v2": java_client(jvm, "v2", both_kinds.uri, useV2WireProtocol="true"),
    }
