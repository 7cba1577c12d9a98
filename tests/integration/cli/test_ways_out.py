"""What an error tells the user to do can be done with the command, and ends the error."""

from __future__ import annotations

import asyncio
import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dlog.client import connect
from dlog.core import metadata_keys
from dlog.local.embedded import Standalone
from ledger.model import LedgerId
from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration


async def lose_the_open_ledger(uri: str, log: str) -> LedgerId:
    """Its metadata; a writer that was aborted has left it unsealed."""
    async with connect(uri) as client:
        writer = await client.open_writer(log)
        lost = LedgerId((await writer.append(b"lost")).ledger_id)
        writer.abort()
        await client.ledgers.delete(lost)
    return lost


def test_a_log_whose_open_ledger_is_lost_is_taken_over_without_it(tmp_path: Path) -> None:
    with Standalone(tmp_path) as cluster:
        dlog = Command(cluster.uri)
        dlog("append", "orders", "--create", stdin=b"one\n").must_succeed()
        lost = asyncio.run(lose_the_open_ledger(cluster.uri, "orders"))
        option = f"--given-up {lost}"
        for command in (("append", "orders"), ("tail", "orders"), ("read", "orders"), ("info", "orders")):
            sentence = dlog(*command, stdin=b"two\n").must_fail(1, f"`dlog append {option}`", "from a backup")
            assert "on its bookies" not in sentence
        found = dlog("verify", "orders")
        assert found.code == 1 and f"`dlog append {option}`" in found.out
        assert dlog("append", "orders", "--given-up", "-1", stdin=b"two\n").code == 2
        dlog("append", "orders", *option.split(), stdin=b"two\n").must_succeed()
        assert dlog.here("read", "orders", "-o", "raw").must_succeed() == "one\ntwo\n"
        dlog("verify", "orders").must_succeed()


def test_a_log_whose_open_ledger_is_lost_is_deleted_without_it(tmp_path: Path) -> None:
    with Standalone(tmp_path) as cluster:
        dlog = Command(cluster.uri)
        dlog("append", "orders", "--create", stdin=b"one\n").must_succeed()
        lost = asyncio.run(lose_the_open_ledger(cluster.uri, "orders"))
        dlog("delete", "orders", "--yes").must_fail(
            1, f"`dlog delete --given-up {lost}`", "end the log's writer"
        )
        assert dlog("delete", "orders", "--yes", "--given-up", str(lost)).must_succeed() == "deleted orders\n"


async def trim_to_the_second(uri: str, log: str) -> str:
    async with connect(uri) as client:
        ids = [message.id async for message in client.reader(log, until="latest")]
        await client.shrink(log, ids[1])
    return str(ids[1])


def test_a_cursor_in_what_was_trimmed_is_moved(tmp_path: Path) -> None:
    with Standalone(tmp_path) as cluster:
        dlog = Command(cluster.uri)
        dlog("append", "orders", "--create", stdin=b"one\n").must_succeed()
        dlog("append", "orders", stdin=b"two\n").must_succeed()
        dlog.here("cursor", "set", "orders", "billing", "earliest").must_succeed()
        earliest = asyncio.run(trim_to_the_second(cluster.uri, "orders"))
        way_out = f"cursor set orders billing {earliest}"
        for start in ((), ("--from", earliest)):
            dlog("read", "orders", "--cursor", "billing", *start).must_fail(
                2, "was trimmed", f"`dlog {way_out}`"
            )
        dlog(*way_out.split()).must_succeed()
        assert dlog.here("read", "orders", "--cursor", "billing", "-o", "raw").must_succeed() == "two\n"
        for command in (("info", "order"), ("delete", "order", "--yes"), ("read", "order")):
            sentence = dlog(*command).must_fail(1, "log default/order does not exist", "`dlog ls`")
            assert "create it first" not in sentence
        dlog.here("cursor", "rm", "orders", "biling").must_fail(
            1, "has no cursor 'biling'", "`dlog cursor ls`"
        )


