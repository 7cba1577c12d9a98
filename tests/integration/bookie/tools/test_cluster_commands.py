"""Verbs that ask the metadata store of a cluster: its ledgers, and an audit."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bookie_server.tools.admin import init_cluster
from ledger.metadata.drivers import open_store
from ledger.model import QuorumSizes
from tests.helpers.ledger.appender import client_of
from tests.helpers.processes.bookie import BookieProcess, run_bookie

pytestmark = pytest.mark.integration

ONE = QuorumSizes(ensemble=1, write=1, ack=1)


class Cluster:
    """A bookie, a closed ledger with two entries, and an open one."""

    def __init__(self, directory: Path) -> None:
        self.database = directory / "meta.db"
        self.uri = f"sqlite:///{self.database}"
        init_cluster(self.uri)
        self.bookie = BookieProcess(self.uri, directory / "bookie")
        self.bookie.start()
        self.bookie_id = f"127.0.0.1:{self.bookie.port}"
        asyncio.run(self._write())

    async def _write(self) -> None:
        async with client_of(self.uri) as client:
            closed = await client.create(ONE)
            await asyncio.gather(closed.add(b"12345"), closed.add(b"678"))
            await closed.close()
            await (await client.create(ONE)).add(b"open")

    def lines(self, *arguments: str) -> list[dict[str, object]]:
        done = run_bookie("list-ledgers", "--metadata", self.uri, "-o", "json", *arguments)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.bookie.stop()


def test_ledgers_are_listed_with_and_without_their_metadata(cluster: Cluster) -> None:
    assert cluster.lines() == [{"ledger": 1}, {"ledger": 2}]
    closed, opened = cluster.lines("--meta")
    assert (closed["state"], closed["last_entry"], closed["bytes"]) == ("CLOSED", 1, 8)
    assert closed["fragments"] == [{"first_entry": 0, "ensemble": [cluster.bookie_id]}]
    assert (opened["state"], opened["last_entry"], opened["ensemble"]) == ("OPEN", None, 1)
    text = run_bookie("list-ledgers", "--meta", "--metadata", cluster.uri)
    assert f"fragments=0:{cluster.bookie_id}\n" in text.stdout


def test_only_ledgers_that_name_a_bookie_are_listed_if_it_is_given(cluster: Cluster) -> None:
    assert cluster.lines("--bookie", cluster.bookie_id) == [{"ledger": 1}, {"ledger": 2}]
    unknown = run_bookie("list-ledgers", "--metadata", cluster.uri, "--bookie", "127.0.0.1:1")
    assert unknown.returncode == 1 and "the cluster knows no bookie 127.0.0.1:1: " in unknown.stderr
    done = run_bookie("list-ledgers", "--metadata", cluster.uri, "--bookie", "a b")
    assert done.returncode == 2 and "bookie id 'a b' is not valid" in done.stderr


def test_a_ledger_with_damaged_metadata_does_not_hide_the_others(cluster: Cluster) -> None:
    with closing(sqlite3.connect(cluster.database)) as database:
        key = f"ledgers/{1:019d}"
        [[value]] = database.execute("SELECT value FROM nodes WHERE key = ?", (key,))
        with database:
            database.execute("UPDATE nodes SET value = ? WHERE key = ?", (b"nonsense", key))
        damaged, intact = cluster.lines("--meta")
        with database:
            database.execute("UPDATE nodes SET value = ? WHERE key = ?", (value, key))
    assert damaged["ledger"] == 1 and "damaged" in damaged
    assert intact["state"] == "OPEN"


def test_a_delay_that_cannot_be_read_is_not_stored_and_a_stored_one_can_be_replaced(cluster: Cluster) -> None:
    at = ("repair-settings", "--metadata", cluster.uri)
    refused = run_bookie(*at, "--lost-bookie-delay", str(2**31))
    assert refused.returncode == 2 and "2147483647" in refused.stderr
    assert run_bookie(*at, "--lost-bookie-delay", "5").returncode == 0
    with closing(sqlite3.connect(cluster.database)) as database, database:
        key = "repair/lost-bookie-delay"
        changed = database.execute("UPDATE nodes SET value = ? WHERE key = ?", (b"2147483648", key))
        assert changed.rowcount == 1
    shown = run_bookie(*at)
    assert shown.returncode == 1
    assert "'2147483648', not a number of seconds from 0 to 2147483647" in shown.stderr
    assert "`bookie repair-settings --lost-bookie-delay SECONDS`" in shown.stderr
    assert run_bookie(*at, "--lost-bookie-delay", "5").returncode == 0
    assert run_bookie(*at).returncode == 0


def test_an_audit_is_triggered_as_apaches_tools_do(cluster: Cluster) -> None:
    done = run_bookie("trigger-audit", "--metadata", cluster.uri)
    assert done.returncode == 0
    assert done.stdout == "no auditor runs now; it audits when `bookie autorecovery` starts\n"

    async def with_an_auditor() -> None:
        store = await open_store(cluster.uri)
        candidacy = await store.repair.stand("auditor:1")
        await store.repair.set_lost_bookie_delay_s(7)
        before = await store.repair.lost_bookie_delay_s()
        asked = await asyncio.to_thread(run_bookie, "trigger-audit", "--metadata", cluster.uri)
        assert asked.stdout == "auditor auditor:1 is asked to audit now\n"
        after = await store.repair.lost_bookie_delay_s()
        assert before is not None and after is not None
        assert after.value == 7 and after.version != before.version
        await store.repair.set_enabled(False)
        deferred = await asyncio.to_thread(run_bookie, "trigger-audit", "--metadata", cluster.uri)
        assert deferred.stdout.startswith("repair is switched off; auditor auditor:1 audits when ")
        await store.repair.set_enabled(True)
        await candidacy.close()
        await store.close()

    asyncio.run(with_an_auditor())
