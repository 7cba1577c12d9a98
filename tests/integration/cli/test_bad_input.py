"""Bad input: one sentence that names the value, the limit and the way out; exit code 1 or 2; nothing changed."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

from bookie_server.journal.record import FILE_HEADER_BYTES
from dlog.client import LogClient, connect
from dlog.core import metadata_keys
from dlog.local.embedded import Standalone
from ledger.metadata.drivers import open_store
from tests.helpers.bookie.headers import with_version
from tests.helpers.processes.command import Command, bookie

pytestmark = pytest.mark.integration

T = TypeVar("T")


def on_cluster(uri: str, work: Callable[[LogClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with await connect(uri) as client:
            return await work(client)

    return asyncio.run(run())


# ---- addresses


def test_no_address() -> None:
    Command()("ls").must_fail(2, "no cluster address", "--metadata", "DLOG_METADATA", "`dlog standalone`")


@pytest.mark.parametrize(
    ("uri", "code", "parts"),
    [
        ("nonsense", 2, ("'nonsense'", "scheme:rest", "sqlite:///")),
        ("etcd://localhost", 2, ("etcd", "sqlite")),
        ("sqlite:////nowhere/at/all/meta.db", 1, ("/nowhere/at/all/meta.db", "dlog standalone")),
        ("sqlite:////dev/null", 2, ("/dev/null", "check the address")),
    ],
)
def test_wrong_address(uri: str, code: int, parts: tuple[str, ...]) -> None:
    Command(uri).here("ls").must_fail(code, *parts)


def test_an_address_that_is_a_file_of_something_else(tmp_path: Path) -> None:
    file = tmp_path / "meta.db"
    file.write_bytes(b"this is no database, " * 100)
    Command(f"sqlite:///{file}")("ls").must_fail(1, str(file))
    assert file.read_bytes().startswith(b"this is no database")


# ---- bookies


def test_no_bookies(tmp_path: Path) -> None:
    """A cluster without bookies: the log is not touched, and the error says how to start some."""
    uri = f"sqlite:///{tmp_path / 'meta.db'}"

    async def init() -> None:
        store = await open_store(uri)
        await store.init_cluster()
        await store.close()

    asyncio.run(init())
    dlog = Command(uri)
    dlog.here("create", "orders").must_succeed()
    dlog("append", "orders", stdin=b"x\n").must_fail(1, "no bookie", "`bookie start`", "`dlog standalone`")
    assert on_cluster(uri, lambda client: client.describe("orders")).record.epoch == 0


def test_not_enough_bookies(tmp_path: Path) -> None:
    """One bookie where two copies are promised before an acknowledgement."""
    with Standalone(tmp_path / "data", bookies=1) as cluster:
        dlog = Command(cluster.uri)
        dlog.here("create", "orders").must_succeed()
        dlog("append", "orders", stdin=b"x\n").must_fail(
            1, "at least 2 writable bookies", "3 for all", "only 1 can", "start more"
        )
        assert on_cluster(cluster.uri, lambda client: client.describe("orders")).record.epoch == 0
        with closing(sqlite3.connect(tmp_path / "data" / "meta.db")) as database:
            assert database.execute("SELECT key FROM nodes WHERE key LIKE 'ledgers/%'").fetchall() == []


# ---- logs, names, ids


@pytest.mark.parametrize("command", ["append", "read", "tail", "info", "ledgers", "rotate", "seal", "delete"])
def test_unknown_log(dlog: Command, command: str) -> None:
    yes = ["--yes"] if command == "delete" else []
    dlog.here(command, "missing", *yes).must_fail(1, "missing", "does not exist", "create")
    assert "missing" not in dlog.here("ls").must_succeed()


def test_a_log_that_exists(dlog: Command) -> None:
    dlog.here("create", "twice").must_succeed()
    dlog.here("create", "twice").must_fail(2, "twice", "already exists", "another name")


@pytest.mark.parametrize("name", ["a/b", "..", "", "x" * 201, "sp ace"])
def test_a_name_that_is_not_valid(dlog: Command, name: str) -> None:
    dlog.here("create", name).must_fail(2, repr(name[:80]), "1 to 200 letters")


def test_a_namespace_that_is_not_valid(dlog: Command) -> None:
    dlog.here("ls", "--namespace", "a/b").must_fail(2, "'a/b'", "1 to 200 letters")


@pytest.mark.parametrize(
    "text", ["7", "1:2", "1:2:x", "-1:0:0", "99999999999999999999:0:0", "1:2:4294967296"]
)
def test_an_id_that_is_not_valid(dlog: Command, text: str) -> None:
    dlog.here("read", "x", "--from", text).must_fail(2, repr(text), "LEDGER:ENTRY:BATCH", "17:420:3")


def test_an_id_beyond_the_log(dlog: Command) -> None:
    dlog("append", "small", "--create", stdin=b"x\n").must_succeed()
    dlog.here("shrink", "small", "999999:0:0").must_fail(2, "999999:0:0", "highest id")


# ---- paths


def test_a_path_that_leads_to_itself(dlog: Command, tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    dlog("append", "looped", "--create", stdin=b"x\n").must_succeed()
    for force in ((), ("--force",)):
        dlog.here("export", "looped", "--to", "jsonl", str(loop), *force).must_fail(
            2, str(loop), "symbolic links"
        )
    dlog.here("standalone", "--data", str(loop)).must_fail(2, str(loop), "symbolic links")


def test_a_path_that_is_no_text(tmp_path: Path) -> None:
    """An address, and a cookie, are UTF-8. Nothing is made."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    uri = stopped_cluster(tmp_path / "data")
    Command().here("standalone", "--data", path).must_fail(2, "not UTF-8")
    Command(f"sqlite:///{path}").here("ls").must_fail(2, "not UTF-8")
    bookie("start", "--metadata", uri, "--data", path, "--port", "0").must_fail(2, "not UTF-8")
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