async def begin_to_delete(uri: str, log: str) -> None:
    """And end before a ledger is deleted."""
    async with connect(uri) as client:

        async def fail(*_arguments: object, **_options: object) -> None:
            raise RuntimeError("the process ends here")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(client.ledgers, "delete", fail)
            with pytest.raises(RuntimeError):
                await client.delete(log)


def test_a_log_whose_deletion_was_interrupted_is_not_read_as_an_empty_one(tmp_path: Path) -> None:
    with Standalone(tmp_path) as cluster:
        dlog, file = Command(cluster.uri), str(tmp_path / "orders.jsonl")
        dlog("append", "orders", "--create", stdin=b"one\n").must_succeed()
        asyncio.run(begin_to_delete(cluster.uri, "orders"))
        for command in (
            ("read", "orders"),
            ("read", "orders", "--from", "1h", "--cursor", "billing"),
            ("tail", "orders"),
            ("export", "orders", file, "--to", "jsonl"),
            ("verify", "orders"),
        ):
            dlog.here(*command).must_fail(1, "is being deleted")
        assert not Path(file).exists()
        assert "deleting" in dlog.here("info", "orders").must_succeed()
        assert dlog("delete", "orders", stdin=b"y\n").must_succeed() == "deleted orders\n"
        assert dlog.here("ls").must_succeed() == ""


async def lose_the_second_ledger(uri: str, log: str) -> None:
    async with connect(uri) as client:
        await client.ledgers.delete((await client.list_ledgers(log))[1].ledger_id)


def test_what_a_lost_ledger_held_is_read_past(tmp_path: Path) -> None:
    with Standalone(tmp_path) as cluster:
        dlog = Command(cluster.uri)
        for line in (b"one\n", b"two\n", b"three\n"):
            dlog("append", "orders", "--create", stdin=line).must_succeed()
        second = json.loads(dlog.here("read", "orders", "-o", "json").must_succeed().splitlines()[1])
        asyncio.run(lose_the_second_ledger(cluster.uri, "orders"))
        option = ("--on-data-loss", "gap", "-o", "raw")
        for command, expected in (
            (("read", "orders"), "one\nthree\n"),
            (("read", "orders", "--from", second["time"], "--limit", "1"), "three\n"),
            (("read", "orders", "--until", second["time"]), "one\n"),
            (("read", "orders", "--cursor", "billing"), "one\nthree\n"),
            (("tail", "orders", "-n", "2"), "three\n"),
            (("tail", "orders", "-n", "3"), "one\nthree\n"),
        ):
            refused = dlog.here(*command)
            assert refused.code == 1
            assert "missing on all bookies" in refused.err or "--on-data-loss gap" in refused.err
            found = dlog.here(*command, *option)
            assert found.must_succeed() == expected
            [sentence] = found.err.splitlines()
            assert sentence.startswith(f"dlog: data loss: messages from {second['id']} to before ")
        assert dlog.here("read", "orders", "--cursor", "billing").must_succeed() == ""
        check_exports(dlog, tmp_path, second)


def test_a_ledger_whose_metadata_is_damaged_is_read_past(tmp_path: Path) -> None:
    with Standalone(tmp_path) as cluster:
        dlog = Command(cluster.uri)
        for line in (b"one\n", b"two\n", b"three\n"):
            dlog("append", "orders", "--create", stdin=line).must_succeed()
        ids = [json.loads(line)["id"] for line in dlog.here("read", "orders", "-o", "json").out.splitlines()]
        second = ids[1].partition(":")[0]
        with closing(sqlite3.connect(cluster.uri.removeprefix("sqlite:///"))) as connection, connection:
            key = f"ledgers/{int(second):019}"
            changed = connection.execute(
                "UPDATE nodes SET value = substr(value, 1, 40) WHERE key = ?", (key,)
            )
            assert changed.rowcount == 1
        file = tmp_path / "orders.jsonl"
        for command in (
            ("read", "orders", "-o", "json"),
            ("tail", "orders", "-n", "3", "-o", "json"),
            ("export", "orders", "--to", "jsonl", str(file)),
        ):
            refused = dlog(*command)
            assert refused.code == 1 and not file.exists()
            assert f"the metadata of ledger {second} is damaged: restore the metadata store" in refused.err
            found = dlog(*command, "--on-data-loss", "gap")
            printed = found.must_succeed() if command[0] != "export" else file.read_text()
            assert [json.loads(line)["id"] for line in printed.splitlines()] == [ids[0], ids[2]]
            [sentence] = found.err.splitlines()
            assert sentence.startswith(f"dlog: data loss: messages from {ids[1]} to before ")


