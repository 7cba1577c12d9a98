"""history, explain and verify on real bookies: what they print, when they fail, and that they change nothing."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dlog.client import connect
from tests.helpers.processes.cluster import Cluster, forked_cluster
from tests.helpers.processes.command import Command, Result

pytestmark = pytest.mark.integration

MARK = b"0123456789abcdef"


async def call(dlog: Command, *arguments: str) -> Result:
    """In a thread, since the bookies' output is read on this loop."""
    return await asyncio.to_thread(dlog, *arguments)


async def damage(cluster: Cluster, number: int) -> None:
    """Stop the bookie, flip a bit in each copy of MARK that it has stored, start it."""
    assert await cluster.bookies[number].stop() == 0
    flipped = 0
    for path in cluster.bookie_directory(number).rglob("*"):
        if path.is_file() and MARK in (data := path.read_bytes()):
            flipped += 1
            path.write_bytes(data.replace(MARK, bytes([MARK[0] ^ 4]) + MARK[1:]))
    assert flipped
    await cluster.restart(number)


async def test_a_log_is_verified_while_it_is_written_and_after_damage(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, connect(cluster.uri) as client:
        dlog = Command(cluster.uri)
        writer = await client.open_writer("orders", create=True)
        first = await writer.append(MARK + b" one")
        await writer.rotate()
        ids = await writer.append_many([MARK + b" two", b"three"], keys=[b"k", None])
        before = (cluster.directory / "meta.db").read_bytes()
        printed = (await call(dlog, "verify", "orders")).must_succeed()
        assert printed == (
            "log orders: 2 entries in 2 ledgers; copies: 6 intact, 0 missing, 0 damaged, 0 unreachable\n"
        )
        explained = json.loads(
            (await call(dlog, "explain", "orders", str(ids[0]), "-o", "json")).must_succeed()
        )
        assert (explained["outcome"], explained["sealed"], explained["messages_in_entry"]) == (
            "committed",
            False,
            2,
        )
        assert list(explained["copies"].values()) == ["intact"] * 3
        events = json.loads((await call(dlog, "history", "orders", "-o", "json")).must_succeed())
        assert [(event["event"], event["epoch"]) for event in events] == [("takeover", 1), ("rotation", 1)]
        assert events[0]["owner_instance"] == writer.owner.instance
        for command in (("info", "orders"), ("ledgers", "orders"), ("explain", "orders", str(first))):
            (await call(dlog, *command)).must_succeed()
        assert (cluster.directory / "meta.db").read_bytes() == before
        last = await writer.append(b"the writer was not fenced")
        assert last > ids[1]
        await writer.close()
        above = f"{last.ledger_id}:{last.entry_id + 1}:0"
        assert "\non " not in (await call(dlog, "explain", "orders", above)).must_succeed()
        explained = json.loads((await call(dlog, "explain", "orders", above, "-o", "json")).must_succeed())
        assert (explained["outcome"], explained["copies"]) == ("absent", {})

        cluster.bookies[2].kill()
        printed = (await call(dlog, "verify", "orders")).must_succeed()
        assert "has 2 intact copies of 3 (on its ack quorum): unreachable on" in printed
        found = await call(dlog, "verify", "orders", "--full")
        assert found.code == 1 and "fewer copies than their write quorum" in found.err
        await cluster.bookies[2].stop()
        await cluster.restart(2)

        await damage(cluster, 1)
        found = await call(dlog, "verify", "orders")
        assert found.code == 1 and "log orders has lost, damaged or unproved copies in ledger" in found.err
        assert "(on its ack quorum): damaged on" in found.out
        document = json.loads((await call(dlog, "verify", "orders", "-o", "json")).out)
        assert all(each["copies"]["damaged"] for each in document)
        explained_text = (await call(dlog, "explain", "orders", str(first))).must_succeed()
        assert "damaged: " in explained_text and "outcome" in explained_text

        cluster.bookies[0].kill()
        cluster.bookies[2].kill()
        found = await call(dlog, "verify", "orders")
        assert found.code == 1 and "lost, damaged or unproved" in found.err


def change_metadata(cluster: Cluster, ledger_id: int, change: Callable[[bytes], bytes] | None) -> None:
    """Of a ledger. None: it is lost."""
    key = (f"ledgers/{ledger_id:019}",)
    with closing(sqlite3.connect(cluster.directory / "meta.db")) as connection, connection:
        if change is None:
            assert connection.execute("DELETE FROM nodes WHERE key = ?", key).rowcount == 1
            return
        [(value,)] = connection.execute("SELECT value FROM nodes WHERE key = ?", key)
        connection.execute("UPDATE nodes SET value = ? WHERE key = ?", (change(value), *key))


async def test_verify_goes_on_after_ledgers_that_are_missing_or_damaged(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, connect(cluster.uri) as client:
        dlog = Command(cluster.uri)
        async with client.open_writer("orders", create=True) as writer:
            ids = []
            for number in range(5):
                if number:
                    await writer.rotate()
                ids.append((await writer.append(MARK)).ledger_id)
        missing, damaged, newer, last = ids[1:]
        change_metadata(cluster, missing, None)
        change_metadata(cluster, damaged, lambda value: value[:40])
        change_metadata(cluster, newer, lambda value: value.replace(b"Version\t3", b"Version\t9"))
        found = await call(dlog, "verify", "orders")
        assert found.code == 1
        lines = found.out.splitlines()
        assert lines[0].startswith(f"log orders lists ledger {missing}, which does not exist: restore ")
        assert lines[1].startswith(f"the metadata of ledger {damaged} is damaged: restore ")
        assert lines[2].startswith(f"the metadata of ledger {newer} cannot be used: ")
        assert lines[3:] == [
            "log orders: 2 entries in 2 ledgers; copies: 6 intact, 0 missing, 0 damaged, 0 unreachable; "
            "not checked: 3 ledgers"
        ]
        sentence = f"dlog: log orders lists ledger {missing}, {damaged}, {newer}, which cannot be checked"
        assert found.err.splitlines() == [sentence]

        await damage(cluster, 1)
        found = await call(dlog, "verify", "orders", "-o", "json")
        assert found.code == 1
        assert f"copies in ledger {ids[0]}, {last}, and lists ledger {missing}, {damaged}, " in found.err
        documents = json.loads(found.out)
        assert [each["ledger"] for each in documents] == ids
        assert [each["error"] is None for each in documents] == [True, False, False, False, True]
        assert [each["copies"]["damaged"] for each in documents] == [1, None, None, None, 1]
        assert all(each.keys() == documents[0].keys() for each in documents)
        assert all(each["verdicts"].keys() == documents[0]["verdicts"].keys() for each in documents)


async def test_verify_goes_on_if_the_open_ledger_does_not_respond(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path, bookies=4) as cluster, connect(cluster.uri) as client:
        dlog = Command(cluster.uri)
        async with client.open_writer("orders", create=True) as writer:
            first = (await writer.append(b"one")).ledger_id
        writer = await client.open_writer("orders")
        open_ledger = (await writer.append(b"two")).ledger_id
        writer.abort()
        for bookie in cluster.bookies[1:]:
            bookie.kill()
        found = await call(dlog, "verify", "orders")
        assert found.code == 1
        assert f"entry 0 of ledger {first} has " in found.out
        assert f"ledger {open_ledger}" in found.out.splitlines()[-2]
        assert f"lists ledger {open_ledger}, which cannot be checked" in found.err


async def test_wrong_ids_and_names_are_one_sentence(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path, bookies=3) as cluster, connect(cluster.uri) as client:
        dlog = Command(cluster.uri)
        async with client.open_writer("orders", create=True) as writer:
            last = await writer.append(b"one")
        (await call(dlog, "explain", "orders", "x")).must_fail(2, "x")
        (await call(dlog, "explain", "orders", f"{last.ledger_id + 9}:0:0")).must_fail(
            2, "is not of this log"
        )
        for command in (("verify", "absent"), ("history", "absent"), ("explain", "absent", "1:0:0")):
            (await call(dlog, *command)).must_fail(1, "log default/absent does not exist")