# ---- messages


def test_a_message_above_the_limit(dlog: Command) -> None:
    """What comes before it is appended and named; it and what follows are not."""
    large = b"x" * 1_100_000
    result = dlog("append", "large", "--create", stdin=b"before\n" + large + b"\nafter\n")
    assert "1 message acknowledged" in result.err
    result.must_fail(1, "message 2", "1100", "1048576", "split it")
    assert dlog.here("read", "large", "-o", "raw").must_succeed() == "before\n"


def test_a_file_that_begins_with_a_message_above_the_limit(dlog: Command, tmp_path: Path) -> None:
    """The log is not taken over, and not made, for nothing."""
    (tmp_path / "large").write_bytes(b"x" * 1_100_000)
    result = dlog("append", "untaken", str(tmp_path / "large"), "--create")
    result.must_fail(2, "message 1", "1100", "1048576", "split it")
    assert "untaken" not in dlog.here("ls").must_succeed()


def test_a_line_without_end(dlog: Command) -> None:
    dlog.here("create", "endless").must_succeed()
    dlog("append", "endless", stdin=b"x" * 6_000_000).must_fail(
        1, "a line of the input", "limit of a message is an entry of 1048576 bytes: split it"
    )
    too_long = (6_000_000).to_bytes(4, "big")
    failed = dlog("append", "endless", "--format", "raw-length", stdin=too_long)
    failed.must_fail(
        1, "a message of the input has 6000000 bytes or more; the limit of a message is an entry of 1048576"
    )


def test_input_that_does_not_fit_its_format(dlog: Command, tmp_path: Path) -> None:
    dlog.here("create", "misfit").must_succeed()
    dlog("append", "misfit", "--format", "jsonl", stdin=b"{}\n{\n").must_fail(1, "line 2", "not JSON")
    dlog("append", "misfit", "--key-column", "a", stdin=b"x\n").must_fail(2, "--key-column", "csv or jsonl")
    missing = str(tmp_path / "none")
    dlog("append", "misfit", missing).must_fail(2, f"cannot read {missing}: No such file", "or - for stdin")
    dlog("append", "misfit", str(tmp_path)).must_fail(2, f"cannot read {tmp_path}: Is a directory")


def test_wrong_input_after_the_takeover_is_no_wrong_usage(dlog: Command) -> None:
    """Exit code 2 promises that nothing was done. Stdin is read once the log is opened, since it may be silent."""
    result = dlog("append", "taken", "--create", "--format", "jsonl", stdin=b"[\n")
    result.must_fail(1, "line 1", "not JSON")
    assert "stopped early: no messages were acknowledged; the log was taken over" in result.err
    assert "taken" in dlog.here("ls").must_succeed()


