"""`bookie format-cluster`, `nuke-cluster` and `instance-id`, on each kind of store: what was confirmed, and no more."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.metadata.drivers import open_store
from ledger.model import QuorumSizes
from tests.helpers.ledger.appender import client_of
from tests.helpers.processes.bookie import BookieProcess, listed_bookies, run_bookie
from tests.helpers.processes.zookeeper import ZooKeeperProcess

pytestmark = pytest.mark.integration

ONE = QuorumSizes(ensemble=1, write=1, ack=1)


@pytest.fixture(params=["sqlite", "zookeeper"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address without a cluster."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/meta.db"
    zookeeper: ZooKeeperProcess = request.getfixturevalue("zookeeper")
    return f"zk+hierarchical://{zookeeper.address}{zookeeper.new_root()}?session_timeout_ms=1000"


@pytest.fixture
def running(empty: str, tmp_path: Path) -> Iterator[BookieProcess]:
    """A bookie of a cluster with a ledger and a log's record."""
    assert run_bookie("init-cluster", "--metadata", empty).returncode == 0
    bookie = BookieProcess(empty, tmp_path / "bookie")
    bookie.start()

    async def write() -> None:
        async with client_of(empty) as client:
            await (await client.create(ONE)).close()
            await client.store.create_record("/dlog/orders", b"record")

    asyncio.run(write())
    yield bookie
    bookie.stop()


@pytest.fixture
def stopped(running: BookieProcess) -> BookieProcess:
    assert running.terminate() == 0
    return running


def run(uri: str, *arguments: str, code: int = 0, stdin: str = "") -> str:
    """What it prints to stdout and, if it fails, to stderr."""
    done = run_bookie(*arguments, "--metadata", uri, stdin=stdin)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr if code else done.stdout


def instance_id(uri: str) -> str:
    return run(uri, "instance-id").strip()


def left(uri: str) -> tuple[int, int, int]:
    """Ledgers, cookies and records of the cluster."""

    async def count() -> tuple[int, int, int]:
        store = await open_store(uri)
        try:
            ledgers = [each async for each in store.ledger_ids()]
            records = await store.list_records("/dlog")
            return len(ledgers), len(await store.list_cookies()), len(records)
        finally:
            await store.close()

    return asyncio.run(count())


def next_ledger(uri: str) -> int:
    async def draw() -> int:
        store = await open_store(uri)
        try:
            return await store.new_ledger_id()
        finally:
            await store.close()

    return asyncio.run(draw())


def test_a_cluster_is_formatted_once_it_is_confirmed(stopped: BookieProcess) -> None:
    uri = stopped.metadata
    before = instance_id(uri)
    last = next_ledger(uri)
    declined = run_bookie("format-cluster", "--metadata", uri, stdin="n\n")
    assert (declined.returncode, declined.stdout) == (1, ""), "results go there, and questions to stderr"
    assert f"Delete the metadata of 1 ledger and 1 bookie of cluster {before} in " in declined.stderr
    assert declined.stderr.endswith("? [y/N]: bookie: nothing was changed\n")
    assert run_bookie("format-cluster", "--metadata", uri).returncode == 1, "no answer is none"
    assert (instance_id(uri), left(uri)) == (before, (1, 1, 1))
    done = run(uri, "format-cluster", stdin="y\n")
    after = instance_id(uri)
    assert after != before and done.endswith(f", which is cluster {after} now\n")
    assert left(uri) == (0, 0, 0)
    assert next_ledger(uri) > last
    refused = run_bookie("start", "--metadata", uri, "--data", str(stopped.data), "--port", "0")
    assert refused.returncode == 2 and before in refused.stderr, "its entries are of the old cluster"


def test_a_cluster_whose_bookies_run_is_formatted_by_force_only(running: BookieProcess) -> None:
    uri = running.metadata
    before = instance_id(uri)
    [bookie_id] = [each["bookie"] for each in listed_bookies(uri)]
    refused = run(uri, "format-cluster", "--yes", code=1)
    assert f"1 bookie is registered ({bookie_id}): stop it first" in refused
    assert (instance_id(uri), left(uri)) == (before, (1, 1, 1))
    running.settings = {"gc_interval_s": 0.5}
    assert running.terminate() == 0
    running.start()
    run(uri, "format-cluster", "--yes", "--force")
    assert instance_id(uri) != before and left(uri)[0] == 0
    # It would not start again on what clients of the new cluster append to it.
    code, errors = running.wait()
    assert code == 1 and f"was {before} and is {instance_id(uri)} now" in errors
    assert listed_bookies(uri) == []


def test_formatting_no_cluster_initializes_one_as_apaches_does(empty: str) -> None:
    assert re.fullmatch(r"cluster \S+ is ready in \S+\n", run(empty, "format-cluster"))
    assert left(empty) == (0, 0, 0)


def test_a_cluster_is_removed_if_its_instance_id_is_given(stopped: BookieProcess) -> None:
    uri = stopped.metadata
    there, last = instance_id(uri), next_ledger(uri)
    assert "give either --instance-id" in run(uri, "nuke-cluster", code=2)
    assert "give either --instance-id" in run(uri, "nuke-cluster", "--force", "--instance-id", there, code=2)
    assert "--instance-id is empty" in run(uri, "nuke-cluster", "--instance-id", "", code=2)
    wrong = run(uri, "nuke-cluster", "--instance-id", "another", code=2)
    assert f"this is cluster {there}, not another: nothing was removed" in wrong
    assert left(uri) == (1, 1, 1)
    done = run(uri, "nuke-cluster", "--instance-id", there)
    assert done.startswith(f"removed cluster {there} from ")
    assert "holds no cluster yet" in run(uri, "instance-id", code=1)
    assert "holds no cluster yet" in run(uri, "nuke-cluster", "--force", code=1)
    run(uri, "init-cluster")
    assert instance_id(uri) != there and left(uri) == (0, 0, 0)
    assert next_ledger(uri) > last


def test_no_force_removes_a_cluster_whose_bookies_run(running: BookieProcess) -> None:
    uri = running.metadata
    [bookie_id] = [each["bookie"] for each in listed_bookies(uri)]
    for confirmation in (["--force"], ["--instance-id", instance_id(uri)]):
        assert f"1 bookie is registered ({bookie_id}): stop it first" in run(
            uri, "nuke-cluster", *confirmation, code=1
        )
    assert left(uri) == (1, 1, 1)
    assert running.terminate() == 0
    run(uri, "nuke-cluster", "--force")
    assert "holds no cluster yet" in run(uri, "instance-id", code=1)
