"""A bookie of ours that was stopped until ZooKeeper gave up its session, and what it finds when it goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from dlog.local.signalling import pause_process
from tests.helpers.processes.command import Command, bookie
from tests.helpers.processes.zookeeper import ZooKeeperProcess

pytestmark = pytest.mark.integration

WAIT_S = 20.0


class SleepingBookie:
    """One bookie process with a session of a second, registered under `node`."""

    def __init__(self, zookeeper: ZooKeeperProcess, raw: KazooClient, directory: Path) -> None:
        self.root = zookeeper.new_root()
        self.uri = f"zk+hierarchical://{zookeeper.address}{self.root}?session_timeout_ms=1000"
        self._raw = raw
        bookie("init-cluster", "--metadata", self.uri).must_succeed()
        place = ["--metadata", self.uri, "--data", str(directory)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bookie_server", "start", "--port", "0", *place],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=Command().environment(),
        )
        assert self.process.stdout is not None
        self.bookie_id = self.process.stdout.readline().split()[1]
        self.node = f"{self.root}/available/{self.bookie_id}"
        self.session = self.owner()
        assert self.session is not None

    def owner(self) -> int | None:
        stat = self._raw.exists(self.node)
        return None if stat is None else int(stat.ephemeralOwner)

    def sleep_until_given_up(self) -> None:
        pause_process(self.process.pid)
        give_up_at = time.monotonic() + WAIT_S
        while self.owner() is not None:
            assert time.monotonic() < give_up_at, "its session did not end"
            time.sleep(0.05)

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def last_words(self) -> str:
        assert self.process.wait(WAIT_S) == 1
        assert self.process.stderr is not None
        return self.process.stderr.read().strip().splitlines()[-1]


@pytest.fixture
def sleeper(zookeeper: ZooKeeperProcess, raw: KazooClient, tmp_path: Path) -> Iterator[SleepingBookie]:
    started = SleepingBookie(zookeeper, raw, tmp_path / "bookie")
    with started.process:
        yield started
        started.process.kill()


def test_it_registers_again_if_no_other_bookie_did(sleeper: SleepingBookie) -> None:
    sleeper.sleep_until_given_up()
    sleeper.wake()
    give_up_at = time.monotonic() + WAIT_S
    while sleeper.owner() in (None, sleeper.session):
        assert time.monotonic() < give_up_at, "it did not register again"
        time.sleep(0.05)
    listed = bookie("ls", "--metadata", sleeper.uri, "-o", "json").must_succeed()
    assert [row["bookie"] for row in json.loads(listed)] == [sleeper.bookie_id]
    assert sleeper.process.poll() is None


def test_it_has_its_cookie_back_if_it_was_decommissioned(sleeper: SleepingBookie, raw: KazooClient) -> None:
    node = f"{sleeper.root}/cookies/{sleeper.bookie_id}"
    cookie = raw.get(node)[0]
    sleeper.sleep_until_given_up()
    bookie("decommission", sleeper.bookie_id, "--metadata", sleeper.uri).must_succeed()
    assert raw.exists(node) is None
    sleeper.wake()
    give_up_at = time.monotonic() + WAIT_S
    while raw.exists(node) is None:
        assert time.monotonic() < give_up_at, "it did not write its cookie back"
        time.sleep(0.05)
    assert raw.get(node)[0] == cookie
    assert sleeper.owner() not in (None, sleeper.session)
    assert sleeper.process.poll() is None


def test_it_ends_if_another_cookie_is_there(sleeper: SleepingBookie, raw: KazooClient) -> None:
    node = f"{sleeper.root}/cookies/{sleeper.bookie_id}"
    another = raw.get(node)[0].replace(b"bookie/", b"another/")
    sleeper.sleep_until_given_up()
    raw.set(node, another)
    sleeper.wake()
    assert "the cookie in the metadata store does not match" in sleeper.last_words()
    assert raw.get(node)[0] == another


def test_it_ends_if_another_process_took_its_name(sleeper: SleepingBookie, raw: KazooClient) -> None:
    sleeper.sleep_until_given_up()
    raw.create(sleeper.node, b"", ephemeral=True)
    sleeper.wake()
    said = sleeper.last_words()
    assert said.startswith(f"bookie: bookie {sleeper.bookie_id} lost its session")
    assert "is registered by another live process" in said and "then start the bookie again" in said
    # It takes nothing away from the other one.
    assert raw.exists(sleeper.node) is not None
    raw.delete(sleeper.node)


def test_it_ends_if_another_cluster_stands_there(sleeper: SleepingBookie, raw: KazooClient) -> None:
    """It would say "no such ledger" of ledgers it never had, or give out entries of another one's."""
    before = raw.get(f"{sleeper.root}/INSTANCEID")[0].decode()
    sleeper.sleep_until_given_up()
    raw.set(f"{sleeper.root}/INSTANCEID", b"11111111-2222-3333-4444-555555555555")
    sleeper.wake()
    said = sleeper.last_words()
    assert f"was {before} and is 11111111-2222-3333-4444-555555555555 now" in said
    assert sleeper.owner() is None


def test_it_ends_if_the_cluster_was_removed(sleeper: SleepingBookie, raw: KazooClient) -> None:
    sleeper.sleep_until_given_up()
    raw.delete(sleeper.root, recursive=True)
    sleeper.wake()
    assert "and is none now" in sleeper.last_words()
    assert raw.exists(sleeper.root) is None