def test_wrong_input_after_appended_messages_is_no_wrong_usage(dlog: Command, tmp_path: Path) -> None:
    """Exit code 2 promises that nothing was done, and a script that repeats the command would append them twice."""
    size = 1 << 20  # of a chunk of input: what is before the wrong line's chunk is appended
    lines = b"key:value\n" * (size // 10 + 100)
    rows = b"day,carrier\n" + b"1,AA\n" * (size // 5 + 100) + b"2\n"
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(lines)[:-1])
    dlog.here("create", "partly").must_succeed()
    for arguments, given, part in (
        (("-K", ":"), lines + b"no key\n", "has no key"),
        (("--format", "csv", "--key-column", "carrier"), rows, "has 1 column, but the key 'carrier'"),
        ((str(cut),), b"", "was cut off"),
    ):
        result = dlog("append", "partly", *arguments, stdin=given)
        assert "messages acknowledged" in result.err
        result.must_fail(1, part)


def test_a_file_that_does_not_fit_takes_no_log_over(dlog: Command, tmp_path: Path) -> None:
    """Neither is the log made that --create asks for."""
    file = tmp_path / "in.csv"
    file.write_bytes(b"day,carrier\n1,AA\n")
    arguments = ("--create", "--format", "csv", "--key-column", "airline")
    dlog("append", "untaken", str(file), *arguments).must_fail(2, "'airline'", "day, carrier")
    assert "untaken" not in dlog.here("ls").must_succeed()


# ---- ownership


def test_a_log_opened_by_someone_else(dlog: Command) -> None:
    """The first writer has its input still open when the second takes the log over."""
    dlog.here("create", "owned").must_succeed()
    with dlog.start("append", "owned") as first, dlog.start("tail", "owned", "-f", "-o", "raw") as tail:
        assert first.stdin is not None and tail.stdout is not None
        first.stdin.write(b"first\n")
        first.stdin.flush()
        assert tail.stdout.readline() == b"first\n"
        tail.kill()
        dlog("append", "owned", stdin=b"second\n").must_succeed()
        out, err = first.communicate(b"too late\n", timeout=60)
        tail.communicate()
    assert (first.returncode, out) == (1, b"")
    assert b"1 message acknowledged" in err
    assert b"was taken over by" in err and b"epoch 2" in err and b"Traceback" not in err
    assert dlog.here("read", "owned", "-o", "raw").must_succeed() == "first\nsecond\n"


# ---- damage


def test_a_damaged_metadata_value(dlog: Command, cluster: Standalone) -> None:
    dlog.here("create", "damaged").must_succeed()

    async def damage(client: LogClient) -> str:
        ref = await client.logs.find(client.name("damaged"))
        key = metadata_keys.record_key(metadata_keys.DEFAULT_ROOT, ref.name, ref.log_uuid)
        store = client.ledgers.store
        found = await store.read_record(key)
        await store.write_record(key, found.value[: len(found.value) // 2], found.version)
        return key

    on_cluster(cluster.uri, damage)
    for command in ("append", "read", "info"):
        dlog.here(command, "damaged").must_fail(1, "/dlog/default/damaged/", "record", "backup")


def test_damaged_ledger_metadata(tmp_path: Path) -> None:
    """Half of a value, as no store should ever return it."""
    with Standalone(tmp_path / "data") as cluster:
        dlog = Command(cluster.uri)
        dlog("append", "harmed", "--create", stdin=b"x\n").must_succeed()
        with closing(sqlite3.connect(tmp_path / "data" / "meta.db")) as database, database:
            database.execute("UPDATE nodes SET value = substr(value, 1, 40) WHERE key LIKE 'ledgers/%'")
        dlog("read", "harmed").must_fail(1, "metadata of ledger 1", "from a backup")
        shown = dlog("top", "-n", "1", "-d", "0.1")
        assert (shown.code, shown.err) == (0, "")
        assert "default/harmed" in shown.out
        assert "\nledger 1: " in shown.out and "metadata of ledger 1" in shown.out
        appended = dlog("append", "harmed", stdin=b"y\n")
        appended.must_succeed()
        assert "the metadata of ledger 1 is missing or damaged" in appended.err
        assert dlog("read", "harmed", "--on-data-loss", "gap", "-o", "raw").must_succeed() == "y\n"


def test_a_record_of_a_newer_version(dlog: Command, cluster: Standalone) -> None:
    dlog.here("create", "newer").must_succeed()

    async def change(client: LogClient) -> None:
        ref = await client.logs.find(client.name("newer"))
        key = metadata_keys.record_key(metadata_keys.DEFAULT_ROOT, ref.name, ref.log_uuid)
        found = await client.ledgers.store.read_record(key)
        await client.ledgers.store.write_record(
            key, found.value[:4] + b"\x09" + found.value[5:], found.version
        )

    on_cluster(cluster.uri, change)
    dlog.here("info", "newer").must_fail(1, "/dlog/default/newer/", "9", "3")


def stopped_cluster(directory: Path) -> str:
    with Standalone(directory, bookies=2) as cluster:
        return cluster.uri


def test_a_journal_from_a_newer_version(tmp_path: Path) -> None:
    """Nothing of the bookie is changed, and it does not serve."""
    uri = stopped_cluster(tmp_path / "data")
    data = tmp_path / "data" / "bookie-1"
    journal = next((data / "journal").glob("*.journal"))
    content = journal.read_bytes()
    content = with_version(content[:FILE_HEADER_BYTES], 7) + content[FILE_HEADER_BYTES:]
    journal.write_bytes(content)
    bookie("start", "--metadata", uri, "--data", str(data), "--port", "0").must_fail(
        2, str(journal), "version 7", "up to 2"
    )
    assert journal.read_bytes() == content


def test_a_swapped_disk(tmp_path: Path) -> None:
    """Bookie 1 finds what bookie 2 has written, then a disk that is new."""
    uri = stopped_cluster(tmp_path / "data")
    one, two = tmp_path / "data" / "bookie-1", tmp_path / "data" / "bookie-2"
    start = ("start", "--metadata", uri, "--data", str(one), "--port", "0")
    kept = tmp_path / "kept"
    (one / "ledgers").rename(kept)
    shutil.copytree(two / "ledgers", one / "ledgers")
    shutil.copy(kept / "port", one / "ledgers" / "port")
    bookie(*start).must_fail(2, str(one / "ledgers"))
    shutil.rmtree(one / "ledgers")
    (one / "ledgers").mkdir()
    shutil.copy(kept / "port", one / "ledgers" / "port")
    bookie(*start).must_fail(2, str(one / "ledgers"))