async def lose_a_page(uri: str, log: str) -> tuple[str, list[str]]:
    """The name of the only page, and the ids of the messages that it does not list."""
    async with connect(uri) as client:
        async with client.open_writer(log, create=True) as writer:
            ids = []
            for number in range(130):
                ids.append(await writer.append(b"%d" % number))
                await writer.rotate()
        ref, record = (info := await client.describe(log)).ref, info.record
        [page] = record.pages
        key = metadata_keys.page_key(ref.root, ref.name, ref.log_uuid, page.name)
        await client.ledgers.store.remove_record(key, 0)
    return page.name, [str(one) for one in ids if one.ledger_id > page.last_id]


def test_what_a_lost_page_of_the_list_held_is_read_past(tmp_path: Path) -> None:
    with Standalone(tmp_path) as cluster:
        dlog = Command(cluster.uri)
        page, left = asyncio.run(lose_a_page(cluster.uri, "orders"))
        assert 0 < len(left) < 130
        file = tmp_path / "orders.jsonl"
        for command in (
            ("read", "orders", "-o", "json"),
            ("tail", "orders", "-n", "129", "-o", "json"),
            ("export", "orders", "--to", "jsonl", str(file)),
        ):
            dlog(*command).must_fail(1, f"page {page} ", "from a backup", "--on-data-loss gap")
            found = dlog(*command, "--on-data-loss", "gap")
            printed = found.must_succeed() if command[0] != "export" else file.read_text()
            assert [json.loads(line)["id"] for line in printed.splitlines()] == left
            [sentence] = found.err.splitlines()
            assert sentence.startswith("dlog: data loss: messages from 1:0:0 to before ")


def check_exports(dlog: Command, tmp_path: Path, second: dict[str, str]) -> None:
    """Of a log whose second message is lost: the file has the others, and the command reports the gap."""
    pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install '.[arrow]'")
    for form in ("jsonl", "csv", "parquet"):
        file = tmp_path / f"orders.{form}"
        for bounds, expected in (
            ((), ["one", "three"]),
            (("--from", second["time"]), ["three"]),
            (("--until", second["time"]), ["one"]),
        ):
            command = ("export", "orders", "--to", form, *bounds, str(file))
            assert dlog.here(*command).code == 1
            assert not file.exists()
            found = dlog(*command, "--on-data-loss", "gap")
            count = f"{len(expected)} message{'' if len(expected) == 1 else 's'}"
            said = f"{count} exported to {file}, 1 gap passed over; continue with --from "
            assert found.must_succeed().startswith(said)
            [sentence] = found.err.splitlines()
            assert sentence.startswith(f"dlog: data loss: messages from {second['id']} to before ")
            assert payloads_of(file) == expected
            file.unlink()
    piped = dlog("export", "orders", "--to", "jsonl", "--on-data-loss", "gap", "-")
    assert len(piped.must_succeed().splitlines()) == 2
    assert piped.err.startswith("dlog: data loss: messages from ")
    whole = dlog(
        "export", "orders", "--to", "csv", "--from", "latest", "--on-data-loss", "gap", str(tmp_path / "new")
    )
    assert "gap" not in whole.must_succeed() and whole.err == ""


def payloads_of(file: Path) -> list[str]:
    match file.suffix:
        case ".jsonl":
            return [json.loads(line)["payload"] for line in file.read_text().splitlines()]
        case ".csv":
            return [row["payload"] for row in csv.DictReader(file.read_text().splitlines())]
        case _:
            from pyarrow.parquet import read_table

            return [row["value"].decode() for row in read_table(file).to_pylist()]
